"""Rows to the columns of a batch, as ``default_collate`` of torch makes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pagefeed.core._base import require
from pagefeed.core.batches import Batch
from pagefeed.errors import DataError
from pagefeed.own_rows.given import columns_of


def collate_rows(rows: Sequence[Any], columns: Iterable[str] | None = None) -> Batch:
    """Return the columns of rows, or those named.

    Numbers and arrays become an array with one axis more, tensors a tensor. Texts and
    bytes become a list. Lists are taken apart: a list with one column for each place.

    Raises:
        DataError: If rows differ in columns, or arrays in shape.

    Example:
        >>> collate_rows([{"n": 1, "text": "a"}, {"n": 2, "text": "b"}])
        {'n': array([1, 2]), 'text': ['a', 'b']}
    """
    # Rows are usually small dicts: a separate test of each row would cost most.
    are_dicts = {*map(type, rows)} == {dict}
    all_columns = rows if are_dicts else [columns_of(row) for row in rows]
    first = all_columns[0] if all_columns else {}
    batch: Batch = {}
    for name in first if columns is None else columns:
        try:
            batch[str(name)] = _joined([columns[name] for columns in all_columns])
        except (KeyError, TypeError, ValueError, RuntimeError) as problem:
            raise DataError(
                f"column {name!r}: values of {len(rows)} rows cannot be joined: "
                f"{type(problem).__name__}: {problem}: give rows(..., collate=)"
            ) from problem
    return batch


def _joined(values: list[Any]) -> Any:
    first = values[0]
    joined: Any = values
    if isinstance(first, (int, float, np.generic)):
        joined = np.array(values)
        if joined.dtype.kind not in "biufc":
            raise TypeError(f"{joined.dtype} among numbers")
    elif isinstance(first, np.ndarray):
        joined = np.stack(values)
    elif is_tensor(first):
        joined = require("torch", extra="torch", purpose="a tensor").stack(values)
    elif isinstance(first, Mapping):
        joined = {name: _joined([value[name] for value in values]) for name in first}
    elif isinstance(first, Sequence) and not isinstance(first, str | bytes):
        joined = [_joined([*place]) for place in zip(*values, strict=True)]
    return joined


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of torch, which is imported then."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
