"""Manifests of an Iceberg snapshot: its live files of data and of deletes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pagefeed.core._base import in_order
from pagefeed.errors import CorruptFileError, UnsupportedError
from pagefeed.tables.avro_records import records_of
from pagefeed.tables.snapshot import value_as

ENTRY_VERSION = 3
"""Format version of the schema that reads entries; entries of older formats fit it."""
OF_MANIFEST = (500, 501, 502, 515)
"""Field ids that are read of each manifest, in the order of :class:`_Manifest`."""
STATUS, SEQUENCE, DATA_FILE, PARTITION = 0, 3, 2, 102
"""Field ids that are read of each entry of a manifest."""
OF_FILE = (134, *range(100, 105), 109, 110, 125, 128, 135, *range(143, 146))
"""Field ids that are read of each file, in the order of :class:`LiveFile`."""
NUM_REQUIRED = 6
"""Number of required fields; they come first."""
EXISTING, ADDED, DELETED = range(3)
"""Status of an entry: a file of an earlier snapshot, an added or a removed one."""

Kind: TypeAlias = Literal["data", "positions", "vectors", "keys"]
"""Contents of a file: data, or deletes as rows, vectors or keys."""
CONTENTS: Mapping[int, Kind] = {0: "data", 1: "positions", 2: "keys"}
"""Contents of files, by their codes in manifests."""
Scope: TypeAlias = tuple[int, tuple[Any, ...]]
"""A partition: id of its partition spec, and values."""


class Partition(NamedTuple):
    """Values that all files of a partition share."""

    values: Mapping[str, Any]
    """By name, as Python values."""
    scope: Scope | None
    """The partition itself; None for deleted keys that apply to all partitions."""
    constants: Mapping[int, Any]
    """Columns that have one value in all its rows, by their field ids."""

    @classmethod
    def of(cls, spec: _Partitioning, stored: Sequence[Any]) -> Partition:
        """Return a partition by the values that a manifest has of it."""
        named = zip(spec.values, stored, strict=True)
        by_id = zip(spec.whole, stored, strict=True)
        return cls(
            {each.name: value_as(value, each.kind) for each, value in named if each},
            (spec.spec_id, tuple(map(_comparable, stored))),
            {field_id: value for field_id, value in by_id if field_id is not None},
        )


class LiveFile(NamedTuple):
    """A file that a manifest names."""

    content: int
    path: str
    """Path, as the table has it."""
    format: str
    values: Sequence[Any]
    """Values of its partition, as stored."""
    num_rows: int
    """Rows of data, or deleted rows."""
    size: int
    """Bytes."""
    num_values: Mapping[int, int] | None
    """Counts and bounds of columns, by field id."""
    num_nulls: Mapping[int, int] | None
    lower: Mapping[int, bytes] | None
    upper: Mapping[int, bytes] | None
    keys: tuple[int, ...]
    """For deleted keys: the field ids of their columns, rising."""
    vector_of: str | None
    """For a deletion vector: its data file, its offset, and its bytes."""
    vector_begin: int | None
    vector_size: int | None
    partition: Partition = Partition({}, None, {})
    sequence: int = 0
    """Sequence number. Deletes apply to rows with this number or an earlier one."""

    @property
    def is_complete(self) -> bool:
        """Whether the entry has all required values, and these are valid."""
        return (
            None not in self[:NUM_REQUIRED]
            and isinstance(self.path, str)
            and self.content in CONTENTS
            and min(self.num_rows, self.size) >= 0
        )

    @property
    def kind(self) -> Kind:
        """Kind of the file's contents.

        Raises:
            UnsupportedError: If it is not a Parquet file.
        """
        kind, format_ = CONTENTS[self.content], self.format.upper()
        if kind == "positions" and format_ == "PUFFIN":
            return "vectors"
        if format_ != "PARQUET":
            raise UnsupportedError(
                f"{self.path} is {format_}, and only Parquet is read"
            ).at(file=self.path)
        return kind


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
    def reads(self) -> dict[str, tuple[int, int]]:
        """Metadata files read before any row: counts and bytes, by kind."""
        deletes = [file.size for file in (*self.positions, *self.keys)]
        deletes += [file.vector_size or 0 for file in self.vectors]
        return {
            name: (len(sizes), sum(sizes))
            for name, sizes in (("manifests", self.manifests), ("deletes", deletes))
        }


def live_files(opened: Any, chosen: Any, schema: Any) -> LiveFiles:
    """Return the files of a snapshot.

    Args:
        opened: A ``Table`` of pyiceberg.
        chosen: Its ``Snapshot``.
        schema: The ``Schema`` that has the columns.

    Raises:
        UnsupportedError: If there are files of other formats than Parquet; it names the
            first.
        CorruptFileError: If a manifest or the list of manifests is malformed.
    """
    specs = {
        spec.spec_id: _Partitioning.of(spec, schema, opened.metadata.schemas)
        for spec in opened.metadata.partition_specs
    }
    manifests = _manifests(opened.io, chosen.manifest_list)
    live = in_order(partial(_live, opened.io, specs), manifests)
    of_kind: dict[Kind, list[LiveFile]] = {kind: [] for kind in get_args(Kind)}
    for kind, file in chain.from_iterable(live):
        of_kind[kind].append(file)
    of_kind["data"].sort(key=lambda each: (each.sequence, each.path))
    sizes = [manifest.size for manifest in manifests]
    values = [value for spec in specs.values() for value in spec.values if value]
    types = {value.name: value.kind for value in values}
    return LiveFiles(**of_kind, manifests=sizes, types=types)


class _Manifest(NamedTuple):
    """A manifest that a snapshot names."""

    path: str
    size: int
    """Bytes."""
    spec: int
    """Id of its partition spec."""
    sequence: int
    """Its sequence number; 0 in tables of version 1."""


def _manifests(io: Any, manifest_list: str) -> list[_Manifest]:
    from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS

    fields = _chosen(MANIFEST_LIST_FILE_SCHEMAS[ENTRY_VERSION].fields, OF_MANIFEST)
    known = len(OF_MANIFEST)
    records = records_of(io, manifest_list, fields)
    manifests = [_Manifest(*record[:known]) for record in records]
    for manifest in manifests:
        if None in manifest:
            raise _malformed(manifest_list, "manifest", manifest)
    return manifests


def _chosen(fields: Iterable[Any], ids: Sequence[int]) -> list[Any]:
    """Return the fields with some ids, in the order of the ids.

    After them all lists and maps: pyiceberg skips no such field of a file.
    """
    of_id = {field.field_id: field for field in fields}
    chosen = [of_id.pop(field_id) for field_id in ids]
    return chosen + [
        each for each in of_id.values() if not each.field_type.is_primitive
    ]


class _PartitionValue(NamedTuple):
    """A value of a partition."""

    name: str
    """Name of the column, or of its transform."""
    kind: Any
    """Arrow type."""


class _Partitioning(NamedTuple):
    """A partition spec."""

    spec_id: int
    values: list[_PartitionValue | None]
    """Values of the partition; None for a value without a name."""
    whole: list[int | None]
    """Field ids of columns that hold these values; None for transforms."""
    is_one: bool
    """Whether all files are of one partition."""

    @classmethod
    def of(cls, spec: Any, schema: Any, schemas: Iterable[Any]) -> _Partitioning:
        """Return the partitioning that a spec of pyiceberg describes."""
        transforms = [str(field.transform) for field in spec.fields]
        whole = [
            field.source_id if transform == "identity" else None
            for field, transform in zip(spec.fields, transforms, strict=True)
        ]
        values = [_value_of(field, schema, schemas) for field in spec.fields]
        is_one = all(transform == "void" for transform in transforms)
        return cls(spec.spec_id, values, whole, is_one)


def _value_of(
    field: Any, schema: Any, schemas: Iterable[Any]
) -> _PartitionValue | None:
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
        return _PartitionValue(column, kind)
    # A name that a column has, too, means the column.
    return (
        None if field.name in schema.column_names else _PartitionValue(field.name, kind)
    )


def _comparable(value: Any) -> Any:
    """A value of a partition: NaN is itself, and -0.0 is not 0.0."""
    return repr(value) if isinstance(value, float) else value


def _live(
    io: Any, specs: Mapping[int, _Partitioning], manifest: _Manifest
) -> list[tuple[Kind, LiveFile]]:
    """The files of a manifest that are not deleted."""
    spec = specs[manifest.spec]
    partitions: dict[Any, Partition] = {}
    files: list[tuple[Kind, LiveFile]] = []
    structs = DATA_FILE, PARTITION
    for status, own, stored in records_of(io, manifest.path, _entry(), structs):
        if status == DELETED:
            continue
        file = LiveFile(*stored[: len(OF_FILE)])
        if status not in (EXISTING, ADDED) or not file.is_complete:
            raise _malformed(manifest.path, f"file of status {status}", file)
        key = tuple(map(_comparable, file.values))
        if key not in partitions:
            partitions[key] = Partition.of(spec, file.values)
        partition, kind = partitions[key], file.kind
        if kind == "keys" and spec.is_one:
            partition = partition._replace(scope=None)
        file = file._replace(
            partition=partition,
            sequence=manifest.sequence if own is None else own,
            keys=_keys_of(file) if kind == "keys" else (),
        )
        files.append((kind, file))
    return files


def _entry() -> list[Any]:
    """Fields of pyiceberg that are read of each entry of a manifest."""
    from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS
    from pyiceberg.types import NestedField, StructType

    of_file = StructType(*_chosen(DATA_FILE_TYPE[ENTRY_VERSION].fields, OF_FILE))
    of_entry = {
        field.field_id: field for field in MANIFEST_ENTRY_SCHEMAS[ENTRY_VERSION].fields
    }
    data_file = NestedField(DATA_FILE, "data_file", of_file, required=True)
    return [of_entry[STATUS], of_entry[SEQUENCE], data_file]


def _keys_of(file: LiveFile) -> tuple[int, ...]:
    """Field ids of the columns by whose values a file deletes rows."""
    if not file.keys:
        raise CorruptFileError(
            f"{file.path} deletes rows by their values, and the table does not say of "
            "which columns"
        ).at(file=file.path)
    return tuple(sorted(file.keys))


def _malformed(path: str, what: str, stored: Any) -> CorruptFileError:
    error = CorruptFileError(
        f"{path} names a {what} that does not say what it must: {stored._asdict()}"
    )
    return error.at(file=path)
