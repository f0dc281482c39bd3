"""Epochs of sequences: a number tells which sequence, and for which epoch.

Where documents are infilled, a sequence holds other tokens in every epoch. The epoch
then lies above the number of the sequence, and above those of its pages in a plan.
"""

from __future__ import annotations

import numpy as np

from pagefeed.core._base import Int64Array

__all__ = ["EPOCH_SHIFT", "epochs_of", "numbers_of", "with_epoch"]

EPOCH_SHIFT = 40
"""Bits of a number below those of its epoch, as in the data plane."""
MOST_EPOCHS = 1 << 21
"""Epochs after which cuts come round again."""


def with_epoch(numbers: Int64Array, epoch: int) -> Int64Array:
    """Return numbers of sequences or pages with an epoch.

    Example:
        >>> found = with_epoch(np.array([7, 8]), 3)
        >>> numbers_of(found).tolist(), epochs_of(found).tolist()
        ([7, 8], [3, 3])
    """
    return numbers if epoch == 0 else numbers + (epoch % MOST_EPOCHS << EPOCH_SHIFT)


def numbers_of(numbers: Int64Array) -> Int64Array:
    """Return the numbers without their epochs; negative ones as they are."""
    return np.where(numbers < 0, numbers, numbers & ((1 << EPOCH_SHIFT) - 1))


def epochs_of(numbers: Int64Array) -> Int64Array:
    """Return the epochs; -1 of negative numbers."""
    return numbers >> EPOCH_SHIFT
