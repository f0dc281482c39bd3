"""torchtitan: the dataloader of a ``Trainer.Config``, as its trainer builds it.

    python examples/trainers/train_torchtitan.py tokens/

In a run, a function in a module named by ``--module`` returns the trainer's config with
``config.dataloader = dataloader(...)``; the trainer itself needs a GPU.
"""

import sys

import pagefeed as pf
from pagefeed.integrations.torchtitan import PagefeedDataLoader

LENGTH, BATCH_SIZE = 128, 4


def dataloader(tokens: str) -> PagefeedDataLoader.Config:
    """Return the settings of the data."""

    def make(rank: int, world_size: int) -> pf.Loader:
        return pf.Loader(
            pf.parquet(tokens, column="input_ids"),
            sequences=pf.Packed(LENGTH, eos=0),
            batch_size=BATCH_SIZE,
            seed=1,
            epochs=None,
            format="torch",
            fields=pf.Fields(
                names=("input_ids", "labels", "position_ids"), shifted=True
            ),
            rank=rank,
            world_size=world_size,
        )

    return PagefeedDataLoader.Config(make=make)


def main(tokens: str) -> None:
    """Build it as the trainer does, and take ten batches."""
    config = dataloader(tokens)
    data = config.build(
        dp_rank=0,
        dp_world_size=1,
        tokenizer=None,
        seq_len=LENGTH,
        local_batch_size=BATCH_SIZE,
    )
    batches = iter(data)
    for _ in range(10):
        inputs, labels = next(batches)
    print({name: tuple(value.shape) for name, value in inputs.items()}, labels.shape)
    print(f"rank 0 of 1 ends at step {data.loader.step}")


if __name__ == "__main__":
    main(sys.argv[1])
