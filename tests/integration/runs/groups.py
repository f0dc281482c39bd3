"""One of two processes of a gloo group; `test_process_groups` runs it."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh

from made.numbered import numbered_loader
from pagefeed.errors import InvalidArgumentError, RankWarning
from pagefeed.launch import from_group, from_mesh
from pagefeed.torch import Leaf

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
found: dict[str, object] = {}


def refused(name, call):
    try:
        call()
    except InvalidArgumentError as error:
        found[name] = str(error)


def loader(ranks, **options):
    settings = ranks._asdict() | {"format": "torch", "num_threads": 1} | options
    return numbered_loader(folder / "data", **settings)


data = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
with warnings.catch_warnings():
    # Groups of one process leave nothing to prove.
    warnings.simplefilter("error", RankWarning)
    loader(from_mesh(data, "dp")).check_ranks()
tensor = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
found["data"] = list(from_mesh(data, "dp"))
found["both"] = list(from_mesh(data["dp"]))
found["tensor"] = list(from_mesh(tensor, "dp"))
found["group"] = list(from_group())
peers = tensor["tp"].get_group()

whole = loader(from_group())
whole.check_ranks()
whole.check_ranks(same=data["tp"].get_group())
loader(from_mesh(tensor, "dp")).check_ranks(same=peers)
refused("same", lambda: whole.check_ranks(same=peers))
refused("seed", lambda: loader(from_group(), seed=rank).check_ranks())
refused("missing", lambda: loader(from_mesh(tensor, "dp"), world_size=2).check_ranks())

batches = iter(whole)
seen = [next(batches)["input_ids"][:, 0].tolist() for _ in range(4)]
save({"data": Leaf(whole)}, checkpoint_id=str(folder / "dcp"))
found["seen"] = seen
mine = whole.metrics()
everyone = whole.metrics(dist.group.WORLD)
found["slowest"] = mine["data/wait_seconds_total"], everyone["data/wait_seconds_total"]

(folder / f"found-{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
# At once: gloo's threads outlive the group here, and one that lets go of a tensor while
# the interpreter ends would abort the process (torch 2.15).
os._exit(0)
