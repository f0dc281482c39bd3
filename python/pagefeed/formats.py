"""What batches are handed out as: NumPy arrays or torch tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy.typing as npt

from pagefeed.arguments import check_choice
from pagefeed.errors import InvalidArgumentError
from pagefeed.extras import require

__all__ = ["DTYPES", "Batch", "Converter", "make_converter"]

FORMATS = ("numpy", "torch")
DTYPES = ("int64", "int32", "uint16")

Batch = dict[str, Any]
"""Arrays or tensors by name; ``input_ids`` is [batch_size, length]."""

Converter = Callable[[npt.NDArray[Any]], Any]
"""From an array to what is handed out, without a copy unless it is pinned."""


def make_converter(format_name: str, *, pin_memory: bool) -> Converter:
    """Return what makes arrays into ``"numpy"`` arrays or ``"torch"`` tensors.

    With ``pin_memory`` tensors are copied to page-locked memory. As in torch's own
    ``DataLoader``, without CUDA this does nothing but warn.

    Raises:
        InvalidArgumentError: If the format is unknown, or arrays were to be pinned.
        MissingDependencyError: If torch is needed and not installed.
    """
    if check_choice(format_name, FORMATS, "format") == "numpy":
        if pin_memory:
            raise InvalidArgumentError(
                "pin_memory=True needs format='torch': NumPy arrays cannot be pinned"
            )
        return lambda array: array
    torch = require("torch", extra="torch", purpose="format='torch'")
    convert = cast("Converter", torch.from_numpy)
    if not pin_memory:
        return convert
    if not torch.cuda.is_available():
        warnings.warn(
            "pin_memory=True does nothing here: torch finds no CUDA device",
            stacklevel=3,
        )
        return convert
    return lambda array: convert(array).pin_memory()
