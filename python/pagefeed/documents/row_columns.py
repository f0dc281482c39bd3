"""Columns of documents: the ones each dataset reads, and their names in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed.core.dataset import Dataset
from pagefeed.documents.document_index import RowCut
from pagefeed.errors import InvalidArgumentError

TOKENS = "input_ids"


def row_columns(
    datasets: Sequence[Dataset],
    documents: RowCut,
    aligned: Sequence[str],
    *,
    tells_metadata: bool,
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns that batches of documents hold, in the order they are read.

    Args:
        datasets: Datasets, each with its own column and perhaps metadata.
        documents: The cut, with the requested columns.
        aligned: Columns that come with the tokens anyway.
        tells_metadata: Whether metadata comes as a table instead of columns.

    Returns:
        The names of the columns, where with a ``max_length`` the tokens come first; and
        for each dataset the names of the columns in its files.

    Raises:
        InvalidArgumentError: If datasets do not have the same columns, or a column
            would have the name of the tokens.
    """
    makes_tokens = documents.makes_tokens
    named = []
    for data in datasets:
        metadata = () if makes_tokens and tells_metadata else data.metadata
        usual = metadata if makes_tokens else (data.column, *metadata)
        named.append(_joined(documents.columns or usual, aligned))
        if named[-1] != named[0]:
            raise InvalidArgumentError(
                f"a batch has columns of one name, but {datasets[0]!r} has "
                f"{list(named[0])} and {data!r} has {list(named[-1])}: name "
                "columns=[...] that all have, or give a max_length for the tokens of "
                "each alone"
            )
    if not makes_tokens:
        unknown = [name for name in documents.padded_columns if name not in named[0]]
        added = {f"{name}_lengths" for name in documents.padded_columns}
        if unknown or added & set(named[0]):
            raise InvalidArgumentError(
                f"pad names {sorted(documents.padded_columns)}, and a batch has "
                f"{list(named[0])}: name columns that are there, and none that is "
                f"called like one of {sorted(added)}"
            )
        return named[0], named
    # Tokens are named input_ids, and not by the name of their column, too.
    own = {data.column for data in datasets}
    others = tuple(name for name in named[0] if own != {name})
    if TOKENS in others:
        raise InvalidArgumentError(
            f"columns name {TOKENS!r}, but with max_length the tokens of "
            f"{', '.join(map(repr, sorted(own)))} are called so: leave it out, or make "
            f"it the column of the dataset"
        )
    return (TOKENS, *others), [(data.column, *others) for data in datasets]


def _joined(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns followed by others, without repeats."""
    return tuple(dict.fromkeys([*names, *others]))


def whole_columns(
    names: Sequence[str], documents: RowCut, aligned: Iterable[str]
) -> list[str]:
    """Return the columns whose values batches have as they are in the files.

    Args:
        names: The columns of a batch.
        documents: The cut, which may pad columns.
        aligned: Columns that are cut and padded with the tokens.
    """
    made = {*documents.padded_columns}
    if documents.makes_tokens:
        made = {names[0], *aligned}
    return [name for name in names if name not in made]


def as_taken(column: _core.ArrowArray) -> Any:
    """Return rows in the type that trainers expect.

    Args:
        column: The rows.

    Returns:
        An array for numbers, with NaN for null. A list of str for texts or of
        memoryviews for bytes, with None for null. The column unchanged for other types,
        and for integers and flags with nulls, as no number can represent null there.
    """
    numbers = column.numbers()
    if numbers is not None:
        dtype, values = numbers
        return np.frombuffer(values, dtype)
    texts = column.texts_or_bytes()
    return column if texts is None else texts


def in_records(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a batch of columns as dicts.

    Numbers and lists become those of Python; rows of padded columns are tensors.

    Example:
        >>> in_records({"text": ["a", "b"], "score": np.array([0.5, 1.0])})
        [{'text': 'a', 'score': 0.5}, {'text': 'b', 'score': 1.0}]
    """
    columns = []
    for values in batch.values():
        listed = values
        if isinstance(values, _core.ArrowArray | _core.ArrowTable):
            listed = values.to_pylist()
        elif not isinstance(values, list) and values.ndim == 1:
            listed = values.tolist()
        columns.append(list(listed))
    return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
