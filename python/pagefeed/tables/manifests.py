"""Manifests of an Iceberg snapshot: its live files of data and of deletes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pagefeed.core._base import in_order
from pagefeed.errors import CorruptFileError, UnsupportedError
from pagefeed.tables.iceberg_bounds import Metrics
from pagefeed.tables.row_ids import ICEBERG_ROW_ID, RowIds
from pagefeed.tables.snapshot import path_of, value_as

__all__ = ["LiveFile", "LiveFiles", "live_files", "operations_of"]

ENTRY_VERSION = 3
"""Format version of the schema that reads entries; entries of older formats fit it."""


FIRST_WITH_ROW_IDS = 3
"""Format version."""

Kind: TypeAlias = Literal["data", "positions", "vectors", "keys"]
"""Contents of a file: data, or deletes as rows, vectors or keys."""
Scope: TypeAlias = tuple[int, tuple[Any, ...]]
"""A partition: number of the way to partition, and values."""


class LiveFile(NamedTuple):
    """A file that a manifest names."""

    path: str
    """Path, as the table has it."""
    size: int
    """Bytes."""
    sequence: int
    """Sequence number. Deletes apply to rows with this number or an earlier one."""
    partition: Mapping[str, Any]
    """Values of the partition of a data file, as Python values."""
    num_rows: int
    """Rows of data, or deleted rows."""
    metrics: Metrics
    """Bounds of the columns."""
    scope: Scope | None
    """Partition; None for deleted keys that apply to all partitions."""
    constants: Mapping[int, Any]
    """Columns that have one value in all its rows, by their field ids."""
    vector: tuple[str, int, int] | None = None
    """For a deletion vector: its data file, its offset, and its bytes."""
    keys: tuple[int, ...] = ()
    """For deleted keys: the field ids of their columns."""
    first_row_id: int | None = None
    """For data: the id of the first row, if the table has row ids."""


class LiveFiles(NamedTuple):
    """The files of a snapshot."""

    data: list[LiveFile]
    """In the order in which they were added."""
    positions: list[LiveFile]
    """Lists of deleted rows, in Parquet."""
    vectors: list[LiveFile]
    """Deletion vectors, in Puffin files."""
    keys: list[LiveFile]
    """Deleted keys, in Parquet."""
    manifests: list[int]
    """Bytes of each manifest that lists these files."""
    types: Mapping[str, Any]
    """Arrow types of the values of partitions."""

    @property
    def row_ids(self) -> RowIds:
        """Ids of the rows of data, of those that have any."""
        first = {
            path_of(file.path): file.first_row_id
            for file in self.data
            if file.first_row_id is not None
        }
        return RowIds(first, ICEBERG_ROW_ID)

    @property
    def reads(self) -> dict[str, tuple[int, int]]:
        """Metadata files read before any row: numbers and bytes, by kind."""
        deletes = [file.size for file in (*self.positions, *self.keys)]
        deletes += [size for *_, size in (file.vector or (0,) for file in self.vectors)]
        return {
            name: (len(sizes), sum(sizes))
            for name, sizes in (("manifests", self.manifests), ("deletes", deletes))
        }


def live_files(opened: Any, chosen: Any, schema: Any) -> LiveFiles:
    """Return the files of a snapshot.

    Args:
        opened: A ``Table`` of pyiceberg.
        chosen: Its ``Snapshot``.
        schema: The ``Schema`` whose columns are meant.

    Raises:
        UnsupportedError: If there are files of other formats than Parquet; it names the
            first.
    """
    specs = {
        spec.spec_id: _Partitioning.of(spec, schema, opened.metadata.schemas)
        for spec in opened.metadata.partition_specs
    }
    manifests = chosen.manifests(opened.io)
    ids: list[int | None] = [None] * len(manifests)
    if opened.metadata.format_version >= FIRST_WITH_ROW_IDS:
        ids = first_row_ids(opened.io, chosen.manifest_list)
    numbered = zip(manifests, ids, strict=True)
    live = in_order(partial(_live, opened.io, specs), [*numbered])
    of_kind: dict[Kind, list[LiveFile]] = {kind: [] for kind in get_args(Kind)}
    for kind, file in chain.from_iterable(live):
        of_kind[kind].append(file)
    of_kind["data"].sort(key=lambda each: (each.sequence, each.path))
    sizes = [manifest.manifest_length for manifest in manifests]
    parts = [part for spec in specs.values() for part in spec.parts if part is not None]
    types = {part.name: part.kind for part in parts}
    return LiveFiles(**of_kind, manifests=sizes, types=types)


def operations_of(snapshots: Iterable[Any]) -> dict[int, tuple[int | None, str]]:
    """Return the parent of each snapshot, and the operation that made it."""
    return {
        each.snapshot_id: (
            each.parent_snapshot_id,
            "" if each.summary is None else str(each.summary.operation.value),
        )
        for each in snapshots
    }


def first_row_ids(io: Any, manifest_list: str) -> list[int | None]:
    """Return the first row id of each manifest, in format 3."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_LIST_FILE_SCHEMAS,
        ManifestContent,
        ManifestFile,
        PartitionFieldSummary,
    )

    schema = MANIFEST_LIST_FILE_SCHEMAS[ENTRY_VERSION]
    place = [field.name for field in schema.fields].index("first_row_id")
    with AvroFile[ManifestFile](
        io.new_input(manifest_list),
        schema,
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return [each[place] for each in reader]


class _Part(NamedTuple):
    """A value of a partition."""

    name: str
    """Name of the column, or of its transform."""
    kind: Any
    """Arrow type."""


class _Partitioning(NamedTuple):
    """A way to partition."""

    number: int
    parts: list[_Part | None]
    """The values of a partition; None of one that nobody can name."""
    whole: list[int | None]
    """Field ids of columns that hold these values; None for transforms."""
    is_one: bool
    """Whether all files are of one partition."""

    @classmethod
    def of(cls, spec: Any, schema: Any, schemas: Iterable[Any]) -> _Partitioning:
        """Return one of pyiceberg's."""
        transforms = [str(field.transform) for field in spec.fields]
        whole = [
            field.source_id if transform == "identity" else None
            for field, transform in zip(spec.fields, transforms, strict=True)
        ]
        parts = [_part_of(field, schema, schemas) for field in spec.fields]
        is_one = all(transform == "void" for transform in transforms)
        return cls(spec.spec_id, parts, whole, is_one)


def _part_of(field: Any, schema: Any, schemas: Iterable[Any]) -> _Part | None:
    """Return name and type of a field of a partition."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    source = next(
        (
            each.find_field(field.source_id)
            for each in (schema, *schemas)
            if each.find_column_name(field.source_id) is not None
        ),
        None,
    )
    if source is None or str(field.transform) in ("void", "unknown"):
        return None
    kind = schema_to_pyarrow(field.transform.result_type(source.field_type))
    column = schema.find_column_name(field.source_id)
    if str(field.transform) == "identity" and column is not None:
        return _Part(column, kind)
    # By the name of a column that is meant.
    return None if field.name in schema.column_names else _Part(field.name, kind)


def _comparable(value: Any) -> Any:
    """A value of a partition: NaN is itself, and -0.0 is not 0.0."""
    return repr(value) if isinstance(value, float) else value


def _live(
    io: Any,
    specs: Mapping[int, _Partitioning],
    of_manifest: tuple[Any, int | None],
) -> list[tuple[Kind, LiveFile]]:
    """The files of a manifest that are not deleted."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        DATA_FILE_TYPE,
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
    )

    manifest, next_row_id = of_manifest
    fields = [field.name for field in DATA_FILE_TYPE[ENTRY_VERSION].fields]
    of_vector = [
        fields.index(name)
        for name in ("referenced_data_file", "content_offset", "content_size_in_bytes")
    ]
    spec = specs[manifest.partition_spec_id]
    found: list[tuple[Kind, LiveFile]] = []
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[ENTRY_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for entry in reader:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            file, sequence = entry.data_file, entry.sequence_number
            if sequence is None:  # That of its manifest; tables of version 1 have none.
                sequence = manifest.sequence_number or 0
            values = [file.partition[at] for at in range(len(spec.parts))]
            parts = zip(spec.parts, values, strict=True)
            numbered = zip(spec.whole, values, strict=True)
            live = LiveFile(
                file.file_path,
                file.file_size_in_bytes,
                sequence,
                {part.name: value_as(v, part.kind) for part, v in parts if part},
                file.record_count,
                Metrics(
                    file.lower_bounds or {},
                    file.upper_bounds or {},
                    file.value_counts or {},
                    file.null_value_counts or {},
                ),
                (spec.number, tuple(map(_comparable, values))),
                {number: value for number, value in numbered if number is not None},
            )
            is_data = file.content == DataFileContent.DATA
            if is_data:
                own = file[fields.index("first_row_id")]
                live = live._replace(first_row_id=next_row_id if own is None else own)
                if own is None and next_row_id is not None:
                    next_row_id += file.record_count
            if file.file_format == FileFormat.PUFFIN and not is_data:
                vector = tuple(file[at] for at in of_vector)
                found.append(("vectors", live._replace(vector=vector)))
                continue
            if file.file_format != FileFormat.PARQUET:
                raise _refused(
                    live.path, f"is {file.file_format.value}, and only Parquet is read"
                )
            if file.content == DataFileContent.EQUALITY_DELETES:
                scope = None if spec.is_one else live.scope
                keys = tuple(sorted(file.equality_ids or ()))
                if not keys:
                    raise CorruptFileError(
                        f"{live.path} deletes rows by their values, and the table does "
                        "not say of which columns"
                    ).at(file=live.path)
                found.append(("keys", live._replace(scope=scope, keys=keys)))
                continue
            found.append(("data" if is_data else "positions", live))
    return found


def _refused(path: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{path} {what}").at(file=path)
