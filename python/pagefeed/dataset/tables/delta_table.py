"""Delta tables, by the package `deltalake`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack
from urllib.parse import unquote

import numpy as np

from pagefeed._base import Int64Array, require
from pagefeed.dataset.folders import ColumnNames, TableColumns
from pagefeed.dataset.named_files import Columns, check_wanted
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.dataset.tables.delta_bounds import DeltaBounds
from pagefeed.dataset.tables.delta_log import DeltaLog
from pagefeed.dataset.tables.snapshot import (
    DataFile,
    Missing,
    location_of,
    partitions_of,
    path_of,
    snapshot_dataset,
    time_of,
    types_of,
    value_of,
)
from pagefeed.errors import (
    ChecksumError,
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)
from pagefeed.storage import (
    PathLike,
    StorageOptions,
    is_url,
    library_options,
)

__all__ = ["delta"]

READER_VERSION = 3
READER_FEATURES = frozenset(
    {
        *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"),
        *("vacuumProtocolCheck", "variantType"),
    }
)
"""What a reader of a table must know. Variants are refused as columns."""
MAPPING = "delta.columnMapping."


def delta(
    table: PathLike,
    version: int | str | datetime.datetime | None = None,
    *,
    missing: Missing = "error",
    storage_options: StorageOptions | None = None,
    storage_cache: str | int | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Name a version of a Delta table as a dataset, without its deleted rows.

    The version is pinned: rows that are added or deleted later are another dataset,
    and a state tells of which version it is. Columns are called as the table calls
    them; those of its partitions are columns for ``where`` and ``metadata``. Files come
    in the order in which they were written.

    Args:
        table: Folder or URL of the table.
        version: Number of a version, or a time (``datetime``, or text such as
            ``"2026-11-01T12:00:00Z"``) whose version it is; by default the newest one.
            Of a table with in-commit timestamps the commits tell their time; else it is
            when the files of the log were written.
        missing: What rows have of a column that the table got after their file was
            written, and which the file lacks. By default it is refused by name where it
            is asked for; with ``"null"`` it is null there, for ``where`` and
            ``metadata``. Tokens and aligned columns are never made up.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`; the
            table's log is read with the same.
        storage_cache: What is kept of remote files, likewise.
        wanted: ``column`` and all else that :func:`pagefeed.parquet` takes.

    Returns:
        The dataset.

    Raises:
        MissingDependencyError: If ``pagefeed[delta]`` is not installed.
        MissingFileError: If there is no table, or a file of the version is gone.
        InvalidArgumentError: If there is no such version, or it has no file.
        UnsupportedError: If the table needs a reader that knows more; it names what.
        CorruptFileError: If its log or a deletion vector is not what it should be.

    Example:
        >>> web = delta("corpus/delta", version=0, column="tokens")  # doctest: +SKIP
    """
    check_wanted(wanted)
    uri = location_of(table)
    opened = _open(uri, version, storage_options)
    _check_features(uri, opened.protocol())
    with _told(uri):
        name = f"delta:{opened.version()}"
        (files, bounds), deleted = _files(opened, uri), _deleted(opened, uri)
    if gone := deleted.keys() - {file.path for file in files}:
        raise CorruptFileError(
            f"{uri}: {name} deletes rows of {min(gone)}, which it does not name"
        )
    files = [file._replace(deleted=deleted.get(file.path)) for file in files]
    types = types_of(missing, _arrow_schema(opened))
    partitions = partitions_of(files)
    columns = TableColumns(name, partitions, _names(opened), {}, *types, bounds)
    return snapshot_dataset(files, columns, storage_options, storage_cache, **wanted)


def _open(
    uri: str,
    version: int | str | datetime.datetime | None,
    storage_options: StorageOptions | None,
) -> Any:
    library = require("deltalake", extra="delta", purpose="reading Delta tables")
    require("pyarrow", extra="delta", purpose="reading Delta tables")
    if isinstance(version, bool) or not isinstance(
        version, int | str | datetime.datetime | None
    ):
        raise InvalidArgumentError(
            f"version={version!r} must be a number, a time, or None for the newest"
        )
    given = f"version={version!r}"
    if isinstance(version, str | datetime.datetime):
        try:
            version = time_of(version)
        except ValueError:
            raise InvalidArgumentError(
                f"version={version!r} is no time, such as '2026-11-01T12:00:00Z'; the "
                "number of a version is no text"
            ) from None
    options = library_options(storage_options)
    with _told(uri):
        opened = library.DeltaTable(uri, storage_options=options or None)
    newest = opened.version()
    if isinstance(version, int) and not 0 <= version <= newest:
        raise InvalidArgumentError(
            f"version={version}: {uri} has the versions 0 to {newest}"
        )
    if version is not None:
        log = DeltaLog(opened)
        with _told(uri):
            if isinstance(version, datetime.datetime):
                version = log.at(version, given)
            elif version != newest:
                log.check(version, given)
            opened.load_as_version(version)
    return opened


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """Tell what the library says as errors of our own."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except PagefeedError:
        raise
    except TableNotFoundError as problem:
        text = " ".join(str(problem).split())
        raise MissingFileError(f"{uri} is no Delta table: {text}") from None
    except (DeltaError, OSError, ValueError) as problem:
        text = " ".join(str(problem).split())
        kind: type[PagefeedError] = CorruptFileError
        if isinstance(problem, OSError):
            kind = FileAccessError
        elif "Invalid table location" in text:
            kind = MissingFileError
        elif "checksum" in text.lower():
            kind = ChecksumError
        elif "unsupported" in text.lower() or "not yet supported" in text:
            kind = UnsupportedError
        raise kind(f"{uri}: deltalake says: {text}").at(file=uri) from None


def _check_features(uri: str, protocol: Any) -> None:
    """Refuse a table that is not to be read without knowing more.

    Raises:
        UnsupportedError: Naming what is not known.
    """
    unknown = sorted({*(protocol.reader_features or ())} - READER_FEATURES)
    if protocol.min_reader_version > READER_VERSION:
        unknown.append(f"reader version {protocol.min_reader_version}")
    if unknown:
        raise UnsupportedError(
            f"{uri}: readers of this table must know {', '.join(unknown)}, which "
            "pagefeed does not: drop the feature from the table, or write its rows as "
            "plain Parquet"
        )


def _arrow_schema(opened: Any) -> Any:
    from pyarrow import schema

    return schema(opened.schema().to_arrow())


def _path_of(opened: Any, table: str, uri: str) -> str:
    """Return the path or URL of a file: of a URL the library quotes the table's."""
    root: str = opened.table_uri
    if not is_url(table) or not uri.startswith(root):
        return path_of(uri)
    return path_of(f"{table.rstrip('/')}/{uri.removeprefix(root).lstrip('/')}")


def _files(opened: Any, table_uri: str) -> tuple[list[DataFile], DeltaBounds]:
    """Files of a version, in the order in which they were written, and their bounds."""
    from pyarrow import table

    actions = table(opened.get_add_actions())
    times, num_files = actions["modification_time"].to_pylist(), len(actions)
    partitions: list[dict[str, Any]] = [{}] * num_files
    if "partition" in actions.schema.names:
        partitions = actions["partition"].to_pylist()
    files = [
        DataFile(
            _path_of(opened, table_uri, uri),
            {name: value_of(value) for name, value in partition.items()},
        )
        for uri, partition in zip(opened.file_uris(), partitions, strict=True)
    ]
    order = sorted(range(num_files), key=lambda n: (times[n], files[n].path))
    return [files[number] for number in order], DeltaBounds(actions).with_files(order)


def _deleted(opened: Any, table_uri: str) -> dict[str, Int64Array]:
    """Deleted rows, by the path of their file."""
    from pyarrow import RecordBatchReader

    found = {}
    for batch in RecordBatchReader.from_stream(opened.deletion_vectors()):
        for uri, kept in zip(batch["filepath"], batch["selection_vector"], strict=True):
            mask = kept.values.to_numpy(zero_copy_only=False)
            path = _path_of(opened, table_uri, uri.as_py())
            # A local URI is quoted; of others the file is as the log has it.
            path = path if path.startswith("/") else unquote(path)
            found[path] = np.flatnonzero(~mask)
    return found


def _names(opened: Any) -> ColumnNames:
    """What files call columns."""
    mode = opened.metadata().configuration.get(f"{MAPPING}mode", "none")
    if mode == "none":
        return ColumnNames({})
    schema = json.loads(opened.schema().to_json())
    return ColumnNames(dict(_mapped(schema, (), ())))


def _mapped(
    kind: Mapping[str, Any], path: tuple[str, ...], in_files: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Dotted names of the fields of a struct, and what files call them."""
    for each in kind["fields"]:
        here = (*path, each["name"])
        there = (*in_files, each["metadata"][f"{MAPPING}physicalName"])
        yield ".".join(here), ".".join(there)
        if isinstance(each["type"], dict) and each["type"]["type"] == "struct":
            yield from _mapped(each["type"], here, there)
