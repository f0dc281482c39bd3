"""How well batches are mixed: samples that meet neighbours, compared with chance."""

import numpy as np
import numpy.typing as npt

__all__ = ["meetings", "repeated"]

Numbers = npt.NDArray[np.int64]


def meetings(batches: Numbers, groups: Numbers) -> float:
    """How often two samples of a batch are of one group, over how often by chance.

    1 is a uniform shuffle. An order that reads group by group gives many times as much,
    one that takes a sample of each group in turn gives 0.

    Args:
        batches: Numbers of samples, int64 [batches, batch_size].
        groups: The group of each sample of the data, int64 [samples], such as its page.
    """
    sizes = np.bincount(groups).astype(np.float64)
    total = float(len(groups))
    by_chance = (sizes * (sizes - 1)).sum() / (total * (total - 1))
    of_batches = np.sort(groups[batches], axis=1)
    pairs = batches.shape[1] * (batches.shape[1] - 1) / 2
    met = sum(_pairs(row) for row in of_batches) / (len(batches) * pairs)
    return float(met / by_chance)


def _pairs(groups: Numbers) -> int:
    """Pairs of equal numbers."""
    counts = np.unique(groups, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def repeated(batches: Numbers) -> float:
    """The share of samples that came before, in a part of one epoch."""
    return 1 - len(np.unique(batches)) / batches.size
