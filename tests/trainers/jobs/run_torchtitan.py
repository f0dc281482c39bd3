"""torchtitan's dataloader contract, its mesh, its own loop over batches, and DCP."""

from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    OptimizersContainer,
    ParamGroupConfig,
)
from torchtitan.distributed import parallel_dims
from torchtitan.trainer import Trainer

import pagefeed as pf
from job import LENGTH, Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.torchtitan import PagefeedDataLoader
from pagefeed.launch import from_mesh
from tiny_model import Model

job = Job()
dist.init_process_group("gloo")
SAVE_EVERY = 6
FIELDS = pf.Fields(names=("input_ids", "labels", "position_ids"), shifted=True)


def make(rank, world_size, **options):
    settings = {"fields": FIELDS, "epochs": None} | options
    return job.loader(rank=rank, world_size=world_size, **settings)


def build(ranks, make=make, **options):
    """As torchtitan's trainer builds it."""
    shape = options or {"local_batch_size": 4, "seq_len": LENGTH}
    config = PagefeedDataLoader.Config(make=make)
    return config.build(
        dp_rank=ranks.rank,
        dp_world_size=ranks.world_size,
        tokenizer=None,
        snapshot_every_n_steps=6,
        **shape,
    )


generators: dict[Any, Any] = {}


def steps(data, count):
    """Batches by torchtitan's own generator, one for each run as in its trainer."""
    told = SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
    trainer = SimpleNamespace(metrics_processor=told)
    if data not in generators:
        generators[data] = Trainer.batch_generator(trainer, data)
    batches = generators[data]
    found = []
    for _ in range(count):
        inputs, labels = next(batches)
        ids = inputs["input"]
        assert (labels.flatten()[:-1] == ids.flatten()[1:])[
            (labels.flatten()[:-1] != -100).nonzero()
        ].all()
        assert inputs["positions"].shape == ids.shape == labels.shape
        found.append(ids.reshape(-1, LENGTH)[:, 0].tolist())
        inputs["input"] = None  # As its trainer writes into them.
    return found


def train(name, stop, die_at=None):
    """Go on from torchtitan's last checkpoint, if there is one, and save others."""
    model = Model()
    groups = ParamGroupConfig(
        pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.1}
    )
    optimizers = OptimizersContainer.Config(
        implementation="for-loop", param_groups=[groups]
    ).build(model_parts=[model])
    data = build(ranks)
    saving = CheckpointManager.Config(enable=True, interval=SAVE_EVERY)
    manager = saving.build(
        dataloader=data,
        model_parts=[model],
        optimizers=optimizers,
        lr_schedulers=LRSchedulersContainer.Config().build(
            optimizers=optimizers, training_steps=stop
        ),
        states={},
        sd_adapter=None,
        base_folder=str(job.folder / "killed"),
    )
    resumed = manager.load()
    seen = []
    for step in range(data.loader.step + 1, stop + 1):
        seen += steps(data, 1)
        if step == die_at:
            job.report(name, {"seen": seen, "resumed": resumed})
            job.die()
        manager.save(step)
    job.report(name, {"seen": seen, "resumed": resumed})


dims = {"dp_replicate": 1, "cp": 1, "tp": 1, "pp": 1, "ep": 1, "dp_shard": -1}
parallel_dims.device_type = "cpu"
parallel = parallel_dims.ParallelDims(**dims, world_size=job.world_size)
parallel.build_mesh()
mesh = parallel.get_optional_mesh("batch", include_singleton_axes=True)
ranks = from_mesh(mesh)
job.report("ranks", list(ranks))
if "train" in job.options:
    train(**job.options["train"])
elif job.options.get("resume"):
    for step, count in job.options["resume"]:
        data = build(ranks)
        load({"dataloader": data}, checkpoint_id=str(job.folder / f"dcp-{step}"))
        job.report(f"from {step}", {"seen": steps(data, count)})
else:
    data = build(ranks)
    data.load_state_dict({})
    seen: list[list[int]] = []
    for step in (6, 14, 28):
        seen += steps(data, step - len(seen))
        save({"dataloader": data}, checkpoint_id=str(job.folder / f"dcp-{step}"))
    job.report("whole", {"seen": seen})
    joined = build(ranks, num_tokens_per_batch=4 * LENGTH)
    inputs, labels = next(iter(joined))
    job.report("joined", [list(inputs["input"].shape), list(labels.shape)])
    try:
        build(
            ranks, lambda rank, size: make(rank, size, fields=("input_ids", "labels"))
        )
    except InvalidArgumentError as error:
        job.report("not shifted", str(error))
dist.destroy_process_group()
