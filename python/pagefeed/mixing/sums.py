"""Sum a few numbers over all ranks; each rank gets the sum."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["sums_over"]


def sums_over(values: Any, group: Any = None) -> Any:
    """Return the sums of float64 numbers over the ranks of a group.

    Args:
        values: An array or a tensor, of the same shape everywhere.
        group: A process group of torch; None for all processes, or for this one where
            nothing was initialised; or a function that gathers plain objects.

    Returns:
        An array, or a tensor on the device that the group's backend needs.
    """
    if callable(group):
        mine = values if isinstance(values, np.ndarray) else values.cpu().numpy()
        return np.sum(group(mine), axis=0)
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return values
    distributed = torch.distributed
    if not distributed.is_initialized():
        return values
    tensor = torch.as_tensor(values, dtype=torch.float64).clone()
    if "gloo" not in distributed.get_backend(group) and not tensor.is_cuda:
        tensor = tensor.to(torch.accelerator.current_accelerator())
    distributed.all_reduce(tensor, group=group)
    return tensor
