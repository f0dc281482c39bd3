"""megatron-core's ranks, its cross entropy, its rerun iterator around a loader."""

from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.rerun_state_machine import RerunDataIterator
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

from job import Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.megatron import FIELDS, MicroBatches, dataset_provider
from pagefeed.launch import from_megatron

job = Job()
IGNORED = -100
RANK = job.rank, job.world_size


def make(rank, world_size, **options):
    settings = {"fields": FIELDS, "epochs": None} | options
    return job.loader(rank=rank, world_size=world_size, **settings)


def steps(batches, count):
    found = []
    for _ in range(count):
        batch = next(batches)
        kinds = {name: str(value.dtype) for name, value in batch.items()}
        assert kinds == {
            "tokens": "torch.int64",
            "labels": "torch.int64",
            "loss_mask": "torch.float32",
            "position_ids": "torch.int64",
        }
        is_label = batch["labels"] != IGNORED
        assert torch.equal(batch["loss_mask"], is_label.float())
        found.append(batch["tokens"][:, 0].tolist())
    return found


def provided(consumed):
    """As Megatron's ``external`` dataloader is made and read."""
    provide: Any = dataset_provider(make, make, consumed_samples=lambda: consumed)
    assert provide.is_distributed
    train, valid, test = provide([1, 1, 1], vp_stage=0)
    assert test is None
    assert isinstance(valid, MicroBatches)
    return RerunDataIterator(train)


def loss_of(labels):
    """Loss and slope of Megatron's own cross entropy, without three of the tokens."""
    logits = torch.randn(8, 1, 16, generator=torch.Generator().manual_seed(0))
    logits.requires_grad_()
    mask = torch.ones(8, 1)
    mask[2:5] = 0
    loss = (vocab_parallel_cross_entropy(logits.clone(), labels) * mask).sum()
    [slope] = torch.autograd.grad(loss, logits)
    return [loss.item(), *slope.flatten().tolist()]


dist.init_process_group("gloo")
parallel_state.initialize_model_parallel()
job.report("ranks", list(from_megatron()))
batches = provided(6 * 8)
steps(batches, 20)
saved = batches.iterable.save_state()
again = MicroBatches(make(*from_megatron()))
again.restore_state(saved)
job.report("saved", {"seen": steps(RerunDataIterator(again), 3)})
job.report("last", {"seen": steps(batches, 3)})
wrong: dict[str, dict[str, Any]] = {
    "finite": {"epochs": 1},
    "numpy": {"format": "numpy"},
}
for name, options in wrong.items():
    try:
        MicroBatches(make(*from_megatron(), **options))
    except InvalidArgumentError as error:
        job.report(name, str(error))
parallel_state.destroy_model_parallel()
parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
labels = torch.arange(8)[:, None]
ignored = labels.clone()
ignored[2:5] = IGNORED
assert loss_of(ignored) == loss_of(labels)
job.report("tensor ranks", list(from_megatron()))
peers = parallel_state.get_tensor_model_parallel_group()
make(*from_megatron()).check_ranks(same=peers)
for name, given in (("peers", from_megatron()), ("silent", RANK)):
    first = next(iter(make(*given)))["input_ids"]
    job.report(name, first[:, 0].tolist())
try:
    make(*RANK).check_ranks(same=peers)
except InvalidArgumentError as error:
    job.report("by RANK", str(error))
dist.destroy_process_group()
