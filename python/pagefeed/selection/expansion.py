"""Number of rows that another reader may decode at once: values may be large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from pagefeed import _core
from pagefeed.core.storage import Storage
from pagefeed.errors import ColumnNotFoundError, UnsupportedError
from pagefeed.selection.table_columns import Naming

BATCH_BYTES = 1 << 30
"""Bytes of the values that are decoded at once, about."""
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
    return most if every <= BATCH_BYTES else max(1, min(most, BATCH_BYTES // largest))
