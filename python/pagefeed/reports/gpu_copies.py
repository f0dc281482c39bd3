"""The accelerator in a training: its load, and copies of batches to it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core.batches import Batch
from pagefeed.errors import MissingDependencyError, UnsupportedError
from pagefeed.metrics import gpu_numbers


class Copy(NamedTuple):
    """The copy of a batch to the accelerator."""

    seconds: float
    """Time on the accelerator's stream."""
    is_pinned: bool
    """Whether all of the batch lies in page-locked memory."""


def copy_of(batch: Batch) -> Copy | None:
    """Measure the copy of a batch; None if no training uses CUDA, or nothing is copied.

    Args:
        batch: Arrays or tensors by name; those on the host are copied.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    kinds = np.ndarray, torch.Tensor
    arrays = [value for value in batch.values() if isinstance(value, kinds)]
    tensors = [value for value in map(torch.as_tensor, arrays) if not value.is_cuda]
    if not tensors:
        return None
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):  # The first copy also takes memory.
        torch.cuda.synchronize()
        begin.record()
        for tensor in tensors:
            tensor.to("cuda", non_blocking=True)
        end.record()
        end.synchronize()
    pinned = all(tensor.is_pinned() for tensor in tensors)
    return Copy(begin.elapsed_time(end) / 1e3, pinned)


def seen_gpu() -> dict[str, float]:
    """Return the load of this process's GPU; empty where it cannot be read."""
    with suppress(MissingDependencyError, UnsupportedError):
        return gpu_numbers()
    return {}
