"""A snapshot of a table: its data files, their deleted rows, and a dataset of both."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Unpack
from urllib.parse import unquote, urlsplit

from pagefeed._base import Int64Array, check_choice, lazy, logger
from pagefeed.dataset.bounds import FileBounds
from pagefeed.dataset.folders import ColumnNames, TableColumns, column_of_values
from pagefeed.dataset.named_files import Columns, named_dataset
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.dataset.select import without_rows
from pagefeed.dataset.spans import Spans
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.storage import (
    StorageOptions,
    is_url,
    local_path,
    located_exactly,
)

__all__ = ["DataFile", "Missing", "Snapshot", "Value", "path_of", "value_of"]

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


class Snapshot:
    """What a table holds at one time.

    Args:
        name: Kind of the table and number of the snapshot: ``delta:12``.
        files: Its files, in the order of the dataset.
        names: What files call columns.
        reads: What was read to know it, see :class:`TableColumns`.
        types: Its columns, and whether they are null where files lack them.
        bounds: Between which values the columns of the files lie.

    Raises:
        CorruptFileError: If it names a file twice.
        InvalidArgumentError: If it has no file.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[DataFile],
        names: ColumnNames,
        reads: Mapping[str, tuple[int, int]] = MappingProxyType({}),
        types: tuple[Mapping[str, Any], bool] = ({}, False),
        bounds: FileBounds | None = None,
    ) -> None:
        self.name = name
        self.files = files
        self._names, self._reads = names, reads
        self._types, self._bounds = types, bounds
        paths = set()
        for file in files:
            if file.path in paths:
                error = CorruptFileError(f"{name} names {file.path} twice")
                raise error.at(file=file.path)
            paths.add(file.path)
        if not files:
            raise InvalidArgumentError(f"{name} has no file: nothing was written yet")

    @lazy
    def columns(self) -> TableColumns:
        """What it says of the columns of its files."""
        partitions = dict.fromkeys(name for file in self.files for name in file[1])
        of_files = {
            name: column_of_values(_alike([file[1].get(name) for file in self.files]))
            for name in partitions
        }
        return TableColumns(
            self.name,
            of_files,
            self._names,
            self._reads,
            *self._types,
            self._bounds,
        )

    def dataset(
        self,
        storage_options: StorageOptions | None,
        storage_cache: str | int | None,
        **wanted: Unpack[Columns],
    ) -> ParquetDataset:
        """Return the rows that are not deleted, as a dataset."""
        if storage_cache is not None:
            storage_options = {
                **(storage_options or {}),
                "storage_cache": storage_cache,
            }
        paths = [file.path for file in self.files]
        if not any(map(is_url, paths)):
            storage_options = None  # The table's own log may lie elsewhere.
        files = located_exactly(paths, storage_options)
        found = named_dataset(files, self.columns, **wanted)
        deleted = {
            file.path: file.deleted
            for file in self.files
            if file.deleted is not None and len(file.deleted)
        }
        count = sum(map(len, deleted.values()))
        logger.info(
            "%s: %d files, %d deleted rows in %d of them",
            self.name,
            len(self.files),
            count,
            len(deleted),
        )
        if not deleted:
            return found
        spans = Spans(lambda: found.index)  # No file is opened before it is used.
        return replace(found, selection=without_rows(spans, deleted))


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
