"""OLMo-core's own trainer on the CPU: two epochs, and again from its checkpoints."""

import sys

import torch
from olmo_core.distributed.utils import get_world_size
from olmo_core.train import (
    Duration,
    TrainerConfig,
    prepare_training_environment,
    teardown_training_environment,
)
from olmo_core.train.callbacks import Callback, CheckpointerCallback
from olmo_core.train.train_module import EvalBatchSpec, TrainModule

from job import LENGTH, Job
from pagefeed.integrations.olmo import PagefeedDataLoader
from tiny_model import Model

job = Job()
FIELDS = ("input_ids", "loss_mask", "doc_lens", "max_doc_lens")


class Module(TrainModule):
    """Trains nothing much, and keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.model = Model()
        self.seen: list[list[int]] = []
        self.documents = 0

    @property
    def eval_batch_spec(self):
        return EvalBatchSpec(rank_batch_size=4 * LENGTH)

    @property
    def dp_process_group(self):
        return None

    def state_dict(self, *, optim=None):
        del optim
        return {"model": self.model.state_dict()}

    def load_state_dict(self, state_dict):
        self.model.load_state_dict(state_dict["model"])

    def train_batch(self, batch, dry_run=False):
        if dry_run:
            return
        self.seen.append(batch["input_ids"][:, 0].tolist())
        assert batch["doc_lens"].sum(dim=1).tolist() == [LENGTH] * 4
        assert batch["max_doc_lens"] == batch["doc_lens"].amax(dim=1).tolist()
        assert batch["label_mask"].dtype == torch.bool

    def eval_batch(self, batch, labels=None):
        raise NotImplementedError

    def optim_step(self):
        """Nothing is learnt."""

    def zero_grads(self):
        """Nothing to clear."""

    def num_flops_per_token(self, seq_len):
        del seq_len

    def global_num_flops_in_batch(self, batch):
        del batch


class Die(Callback):
    """Ends the process at a step."""

    def post_step(self):
        if self.step == job.options.get("die_at"):
            job.die()


def train(name, resume=None, epochs=2, steps=None):
    module = Module()
    loader = job.loader(fields=FIELDS)
    data = PagefeedDataLoader(loader, work_dir=job.folder / "work")
    duration = Duration.steps(steps) if steps else Duration.epochs(epochs)
    trainer = TrainerConfig(
        save_folder=str(job.folder / name),
        max_duration=duration,
        metrics_collect_interval=100,
        callbacks={
            "checkpointer": CheckpointerCallback(
                save_interval=7, ephemeral_save_interval=None, save_async=False
            ),
            "die": Die(),
        },
    ).build(module, data)
    if resume:
        trainer.load_checkpoint(str(job.folder / resume))
    trainer.fit()
    job.report(
        name,
        {"seen": module.seen, "steps": trainer.global_step, "epoch": trainer.epoch},
    )


prepare_training_environment(backend="gloo" if job.world_size > 1 else None)
assert get_world_size() == job.world_size
for run, options in job.options["runs"].items():
    train(run, **options)
teardown_training_environment()
sys.exit(0)
