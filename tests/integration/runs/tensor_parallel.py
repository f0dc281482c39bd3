"""One of four processes, two by two; `test_process_groups` runs it."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from made.numbered import numbered_loader
from pagefeed.launch import from_group, from_mesh

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
peers = mesh["tp"].get_group()


def loader(ranks):
    return numbered_loader(folder / "data", num_threads=1, **ranks._asdict())


def warned(ranks, same=None):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        loader(ranks).check_ranks(same=same)
    return [str(each.message) for each in heard if "could not" in str(each.message)]


right = from_mesh(mesh, "dp")
found = {
    "rank": list(right),
    "named": warned(right, peers),
    "shared": warned(right),
    "alone": warned(from_group()),
    "seen": [int(row) for batch in loader(right) for row in batch["input_ids"][:, 0]],
}
(folder / f"two-by-two-{dist.get_rank()}.json").write_text(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # As in groups.py.
