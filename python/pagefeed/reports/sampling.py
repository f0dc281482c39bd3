"""Choose which of many items a report looks at."""

from __future__ import annotations

import numpy as np

from pagefeed.core._base import Int64Array

__all__ = ["evenly"]


def evenly(count: int, most: int) -> Int64Array:
    """Return numbers below ``count`` at even distances: all, or ``most`` of them.

    Returns:
        int64 [numbers], rising, the first and the last among them.

    Example:
        >>> evenly(10, 4), evenly(2, 4), evenly(0, 4)
        (array([0, 3, 6, 9]), array([0, 1]), array([], dtype=int64))
    """
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
