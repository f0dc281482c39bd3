"""What the replicas of a fleet train on, and how: the same for all."""

from pathlib import Path

import torch

import pagefeed as pf

SIZE = 12
LENGTH = 32


def make_loader(folder: Path) -> pf.Loader:
    """Numbered tokens, the same for all."""
    return pf.Loader(
        pf.parquet(folder / "data", column="input_ids"),
        sequences=pf.Windows(LENGTH, tail="drop"),
        global_batch_size=SIZE,
        seed=5,
        epochs=None,
        format="torch",
        rank=0,
        world_size=1,
        num_threads=1,
        memory="16MiB",
    )


def gradient(weights: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Of a mean over rows that depends on all tokens and on the weights."""
    rows = tokens.double() / 1000
    return (torch.sin(rows + weights) * rows).mean(dim=0)
