"""A snapshot of a table: its data files, their deleted rows, and a dataset of both."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Unpack
from urllib.parse import unquote, urlsplit

from pagefeed._base import Int64Array, check_choice, logger
from pagefeed.dataset.folders import FolderColumn, TableColumns, column_of_values
from pagefeed.dataset.named_files import Columns, named_dataset
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.dataset.select import Criterion, Selection, rows_of, taken_by
from pagefeed.dataset.spans import Spans
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.storage import (
    StorageOptions,
    is_url,
    local_path,
    located_exactly,
)

__all__ = [
    "EPOCH",
    "DataFile",
    "Missing",
    "Value",
    "location_of",
    "milliseconds_of",
    "partitions_of",
    "path_of",
    "snapshot_dataset",
    "time_of",
    "types_of",
    "value_of",
]

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Missing = Literal["error", "null"]
"""What becomes of rows of files that lack a later column."""
Value = int | str | None
"""What all rows of a file have in a column of its partition."""


class DataFile(NamedTuple):
    """A file of a snapshot."""

    path: str
    """Absolute path or URL."""
    partition: Mapping[str, Value]
    """Values of its partition."""
    deleted: Int64Array | None = None
    """Numbers of its deleted rows, rising."""


def partitions_of(files: Sequence[DataFile]) -> dict[str, FolderColumn]:
    """Return the columns with one value in all rows of a file."""
    names = dict.fromkeys(name for file in files for name in file.partition)
    return {
        name: column_of_values(_alike([file.partition.get(name) for file in files]))
        for name in names
    }


def snapshot_dataset(
    files: Sequence[DataFile],
    columns: TableColumns,
    storage_options: StorageOptions | None,
    storage_cache: str | int | None,
    kept: Criterion | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Return the rows of a snapshot that are not deleted, as a dataset.

    Args:
        files: Its files, in the order of the dataset.
        columns: What it says of their columns.
        storage_options: Settings of remote storage.
        storage_cache: Bytes kept on a local disk.
        kept: Chooses rows of those that are not deleted by their numbers.
        **wanted: What is wanted of the files.

    Raises:
        CorruptFileError: If it names a file twice.
        InvalidArgumentError: If it has no file.
    """
    name, paths = columns.snapshot, [file.path for file in files]
    if not files:
        raise InvalidArgumentError(f"{name} has no file: nothing was written yet")
    for path, count in Counter(paths).items():
        if count > 1:
            raise CorruptFileError(f"{name} names {path} twice").at(file=path)
    if storage_cache is not None:
        storage_options = {**(storage_options or {}), "storage_cache": storage_cache}
    if not any(map(is_url, paths)):
        storage_options = None  # The table's own log may lie elsewhere.
    found = named_dataset(located_exactly(paths, storage_options), columns, **wanted)
    deleted = {
        file.path: file.deleted
        for file in files
        if file.deleted is not None and len(file.deleted)
    }
    logger.info(
        "%s: %d files, %d deleted rows in %d of them",
        *(name, len(files), sum(map(len, deleted.values())), len(deleted)),
    )
    spans = Spans(lambda: found.index)  # No file is opened before it is used.
    if deleted:
        spans = rows_of(spans, deleted, are_deleted=True)
    if kept is not None:
        spans = taken_by(kept, spans)
    return replace(found, selection=spans) if isinstance(spans, Selection) else found


def _alike(values: list[Value]) -> list[Value]:
    """All numbers or all texts: a partition may have changed its type."""
    if any(isinstance(value, str) for value in values):
        return [None if value is None else str(value) for value in values]
    return values


def types_of(missing: Missing, schema: Any) -> tuple[dict[str, Any], bool]:
    """Return Arrow types of columns, and whether these are null where files lack them.

    Raises:
        InvalidArgumentError: If the rule is none.
    """
    is_null = check_choice(missing, ("error", "null"), "missing") == "null"
    return dict(zip(schema.names, schema.types, strict=True)), is_null


def location_of(table: object) -> str:
    """Return the path or URL that a caller gave of a table or a file of it.

    Raises:
        InvalidArgumentError: If it is neither.
    """
    if isinstance(table, str) and is_url(table):
        return table
    return local_path(table, "table")


def time_of(value: str | datetime.datetime) -> datetime.datetime:
    """Return a time, in UTC if it does not say where.

    Raises:
        ValueError: If a text is none.

    Example:
        >>> time_of("2026-11-01").isoformat()
        '2026-11-01T00:00:00+00:00'
    """
    found = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def milliseconds_of(time: datetime.datetime) -> int:
    """Return a time in whole milliseconds since 1970, rounded down.

    Example:
        >>> milliseconds_of(time_of("2023-11-14T22:13:20.001999"))
        1700000000001
    """
    return (time - EPOCH) // datetime.timedelta(milliseconds=1)


def path_of(uri: str) -> str:
    """Return a URI as pagefeed names the file.

    Example:
        >>> path_of("file:///data/a%20b.parquet"), path_of("s3a://bucket/a")
        ('/data/a b.parquet', 's3://bucket/a')
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.scheme in {"s3a", "s3n"}:
        return f"s3{uri.removeprefix(parts.scheme)}"
    return uri


def value_of(value: object) -> Value:
    """Return the value of a partition: a whole number, or text as SQL has it.

    Example:
        >>> value_of(True), value_of("en"), value_of(7)
        ('true', 'en', 7)
    """
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
