"""Megatron: an external dataloader, placed by the samples consumed.

    torchrun --nproc-per-node 2 examples/trainers/train_megatron.py tokens/

In a run, ``pretrain(dataset_provider(make), ..)`` with ``--dataloader-type external``;
here the parts of megatron-core that do without a GPU take the batches.
"""

import sys

import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.rerun_state_machine import RerunDataIterator

import pagefeed as pf
from pagefeed.integrations.megatron import FIELDS, dataset_provider

MICRO_BATCH_SIZE = 4


def run(tokens: str, consumed: int, steps: int) -> None:
    """Take micro-batches as Megatron does, after so many samples."""

    def make(rank: int, world_size: int) -> pf.Loader:
        return pf.Loader(
            pf.parquet(tokens, column="input_ids"),
            sequences=pf.Packed(128, eos=0),
            batch_size=MICRO_BATCH_SIZE,
            seed=1,
            epochs=None,
            format="torch",
            fields=FIELDS,
            rank=rank,
            world_size=world_size,
        )

    # By default it takes them from Megatron's args.consumed_train_samples.
    provide = dataset_provider(make, consumed_samples=lambda: consumed)
    training, _, _ = provide([0, 0, 0])
    batches = RerunDataIterator(training)
    for _ in range(steps):
        batch = next(batches)
    loader = training.loader
    print({name: tuple(value.shape) for name, value in batch.items()})
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    data_parallel = parallel_state.get_data_parallel_world_size()
    run(sys.argv[1], consumed=0, steps=10)
    run(sys.argv[1], consumed=10 * MICRO_BATCH_SIZE * data_parallel, steps=5)
    dist.destroy_process_group()
