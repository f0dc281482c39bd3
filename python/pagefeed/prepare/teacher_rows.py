"""Rows that a teacher writer is given: cut, counted, and in the types written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import to_bfloat16
from pagefeed.errors import InvalidArgumentError

__all__ = ["Numbers", "cut_rows", "named", "num_of", "stored_type", "typed"]

Numbers: TypeAlias = Any
"""An array or tensor [rows, length, ...], or a list of one [length, ...] for each row.
"""


def stored_type(kind: str) -> str:
    """Return the type of NumPy that a type is stored in."""
    return "uint16" if kind == "bfloat16" else kind


def _rows(values: Numbers) -> list[npt.NDArray[Any]]:
    if getattr(values, "ndim", 1) == 0 or not hasattr(values, "__iter__"):
        raise InvalidArgumentError(f"rows are arrays, found {values!r:.60}")
    return [_array(row) for row in values]


def _array(values: Any) -> npt.NDArray[Any]:
    """Return an array of an array or a tensor."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(
            f"rows are arrays of numbers, found {values!r:.60}"
        ) from None


def num_of(values: Any) -> int | None:
    """Return the number of values of a column; None if it is not a column."""
    try:
        return None if isinstance(values, str | bytes) else len(values)
    except TypeError:
        return None


def named(values: object, name: str, what: str) -> dict[str, Any]:
    """Return a dict of names, and refuse anything else."""
    if values is not None and not isinstance(values, Mapping):
        raise InvalidArgumentError(
            f"{name}={values!r:.60} must be a dict of names, with {what}"
        )
    return dict(values or {})


def cut_rows(
    values: Numbers,
    lengths: Sequence[int] | npt.NDArray[Any] | None,
    name: str,
    shape: tuple[int, ...],
) -> list[npt.NDArray[Any]]:
    """Return rows without their padding."""
    rows = _rows(values)
    for row in rows:
        if row.shape[1:] != shape or row.ndim != 1 + len(shape):
            wanted = ", ".join(["length", *map(str, shape)])
            raise InvalidArgumentError(
                f"{name} has a row of shape {row.shape}, expected [{wanted}]"
            )
    if lengths is None:
        return rows
    given = _array(lengths)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            f"lengths={lengths!r:.60} must be whole numbers, one for each row"
        )
    most: list[int] = given.tolist()
    if len(most) != len(rows) or any(
        not 0 <= length <= len(row) for length, row in zip(most, rows, strict=False)
    ):
        raise InvalidArgumentError(
            f"lengths={most[:8]} must be one for each of {len(rows)} rows of {name}, "
            "and none longer than its row"
        )
    return [row[:length] for row, length in zip(rows, most, strict=True)]


def typed(values: npt.NDArray[Any], kind: str, name: str) -> npt.NDArray[Any]:
    """Return numbers in the type that they are written in.

    Raises:
        InvalidArgumentError: If one does not fit, or is NaN.
    """
    if "float" not in kind:
        bounds = np.iinfo(kind)
        if values.size and values.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"{name} holds values of type {values.dtype}: give whole numbers"
            )
        if values.size and (
            int(values.min()) < max(0, bounds.min) or int(values.max()) > bounds.max
        ):
            raise InvalidArgumentError(
                f"{name} holds {values.dtype} numbers from {values.min()} to "
                f"{values.max()}, and is written as {kind}: give ids that fit it, or "
                "another type"
            )
        return values.astype(kind)
    if values.dtype.kind != "f" or np.isnan(values).any():
        some = ", some NaN" if values.dtype.kind == "f" else ""
        raise InvalidArgumentError(
            f"{name} holds {values.dtype} numbers{some}: give log-probabilities"
        )
    if kind == "bfloat16":
        return to_bfloat16(values)
    with np.errstate(over="ignore"):
        numbers = values.astype(kind)
    if np.isinf(numbers).sum() > np.isinf(values).sum():
        raise InvalidArgumentError(
            f"{name} holds numbers that {kind} does not: give logprob_dtype='float32'"
        )
    return numbers
