"""A snapshot of a table: its data files, their deleted rows, and a dataset of both."""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Unpack, cast

import numpy as np

from pagefeed.core._base import Int64Array, check_choice, logger, near_name
from pagefeed.core.dataset import Spans, column_of_values
from pagefeed.core.storage import Storage, is_url, local_path, located_exactly
from pagefeed.errors import ColumnNotFoundError, CorruptFileError, MissingFileError
from pagefeed.parquet_files import Columns, ParquetDataset, named_dataset
from pagefeed.remote import StorageOptions, options_as_texts
from pagefeed.selection import (
    Criterion,
    Selection,
    TableColumn,
    TableColumns,
    select_rows,
    taken_by,
)

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
REMOTE_READERS = 32
"""Threads that wait for small files of remote storage."""
Missing = Literal["error", "null"]
"""Rule for rows of files that lack a later column."""


class DataFile(NamedTuple):
    """A file of a snapshot."""

    path: str
    """Absolute path or URL."""
    partition: Mapping[str, Any]
    """Values of its partition, by the columns that have them."""
    deleted: Int64Array | None = None
    """Numbers of its deleted rows, rising."""


def partitions_of(
    files: Sequence[DataFile], types: Mapping[str, Any]
) -> dict[str, TableColumn]:
    """Return the partition columns, with one value for each file and an Arrow type.

    A file with another partitioning may have no value.
    """
    names = dict.fromkeys(name for file in files for name in file.partition)
    columns = {}
    for name in names:
        values = [file.partition.get(name) for file in files]
        is_given = np.array([name in file.partition for file in files])
        plain = column_of_values(values)
        given = None if is_given.all() else is_given
        columns[name] = TableColumn(
            plain.values, plain.number_of_file, types[name], given
        )
    return columns


def snapshot_dataset(
    files: Sequence[DataFile],
    columns: TableColumns,
    log: str,
    storage_options: StorageOptions | None,
    storage_cache: str | int | None,
    kept: Criterion | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Return the rows of a snapshot that are not deleted, as a dataset.

    Args:
        files: Its files, in the order of the dataset.
        columns: The columns of the table in them.
        log: Path or URL of the table's log, which may lie elsewhere.
        storage_options: Settings of remote storage.
        storage_cache: Bytes kept on a local disk.
        kept: Selects rows among those that are not deleted by position.
        **wanted: The columns to read, and other arguments of the files.

    Raises:
        ColumnNotFoundError: If the table has no such column; the message lists its
            columns.
        CorruptFileError: If the snapshot names a file twice.
        MissingFileError: If the snapshot has no file.
    """
    name, paths = columns.snapshot, [file.path for file in files]
    if not files:
        raise nothing_written(name)
    for path, count in Counter(paths).items():
        if count > 1:
            raise CorruptFileError(f"{name} names {path} twice").at(file=path)
    if storage_cache is not None:
        storage_options = {**(storage_options or {}), "storage_cache": storage_cache}
    if is_url(log) and not any(map(is_url, paths)):
        storage_options = None  # They are of the log alone.
    dataset = named_dataset(located_exactly(paths, storage_options), columns, **wanted)
    aligned = [column.column for column in dataset.aligned]
    for column in (dataset.column, *dataset.metadata, *aligned, *dataset.span_columns):
        _check_column(column, columns)
    deleted = {
        file.path: file.deleted
        for file in files
        if file.deleted is not None and len(file.deleted)
    }
    logger.info(
        "%s: %d files, %d deleted rows in %d of them",
        *(name, len(files), sum(map(len, deleted.values())), len(deleted)),
    )
    spans = Spans(lambda: dataset.index)  # No file is opened before it is used.
    if deleted:
        spans = select_rows(spans, deleted, are_deleted=True)
    if kept is not None:
        spans = taken_by(kept, spans)
    return (
        replace(dataset, selection=spans) if isinstance(spans, Selection) else dataset
    )


def _check_column(column: str, columns: TableColumns) -> None:
    """Refuse a column that neither the table nor its partitions have.

    Fields inside lists and maps are not checked: files may name them otherwise.
    """
    from pyarrow import types

    known = dict(_paths(columns.types))
    if column in known or column in columns.of_files:
        return
    for path, kind in known.items():
        is_list = types.is_nested(kind) and not types.is_struct(kind)
        if is_list and column.startswith(f"{path}."):
            return
    names = dict.fromkeys((*columns.types, *columns.of_files))
    raise ColumnNotFoundError(
        f"{columns.snapshot} has no column {column!r}"
        f"{near_name(column, [*names, *known])}; its columns are {', '.join(names)}"
    ).at(column=column)


def _paths(types: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted paths of columns and of fields in structs, and their types."""
    from pyarrow import types as arrow_types

    for name, kind in types.items():
        yield name, kind
        if arrow_types.is_struct(kind):
            yield from _paths({f"{name}.{field.name}": field.type for field in kind})


def nothing_written(name: str) -> MissingFileError:
    """Return the error of a table or snapshot without files, as that of a folder."""
    return MissingFileError(
        f"{name} holds no Parquet files: nothing was written to the table yet, or all "
        "of it was deleted; name another version, or write rows first"
    )


def is_null_if_missing(missing: Missing) -> bool:
    """Return whether columns are null where files lack them.

    Raises:
        InvalidArgumentError: If the rule is unknown.
    """
    return check_choice(missing, ("error", "null"), "missing") == "null"


def options_over(
    own: Mapping[str, str], storage_options: StorageOptions | None
) -> StorageOptions | None:
    """Return the storage settings of a table, overridden by those given.

    Example:
        >>> options_over({"aws_region": "a", "endpoint_url": "b"}, {"region": "c"})
        {'endpoint_url': 'b', 'region': 'c'}
    """
    if not own:
        return storage_options
    given = options_as_texts(storage_options)
    named = {name.removeprefix("aws_") for name in given}
    kept = {n: own[n] for n in own if n.removeprefix("aws_") not in named}
    return cast("StorageOptions", {**kept, **given})


def readers_of(storage: Storage) -> int | None:
    """Return how many threads read small files; None for a thread per CPU."""
    return None if storage.handle is None else REMOTE_READERS


def location_of(table: object) -> str:
    """Return the path or URL in what a caller gave: a table or a file of it.

    Raises:
        InvalidArgumentError: If it names neither.
    """
    if isinstance(table, str) and is_url(table):
        return table
    return local_path(table, "table")


def time_of(value: str | datetime.datetime) -> datetime.datetime:
    """Return a time; without a time zone it is in UTC.

    Raises:
        ValueError: If a text is not a time.

    Example:
        >>> time_of("2026-11-01").isoformat()
        '2026-11-01T00:00:00+00:00'
    """
    time = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)


def milliseconds_of(time: datetime.datetime) -> int:
    """Return a time in whole milliseconds since 1970, rounded down.

    Example:
        >>> milliseconds_of(time_of("2023-11-14T22:13:20.001999"))
        1700000000001
    """
    return (time - EPOCH) // datetime.timedelta(milliseconds=1)


def path_of(uri: str) -> str:
    """Return the location of a file of a table as pagefeed names the file.

    Nothing is unquoted, since locations are not quoted. A local path becomes absolute,
    like all names of files.

    Example:
        >>> path_of("file:///data/lang=en%2FUS/a.parquet"), path_of("s3a://bucket/a")
        ('/data/lang=en%2FUS/a.parquet', 's3://bucket/a')
    """
    scheme, _, rest = uri.partition(":")
    if scheme in {"s3a", "s3n"}:
        return f"s3:{rest}"
    if is_url(uri):
        return uri
    path = rest if scheme == "file" else uri
    return Storage().name_of(f"/{path.lstrip('/')}" if path.startswith("/") else path)


def value_as(stored: Any, kind: Any) -> Any:
    """Return a value of an Iceberg table as a Python value of its Arrow type.

    Dates and times are stored as numbers since 1970.
    """
    from pyarrow import scalar, types

    if isinstance(stored, uuid.UUID):
        stored = stored.bytes
    if isinstance(stored, int) and types.is_temporal(kind):
        return scalar(stored, f"int{kind.bit_width}").cast(kind).as_py()
    return scalar(stored, kind).as_py()
