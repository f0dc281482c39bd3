"""Parts of torchtitan's trainer, which as a whole needs a GPU."""

from types import SimpleNamespace

from torch import distributed
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    OptimizersContainer,
    ParamGroupConfig,
)
from torchtitan.distributed import parallel_dims
from torchtitan.trainer import Trainer

from pagefeed.launch import from_mesh

IGNORED = -100


def ranks_of(world_size):
    """The data-parallel rank and size, by torchtitan's mesh."""
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    dims = {"dp_replicate": 1, "cp": 1, "tp": 1, "pp": 1, "ep": 1, "dp_shard": -1}
    parallel_dims.device_type = "cpu"
    parallel = parallel_dims.ParallelDims(**dims, world_size=world_size)
    parallel.build_mesh()
    return from_mesh(parallel.get_optional_mesh("batch", include_singleton_axes=True))


def batches_of(data):
    """Batches by torchtitan's own generator, one for a run as in its trainer."""
    told = SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
    trainer = SimpleNamespace(metrics_processor=told)
    for inputs, labels in Trainer.batch_generator(trainer, data):
        ids = inputs["input"]
        follows = labels.flatten()[:-1] == ids.flatten()[1:]
        assert (follows | (labels.flatten()[:-1] == IGNORED)).all()
        assert inputs["positions"].shape == ids.shape == labels.shape
        yield dict(inputs), labels
        inputs["input"] = None  # As its trainer writes into them.


def manager_of(data, model, folder, num_steps):
    """torchtitan's manager, which saves model, optimizer and data together."""
    groups = ParamGroupConfig(
        pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.1}
    )
    optimizers = OptimizersContainer.Config(
        implementation="for-loop", param_groups=[groups]
    ).build(model_parts=[model])
    return CheckpointManager.Config(enable=True, interval=1).build(
        dataloader=data,
        model_parts=[model],
        optimizers=optimizers,
        lr_schedulers=LRSchedulersContainer.Config().build(
            optimizers=optimizers, training_steps=num_steps
        ),
        states={},
        sd_adapter=None,
        base_folder=str(folder),
    )
