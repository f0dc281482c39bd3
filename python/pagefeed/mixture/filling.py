"""Columns that some datasets of a mixture lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pagefeed.core._base import FIELDS, check_columns
from pagefeed.errors import InvalidArgumentError


def checked_fill(fill: Iterable[str], datasets: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the aligned columns that are filled with padding in datasets without them.

    Raises:
        InvalidArgumentError: If no dataset has a named column, if its padding is not
            given, or if a batch would have two columns of one name.
    """
    if isinstance(fill, Mapping):
        raise InvalidArgumentError(
            f"fill={dict(fill)!r:.60} must be a list of columns: what fills one is its "
            "padding, as in parquet(..., aligned={'teacher_ids': -1})"
        )
    names = tuple(check_columns(fill, "fill"))
    aligned = {
        column.column: column for data in datasets.values() for column in data.aligned
    }
    for name in names:
        if name not in aligned:
            raise InvalidArgumentError(
                f"fill={list(names)}: no dataset has an aligned column {name!r}; they "
                f"have {sorted(aligned)}"
            )
        _check(aligned[name])
    every = [name for column in aligned.values() for name in column.names]
    twice = {name for name in every if every.count(name) > 1}
    if names and twice:
        raise InvalidArgumentError(
            f"a batch would have {min(twice)!r} twice, of aligned columns and their "
            "counts: name each once over all datasets"
        )
    for name in names:
        for called, data in datasets.items():
            _check_free(aligned[name], called, data)
    return names


def _check(column: Any) -> None:
    """Refuse a column whose padding cannot mean missing values."""
    if column.column in FIELDS:
        raise InvalidArgumentError(
            f"fill={column.column!r}: batches make this field from tokens where a "
            "dataset lacks the column, and padding would contradict that: write the "
            "column, or read this dataset alone"
        )
    if column.like.padding is None and column.like.count is None:
        raise InvalidArgumentError(
            f"fill={column.column!r}: its padding was not said, and 0 may be a real "
            f"value: give the value of tokens without the column, as in aligned={{"
            f"{column.column!r}: -1}}"
        )


def _check_free(column: Any, called: str, data: Any) -> None:
    """Refuse names that a dataset without the column has for something else."""
    if column in data.aligned:
        return
    taken = {data.column, *data.metadata, *data.span_columns}
    both = sorted(taken.intersection(column.names))
    if both:
        raise InvalidArgumentError(
            f"fill={column.column!r}: {called!r} uses the name {both[0]!r} for a "
            "column that is not aligned: name it in its aligned=, or leave it out"
        )
