"""Number of rows that another reader may decode at once: values may be large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from pagefeed import _core
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    ColumnNotFoundError,
    LimitExceededError,
    UnsupportedError,
    shown_path,
)
from pagefeed.selection.table_columns import Naming

BATCH_BYTES = 1 << 30
"""Bytes of the values that are decoded at once, about."""
MOST_WHOLE = 4 << 30
"""Bytes of the values of columns that are decoded whole, at most."""
_FETCHED_BYTES = 1 << 20
"""Bytes of a remote column chunk, at most, that is looked at: it is fetched twice."""


def named_in(text: str, fragment: Any) -> list[str]:
    """Return the columns of a fragment of pyarrow that an expression may name."""
    names = fragment.physical_schema.names
    return [name for name in names if name in text or "FieldRef" in text]


def rows_at_once(
    storage: Storage,
    path: str,
    columns: Iterable[str],
    groups: Sequence[int],
    most: int,
    naming: Naming | None = None,
) -> int:
    """Return how many rows of a file pyarrow may decode at once: ``most`` or fewer.

    Args:
        storage: Storage of the file.
        path: The file.
        columns: Columns that are read; of others nothing is known here.
        groups: Row groups that are read.
        most: The most rows.
        naming: How a table finds its columns in the file.

    Raises:
        LimitExceededError: If a page decodes to more than pages may, or claims more
            than its bytes can hold.
        CorruptFileError: If a dictionary or page contradicts itself.
    """
    every, largest = _bytes_of(storage, path, columns, groups, naming)
    return most if every <= BATCH_BYTES else max(1, min(most, BATCH_BYTES // largest))


def check_expansion(
    storage: Storage, path: str, columns: Sequence[str], groups: Sequence[int]
) -> None:
    """Refuse columns that are decoded whole, if they are too large in row groups.

    Raises:
        LimitExceededError: Naming the bytes that they decode to; or as `rows_at_once`.
    """
    every, _ = _bytes_of(storage, path, columns, groups)
    if every > MOST_WHOLE:
        raise LimitExceededError(
            f"{shown_path(path)}: {', '.join(columns)} decode to {every:,} bytes, and "
            f"{MOST_WHOLE:,} are read at most of a file that describes a table"
        ).at(file=path)


def _bytes_of(
    storage: Storage,
    path: str,
    columns: Iterable[str],
    groups: Sequence[int],
    naming: Naming | None = None,
) -> tuple[int, int]:
    """Return the bytes of the values of columns, and those of the largest rows."""
    every = largest = 0
    for column in columns:
        # pyarrow reads more types; what a table adds is in no file.
        with suppress(UnsupportedError, ColumnNotFoundError):
            whole, of_row = _core.expansion(
                path,
                column,
                groups,
                most_stored=1 << 62 if storage.handle is None else _FETCHED_BYTES,
                naming=None if naming is None else naming.core,
                storage=storage.handle,
            )
            every, largest = every + whole, largest + of_row
    return every, largest
