"""Iceberg tables, by the package `pyiceberg`."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from pagefeed.core._base import require
from pagefeed.core.storage import PathLike, is_url, located_exactly
from pagefeed.errors import (
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)
from pagefeed.parquet_files import Columns, ParquetDataset, check_wanted
from pagefeed.remote import StorageOptions, library_options
from pagefeed.selection import TableColumns
from pagefeed.tables.avro_records import MALFORMED
from pagefeed.tables.bounds import IcebergBounds, known_types
from pagefeed.tables.equality_deletes import EqualityDeletes
from pagefeed.tables.file_columns import FileColumns
from pagefeed.tables.iceberg_deletes import deleted_rows
from pagefeed.tables.iceberg_metadata import column_types, newest_metadata
from pagefeed.tables.manifests import live_files
from pagefeed.tables.naming import iceberg_naming
from pagefeed.tables.snapshot import (
    EPOCH,
    DataFile,
    Missing,
    is_null_if_missing,
    location_of,
    milliseconds_of,
    nothing_written,
    options_over,
    partitions_of,
    path_of,
    snapshot_dataset,
    time_of,
)

FORMAT_VERSION = 3
UNKNOWN_TYPE = (
    *("Unsupported field type", "Type not recognized"),
    "Cannot deserialize bytes, type",
)
"""Errors of pyiceberg for columns of types that it does not know, such as variant, and
of defaults of structs, which no writer gives."""
_S3 = {
    "endpoint_url": "s3.endpoint",
    "region": "s3.region",
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "skip_signature": "s3.anonymous",
}


def iceberg(
    table: PathLike | Any,
    snapshot: int | str | datetime.datetime | None = None,
    *,
    catalog: str | Mapping[str, str] | Any | None = None,
    missing: Missing = "error",
    storage_options: StorageOptions | None = None,
    storage_cache: str | int | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Return a snapshot of an Iceberg table as a dataset, without its deleted rows.

    The snapshot is pinned: rows that are added or deleted later are in another dataset,
    and a state records its snapshot. Columns are those of the snapshot's schema, and of
    the table's present one for a branch. In files that were written before a column got
    its name, its field id identifies it. Partition columns can be used in ``where`` and
    ``metadata``. Files come in the order in which they were added.

    Args:
        table: Name of a table in the catalog, such as ``"corpus.web"``. Without a
            catalog: a ``Table`` of pyiceberg; the folder or URL of a table, whose
            newest metadata file is used; or the path or URL of such a file
            (``.metadata.json``).
        snapshot: Id of a snapshot, name of a tag or branch, or a time (``datetime``, or
            text such as ``"2026-11-01T12:00:00+00:00"``) for the snapshot of that time;
            by default the current one.
        catalog: A catalog of pyiceberg, the name of a catalog that pyiceberg is
            configured for, or its properties:
            ``{"name": "prod", "type": "sql", "uri": ...}``.
        missing: Value of a column in files that lack it, see :func:`pagefeed.delta`.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`. They
            override the S3 settings of the catalog or ``Table``. The metadata of a
            table in a catalog are read with the catalog's own settings; a metadata file
            in S3 is read with these.
        storage_cache: Size of the cache of remote files, likewise.
        wanted: ``column`` and all else that :func:`pagefeed.parquet` takes.

    Returns:
        The dataset.

    Raises:
        MissingDependencyError: If ``pagefeed[iceberg]`` is not installed.
        MissingFileError: If there is no table, the snapshot has no file, or one of its
            files is gone.
        ColumnNotFoundError: If the snapshot has no such column.
        InvalidArgumentError: If there is no such snapshot.
        UnsupportedError: If the snapshot has files other than Parquet, or a column that
            files call differently; the message names them.
        CorruptFileError: If metadata or deletes are malformed.

    Example:
        >>> uri = "sqlite:///corpus/catalog.db"
        >>> catalog = {"name": "local", "type": "sql", "uri": uri}
        >>> web = iceberg(  # doctest: +SKIP
        ...     "corpus.web", catalog=catalog, column="tokens"
        ... )
    """
    own = "snapshot", "catalog", "missing", "storage_options", "storage_cache"
    check_wanted(wanted, *own)
    is_null = is_null_if_missing(missing)
    opened = _open(table, catalog, storage_options)
    storage_options = _options_of(opened.io.properties, storage_options)
    is_path = isinstance(table, str | os.PathLike)
    given = os.fspath(table) if is_path else ".".join(opened.name())
    metadata = opened.metadata
    if metadata.format_version > FORMAT_VERSION:
        raise UnsupportedError(
            f"{given}: format version {metadata.format_version} is newer than the "
            f"{FORMAT_VERSION} that pagefeed reads"
        )
    with _told(given):
        chosen = _snapshot_of(opened, snapshot)
        ref = metadata.refs.get(snapshot) if isinstance(snapshot, str) else None
        is_branch = ref is not None and ref.snapshot_ref_type == "branch"
        is_now = snapshot is None or is_branch
        schema = opened.schema() if is_now else _schema_of(metadata, chosen)
        live = live_files(opened, chosen, schema)
        types, defaults, inner_defaults = column_types(schema)
        naming = iceberg_naming(given, schema, metadata.properties)
    paths = [path_of(entry.path) for entry in live.data]
    deletes = (*live.positions, *live.vectors, *live.keys)
    beside = [path_of(entry.path) for entry in deletes]
    is_remote = any(map(is_url, (*paths, *beside)))
    storage = located_exactly(
        (*paths, *beside), storage_options if is_remote else None
    ).storage
    deleted = deleted_rows(storage, live)
    files = [
        DataFile(path, entry.partition.values, deleted.get(entry.path))
        for path, entry in zip(paths, live.data, strict=True)
    ]
    columns = TableColumns(
        f"iceberg:{chosen.snapshot_id}",
        types,
        naming,
        of_files=partitions_of(files, live.types),
        defaults=defaults,
        inner_defaults=inner_defaults,
        reads=live.reads,
        missing_as_null=is_null,
        bounds=IcebergBounds(known_types(schema, metadata.schemas), live.data),
    )
    kept = None
    if live.keys:
        data = dict(zip(paths, live.data, strict=True))
        kept = EqualityDeletes(storage, data, live.keys, FileColumns.of(metadata))
    return snapshot_dataset(
        *(files, columns, path_of(opened.metadata_location)),
        *(storage_options, storage_cache, kept),
        **wanted,
    )


def _open(
    table: PathLike | Any, catalog: Any, storage_options: StorageOptions | None
) -> Any:
    purpose = "reading Iceberg tables"
    require("pyarrow", extra="iceberg", purpose=purpose)
    library = require("pyiceberg.table", extra="iceberg", purpose=purpose)
    if isinstance(table, library.Table):
        if catalog is not None:
            raise InvalidArgumentError(
                "a Table of pyiceberg has a catalog already: leave catalog= out"
            )
        return table
    if isinstance(table, library.TableScan):
        raise InvalidArgumentError(
            f"table is a {type(table).__name__} of pyiceberg, which has rows and no "
            "snapshot: give the Table, and choose rows of the dataset with "
            ".where('id < 30'), which leaves out files as the scan does"
        )
    given = location_of(table)
    if catalog is None:
        if not given.endswith(".metadata.json"):
            given = newest_metadata(given, storage_options)
        with _told(given):
            return library.StaticTable.from_metadata(
                given, _properties(storage_options)
            )
    catalog = _catalog_of(catalog)
    if "." not in given:
        raise InvalidArgumentError(
            f"table={given!r} must name its namespace too, such as 'corpus.{given}'"
        )
    with _told(given):
        return catalog.load_table(given)


def _catalog_of(catalog: Any) -> Any:
    """A catalog of pyiceberg, from its name, its properties or itself."""
    catalogs = require(
        "pyiceberg.catalog", extra="iceberg", purpose="reading Iceberg tables"
    )
    try:
        if isinstance(catalog, str):
            catalog = catalogs.load_catalog(catalog)
        elif isinstance(catalog, Mapping):
            properties = {"name": "default", **catalog}
            catalog = catalogs.load_catalog(properties.pop("name"), **properties)
    except ValueError as problem:
        raise InvalidArgumentError(f"the catalog cannot be used: {problem}") from None
    except _unreachable() as problem:
        raise FileAccessError(f"the catalog cannot be reached: {problem}") from None
    if not hasattr(catalog, "load_table"):
        raise InvalidArgumentError(
            "catalog must be a catalog of pyiceberg, the name of one, or its "
            f"properties, found {type(catalog).__name__}"
        )
    return catalog


def _unreachable() -> tuple[type[Exception], ...]:
    """Return the errors that catalogs raise if they do not answer."""
    alchemy = sys.modules.get("sqlalchemy.exc")
    return OSError, *(() if alchemy is None else (alchemy.SQLAlchemyError,))


def _options_of(
    properties: Mapping[str, Any], storage_options: StorageOptions | None
) -> StorageOptions | None:
    """Return the storage settings of a table's catalog, overridden by those given.

    A catalog whose endpoint is ``http://`` means to send its keys there.
    """
    names = {value: name for name, value in _S3.items()}
    given = {names[name]: value for name, value in properties.items() if name in names}
    if str(given.get("endpoint_url", "")).startswith("http://"):
        given["allow_http"] = "true"
    return options_over(given, storage_options)


def _properties(storage_options: StorageOptions | None) -> dict[str, str]:
    """Settings of S3 as pyiceberg calls them."""
    options = {
        name.removeprefix("aws_"): value
        for name, value in library_options(storage_options).items()
    }
    return {_S3[name]: value for name, value in options.items() if name in _S3}


@contextmanager
def _told(table: str) -> Iterator[None]:
    """Turn errors of the library into errors of pagefeed."""
    from pyiceberg.exceptions import (
        NoSuchNamespaceError,
        NoSuchTableError,
        ValidationError,
    )

    try:
        yield
    except (NoSuchTableError, NoSuchNamespaceError, FileNotFoundError) as problem:
        raise MissingFileError(f"{table}: {problem}") from None
    except PagefeedError:
        raise
    except _unreachable() as problem:
        text = " ".join(str(problem).split())
        raise FileAccessError(f"{table}: pyiceberg says: {text}") from None
    except (ValidationError, *MALFORMED) as problem:
        text = " ".join(str(problem).split()) or type(problem).__name__
        if "manifest-list Field required" in text:
            raise UnsupportedError(
                f"{table}: a snapshot has no manifest list, as the first writers of "
                "format version 1 left it out, and pyiceberg does not read it: commit "
                "to the table with a newer writer and expire its old snapshots"
            ).at(file=table) from None
        kind: type[PagefeedError] = CorruptFileError
        if any(each in text for each in UNKNOWN_TYPE):
            kind = UnsupportedError
        raise kind(f"{table}: pyiceberg says: {text}").at(file=table) from None


def _snapshot_of(opened: Any, wanted: object) -> Any:
    """Return the snapshot that the user means.

    Raises:
        MissingFileError: If the table has no snapshot yet.
        InvalidArgumentError: If it does not exist; the message lists those that do.
    """
    snapshot, refs = None, opened.metadata.refs
    if wanted is None:
        snapshot = opened.current_snapshot()
    elif isinstance(wanted, int) and not isinstance(wanted, bool):
        snapshot = opened.snapshot_by_id(wanted)
    elif isinstance(wanted, str) and wanted in refs:
        snapshot = opened.snapshot_by_id(refs[wanted].snapshot_id)
    elif isinstance(wanted, str | datetime.datetime):
        snapshot = _snapshot_at(opened, _milliseconds(wanted, [*refs]), wanted)
    else:
        raise InvalidArgumentError(
            f"snapshot={wanted!r} must be an id, a tag, a branch, a time, or None for "
            "the current one"
        )
    if snapshot is None:
        ids = [each.snapshot_id for each in opened.metadata.snapshots][-8:]
        if not ids:
            raise nothing_written(opened.location())
        raise InvalidArgumentError(
            f"snapshot={wanted!r}: this table has no such snapshot; the last ones "
            f"are {ids}"
        )
    return snapshot


def _snapshot_at(opened: Any, wanted: int, given: object) -> Any:
    """Return the snapshot that was current at a time, by the table's history.

    Raises:
        InvalidArgumentError: If the log does not reach back, or the snapshot expired.
    """
    log = [(each.timestamp_ms, each.snapshot_id) for each in opened.history()]
    known = [snapshot_id for time, snapshot_id in log if time <= wanted]
    if known:
        snapshot = opened.snapshot_by_id(known[-1])
        if snapshot is None:
            raise InvalidArgumentError(
                f"snapshot={given!r}: snapshot {known[-1]}, the current one of that "
                "time, expired: name a later time"
            )
        return snapshot
    first = EPOCH + datetime.timedelta(milliseconds=log[0][0]) if log else None
    raise InvalidArgumentError(
        f"snapshot={given!r}: the table does not tell which snapshot was the current "
        "one then: its snapshot-log "
        + (
            f"begins at {first.isoformat()}: name a later time"
            if first
            else "is empty; name the id of a snapshot"
        )
    )


def _milliseconds(time: str | datetime.datetime, refs: list[str]) -> int:
    try:
        return milliseconds_of(time_of(time))
    except ValueError:
        raise InvalidArgumentError(
            f"snapshot={time!r} is neither a time nor one of the table's tags and "
            f"branches: {', '.join(refs)}"
        ) from None


def _schema_of(metadata: Any, chosen: Any) -> Any:
    """The schema of a snapshot; that of today where an old writer did not say."""
    by_id = {schema.schema_id: schema for schema in metadata.schemas}
    return by_id.get(chosen.schema_id, metadata.schema())
