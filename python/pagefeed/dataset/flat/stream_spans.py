"""The spans of streams as a column of their documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pagefeed._base import check_columns
from pagefeed.dataset.flat.flat_file import unsupported
from pagefeed.dataset.flat.record_column import PayloadFiles
from pagefeed.dataset.flat.stream_header import (
    INDEX,
    METADATA,
    PAYLOADS,
    StreamHeader,
    read_header,
)
from pagefeed.errors import (
    ColumnNotFoundError,
    DataError,
    InvalidArgumentError,
)
from pagefeed.storage import LocalStorage

__all__ = ["payload_files", "span_columns"]

SPANS = "spans"
"""What they are called if nothing else is said."""


def span_columns(
    spans: Iterable[str] | None, header: StreamHeader, taken: Sequence[str]
) -> tuple[str, ...]:
    """Return what the spans are called, if there are some.

    Args:
        spans: The name, as asked for; None for the usual one.
        header: That of the first shard.
        taken: Columns that have another part already.

    Raises:
        InvalidArgumentError: If it is no name, or more than one.
        ColumnNotFoundError: If it is asked for, and there are none.
    """
    names = check_columns([SPANS] if spans is None else spans, "spans")
    if len(names) > 1 or set(names) & set(taken):
        raise InvalidArgumentError(
            f"spans={list(names)} must be one name, that the spans of all shards get, "
            f"beside {', '.join(map(repr, taken))}"
        )
    if header.has_payloads:
        return names
    if spans is not None and names:
        raise ColumnNotFoundError(
            f"spans={list(names)}: {header.path} has none; its records need a field "
            f"{METADATA!r} of type 'u4', see StreamWriter"
        )
    return ()


def _payload_place(header: StreamHeader) -> int:
    """Return the bytes of a record before the number of its payload."""
    places: Any = header.dtype.fields
    return int(places[METADATA][1])


def payload_files(headers: Sequence[str]) -> tuple[int, tuple[PayloadFiles, ...]]:
    """Return the place of payloads' numbers in records, and the files of all shards.

    Raises:
        UnsupportedError: If shards differ in it, or in how payloads are written.
        CorruptFileError: If files are not as large as they were written.
    """
    storage = LocalStorage()
    found, first, place = [], None, 0
    for path in headers:
        header = read_header(storage, path)
        header.check_sizes(storage)
        if first is None:
            first, place = header, _payload_place(header)
        kind = header.serialization
        if not header.has_payloads or _payload_place(header) != place:
            raise _other(path, f"records are {header.dtype}", f"{first.dtype}")
        if kind != first.serialization:
            raise _other(path, f"payloads are {kind!r}", f"{first.serialization!r}")
        size = header.files[PAYLOADS][0]
        names = header.file(INDEX), header.file(PAYLOADS)
        found.append((*names, header.num_payloads, size))
    return place, tuple(found)


def _other(path: str, found: str, expected: str) -> DataError:
    return unsupported(
        path,
        f"{found}, and of the shards before it {expected}: make a dataset of each kind "
        "of shards, and mix them",
    )
