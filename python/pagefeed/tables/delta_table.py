"""Delta tables, by the package `deltalake`."""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Unpack
from urllib.parse import unquote

from pagefeed.core._base import require
from pagefeed.core.storage import PathLike, is_url
from pagefeed.errors import (
    ChecksumError,
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)
from pagefeed.parquet_files import Columns, ParquetDataset, check_wanted
from pagefeed.remote import StorageOptions, known_options, library_options
from pagefeed.selection import Naming, TableColumns
from pagefeed.tables.bounds import DeltaBounds
from pagefeed.tables.delta_log import FOLDER, DeltaLog, newest_commit
from pagefeed.tables.delta_vectors import deleted_by_vectors
from pagefeed.tables.naming import delta_naming
from pagefeed.tables.snapshot import (
    DataFile,
    Missing,
    is_null_if_missing,
    location_of,
    options_over,
    partitions_of,
    path_of,
    snapshot_dataset,
    time_of,
)

READER_VERSION = 3
VECTORS = "deletionVectors"
READER_FEATURES = frozenset(
    {
        *("columnMapping", VECTORS, "timestampNtz", "v2Checkpoint"),
        *("typeWidening", "typeWidening-preview", "vacuumProtocolCheck"),
        *("variantType", "variantType-preview"),
    }
)
"""Features of tables that readers must know."""
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:/")
_QUOTED = re.compile("%[0-9A-Fa-f]{2}")
_ESCAPED = re.compile(rb"(?:\\u00[0-9A-Fa-f]{2})+")


def delta(
    table: PathLike | Any,
    version: int | str | datetime.datetime | None = None,
    *,
    missing: Missing = "error",
    storage_options: StorageOptions | None = None,
    storage_cache: str | int | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Return a version of a Delta table as a dataset, without its deleted rows.

    The version is pinned: rows that are added or deleted later are in another dataset,
    and a state records its version. Columns have the names that the table gives them.
    Partition columns can be used in ``where`` and ``metadata``. Files come in the order
    in which they were written.

    Args:
        table: Folder or URL of the table, or a ``DeltaTable`` at the version wanted,
            whose own ``storage_options`` are used too.
        version: Number of a version, or a time (``datetime``, or text such as
            ``"2026-11-01T12:00:00Z"``) for the version of that time; by default the
            newest one. Times come from the commits of a table with in-commit
            timestamps, else from the files of the log.
        missing: Value of a column in files that were written before the table had it.
            By default such a column is refused by name when it is used. With ``"null"``
            it is null in these files, for ``where`` and ``metadata``. Tokens and
            aligned columns are never made up.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`; the
            table's log is read with the same.
        storage_cache: Size of the cache of remote files, likewise.
        wanted: ``column`` and all else that :func:`pagefeed.parquet` takes.

    Returns:
        The dataset.

    Raises:
        MissingDependencyError: If ``pagefeed[delta]`` is not installed.
        MissingFileError: If there is no table, the version has no file, or one of its
            files is gone.
        ColumnNotFoundError: If the table has no such column.
        InvalidArgumentError: If there is no such version.
        UnsupportedError: If the table needs a feature that pagefeed does not read; the
            message names it.
        CorruptFileError: If its log or a deletion vector is malformed.

    Example:
        >>> web = delta("corpus/delta", version=0, column="tokens")  # doctest: +SKIP
    """
    own = "version", "missing", "storage_options", "storage_cache"
    check_wanted(wanted, *own)
    storage_options = _options_of(table, storage_options)
    with _open(table, version, storage_options) as (opened, root):
        _check_features(root, opened.protocol())
        types, naming = _schema_of(root, opened)
        live = _files(opened, root, naming, storage_options)
        opened_version = opened.version()
    columns = TableColumns(
        f"delta:{opened_version}",
        types,
        naming,
        of_files=partitions_of(live.files, live.types),
        partition_decides=True,
        missing_as_null=is_null_if_missing(missing),
        bounds=live.bounds,
    )
    return snapshot_dataset(
        live.files, columns, root, storage_options, storage_cache, **wanted
    )


def _time_of(given: str | datetime.datetime) -> datetime.datetime:
    try:
        return time_of(given)
    except ValueError:
        raise InvalidArgumentError(
            f"version={given!r} is not a time such as '2026-11-01T12:00:00Z'; "
            "give the number of a version as an integer, such as version=12"
        ) from None


def _options_of(
    table: object, storage_options: StorageOptions | None
) -> StorageOptions | None:
    """Return the settings of storage of a ``DeltaTable``, and those given over them."""
    own = getattr(table, "_storage_options", None) or {}
    return options_over(known_options(own), storage_options)


@contextmanager
def _open(
    table: PathLike | Any,
    version: int | str | datetime.datetime | None,
    storage_options: StorageOptions | None,
) -> Iterator[tuple[Any, str]]:
    """Open a version of a table, to read its log; yield it with its folder or URL."""
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
        version = _time_of(version)
    if isinstance(table, library.DeltaTable):
        if version is not None:
            raise InvalidArgumentError(
                f"{given}: a DeltaTable has a version already: load that one with "
                "load_as_version, or give the path of the table"
            )
        root = path_of(unquote(table.table_uri))
        with _told(root):
            DeltaLog(table, root).check_commits()
        yield table, root
        return
    root = path_of(location_of(table))
    options = library_options(storage_options)
    with _readable(root) as location:
        # Listed before deltalake does: a commit between the two makes no difference.
        listed = newest_commit(root, storage_options) if is_url(root) else -1
        with _told(root, location):
            opened = library.DeltaTable(location, storage_options=options or None)
            log = DeltaLog(opened, root)
            log.check_commits()
        newest = opened.version()
        if newest < listed:
            raise CorruptFileError(
                f"{root}: deltalake finds version {newest}, and {FOLDER} has commit "
                f"{listed}: the store ends listings early, which deltalake does not "
                "notice; copy the table to another store, or mend the store's listing"
            ).at(file=root)
        if isinstance(version, int) and not 0 <= version <= newest:
            raise InvalidArgumentError(
                f"version={version}: {root} has the versions 0 to {newest}"
            )
        if version is not None:
            with _told(root, location):
                if isinstance(version, datetime.datetime):
                    version = log.at(version, given)
                elif version != newest:
                    log.check(version, given)
                opened.load_as_version(version)
        yield opened, root


@contextmanager
def _readable(root: str) -> Iterator[str]:
    """Yield a location of a table by which deltalake can read its log.

    In a location it takes ``%20`` for a quoted space, once when it lists the log and
    twice when it reads it, and it resolves links to the folder. So such a log is
    linked into a folder of another name.

    Raises:
        UnsupportedError: If the table is remote: nothing can be linked there.
    """
    quoted = _QUOTED.search(root)
    if quoted is None:
        yield root
        return
    if is_url(root):
        raise UnsupportedError(
            f"{root}: deltalake would read {quoted[0]} in this URL as "
            f"{unquote(quoted[0])!r}, and open another table: give the URL unquoted, "
            f"or if the table's folder has {quoted[0]} in its name, rename the folder"
        )
    with tempfile.TemporaryDirectory(prefix="pagefeed-") as folder:
        os.symlink(os.path.join(root, FOLDER), os.path.join(folder, FOLDER))
        yield folder


@contextmanager
def _told(uri: str, location: str = "") -> Iterator[None]:
    """Turn errors of the library into errors of pagefeed.

    Args:
        uri: The table.
        location: The library's name for it, if that is another.
    """
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except PagefeedError:
        raise
    except TableNotFoundError as problem:
        text = " ".join(str(problem).split()).replace(location or uri, uri)
        raise MissingFileError(f"{uri} is not a Delta table: {text}") from None
    except (DeltaError, OSError, ValueError) as problem:
        # The library's calls follow, each with a number.
        text = " ".join(str(problem).split()).partition(" 0: <")[0]
        text = text.replace(location or uri, uri)
        kind: type[PagefeedError] = CorruptFileError
        if isinstance(problem, OSError):
            kind = FileAccessError
        elif "Invalid table location" in text or "File not found" in text:
            kind = MissingFileError
        elif "checksum" in text.lower():
            kind = ChecksumError
        elif "unsupported" in text.lower() or "not yet supported" in text:
            kind = UnsupportedError
        raise kind(f"{uri}: deltalake says: {text}").at(file=uri) from None


def _check_features(uri: str, protocol: Any) -> None:
    """Refuse a table with features that its readers must know, and pagefeed does not.

    Raises:
        UnsupportedError: Naming these features.
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


def _schema_of(uri: str, opened: Any) -> tuple[dict[str, Any], Naming]:
    """Return the Arrow types of columns, and their names in files."""
    from pyarrow import schema

    with _told(uri):
        known, settings = opened.schema(), opened.metadata().configuration
        in_arrow, in_log = schema(known.to_arrow()), json.loads(known.to_json())
    types = dict(zip(in_arrow.names, in_arrow.types, strict=True))
    return types, delta_naming(uri, in_log, settings)


def _path_of(root: str, in_log: str) -> str:
    """Return the path or URL of a file, which a log quotes.

    Example:
        >>> _path_of("/web", "lang=en%252FUS/a.parquet"), _path_of("/web", "file:///a")
        ('/web/lang=en%2FUS/a.parquet', '/a')
    """
    path = unquote(in_log)
    if _SCHEME.match(path) or path.startswith("/"):
        return path_of(path)
    return f"{root.rstrip('/')}/{path}"


class _Files(NamedTuple):
    """Files of a version, in the order in which they were written."""

    files: list[DataFile]
    bounds: DeltaBounds
    types: dict[str, Any]
    """Arrow types of the columns of partitions."""


def _files(
    opened: Any, root: str, naming: Naming, options: StorageOptions | None
) -> _Files:
    from pyarrow import table

    with _told(root):
        added = opened.get_add_actions()
        if added.num_rows == 0:
            return _Files([], DeltaBounds(None, naming), {})
        actions, features = table(added), opened.protocol().reader_features
    times, paths = (actions[n].to_pylist() for n in ("modification_time", "path"))
    partitions: list[dict[str, Any]] = [{}] * len(paths)
    types = {}
    if "partition" in actions.schema.names:
        partitions = actions["partition"].to_pylist()
        types = {
            each.name: each.type for each in actions.schema.field("partition").type
        }
    named = [_path_of(root, path) for path in paths]
    deleted = {}
    if VECTORS in (features or ()):
        version = opened.version()
        deleted = deleted_by_vectors(root, version, named, _path_of, options)
    files = [
        DataFile(
            path,
            {name: _value_of(value) for name, value in partition.items()},
            deleted.get(path),
        )
        for path, partition in zip(named, partitions, strict=True)
    ]
    order = sorted(range(len(files)), key=lambda n: (times[n], files[n].path))
    bounds = DeltaBounds(actions, naming).with_files(order)
    return _Files([files[index] for index in order], bounds, types)


def _value_of(value: object) -> object:
    """Return the value of a partition; bytes are written as escapes."""
    if isinstance(value, bytes) and _ESCAPED.fullmatch(value):
        return bytes(int(code, 16) for code in value.decode().split("\\u")[1:])
    return value
