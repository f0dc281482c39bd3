"""Tables of a :class:`TableModel`, written by hand as the specifications have them.

No library writes them all: files whose columns are called anything, or have no ids,
logs whose history is gone, partitions by values of every type.
"""

import datetime
import json
import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.types import IcebergType

from made.iceberg_log import FIELD_ID, IcebergLog, Written
from models.table_model import KINDS, Column, File, TableModel

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def field_of(
    column: Column, name_of: Callable[[Column], str], *, has_ids: bool
) -> pa.Field:
    """The column as a file has it."""

    def metadata(number: int) -> dict[bytes, bytes]:
        return {FIELD_ID: str(number).encode()} if has_ids else {}

    if column.kind == "tokens":
        item = pa.field("element", pa.int32(), metadata=metadata(column.inner_id))
        kind: pa.DataType = pa.list_(item)
    elif column.kind in KINDS:
        kind = column.type
    else:
        inside = [field_of(each, name_of, has_ids=has_ids) for each in column.fields]
        kind = pa.struct(inside)
        if column.kind == "list":
            item = pa.field("element", kind, metadata=metadata(column.inner_id))
            kind = pa.list_(item)
    return pa.field(name_of(column), kind, metadata=metadata(column.id))


def named(column: Column, value: Any, name_of: Callable[[Column], str]) -> Any:
    """A value of the model as a file has it."""
    if value is None or not column.fields:
        return value
    if isinstance(value, list):
        return [named(column, each, name_of) for each in value]
    return {name_of(each): value[each.id] for each in column.fields}


def table_of(
    file: File, name_of: Callable[[Column], str], *, has_ids: bool
) -> pa.Table:
    """The rows of a file."""
    fields = [field_of(each, name_of, has_ids=has_ids) for each in file.columns]
    columns = [
        pa.array([named(each, row[each.id], name_of) for row in file.rows], one.type)
        for each, one in zip(file.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def any_names(chance: random.Random, file: File) -> Callable[[Column], str]:
    """Names that say nothing, or lie, unique on each level."""
    names: dict[int, str] = {}
    for level in (file.columns, *(each.fields for each in file.columns)):
        honest = [each.name for each in level]
        lying = chance.sample(honest, len(honest))
        odd = [f"odd{each.id}" for each in level]
        chosen = chance.choice([honest, lying, odd])
        names |= {each.id: name for each, name in zip(level, chosen, strict=True)}
    return lambda column: names[column.id]


class Ends(NamedTuple):
    """Between which values a column of a file lies."""

    least: Any
    most: Any
    nulls: int


def ends_of(file: File) -> dict[int, Ends]:
    """Those of all columns with one value, by their ids; None where all are null."""
    found = {}
    for column in file.columns:
        if column.kind not in KINDS:
            continue
        values = [row[column.id] for row in file.rows]
        held = [each for each in values if each is not None]
        least, most = min(held, default=None), max(held, default=None)
        found[column.id] = Ends(least, most, len(values) - len(held))
    return found


# --- Iceberg


class IcebergTable:
    """A table of Iceberg that follows a model.

    Args:
        folder: Where it is written.
        model: Its columns and rows.
        by: Whether files have ids, or the table's name mapping tells their names.
    """

    def __init__(
        self, folder: Path, model: TableModel, by: Literal["ids", "names"]
    ) -> None:
        self.model, self.by = model, by
        (folder / "metadata").mkdir(parents=True)
        self.log = IcebergLog(f"{folder}/metadata/v0.metadata.json")
        self.log.version = 3 if model.has_defaults else 2
        self.specs: list[list[Column]] = []
        self.schemas: list[dict[str, Any]] = []
        self.told: dict[str, Any] = {
            "format-version": self.log.version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": str(folder),
            "last-sequence-number": 0,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": 1000,
            "last-partition-id": 1999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "snapshots": [],
            "next-row-id": 0,
        }
        self.tell()

    def tell(self, *, expires: bool = False) -> str:
        """Write what the table is now; return the path of its metadata.

        Args:
            expires: Whether schemas of before are forgotten.
        """
        path = Path(self.log.metadata)
        told = self.told if not path.exists() else json.loads(path.read_text())
        schema = {"type": "struct", "fields": [*map(iceberg_field, self.model.columns)]}
        if not self.schemas or self.schemas[-1]["fields"] != schema["fields"]:
            self.schemas.append({**schema, "schema-id": len(self.schemas)})
        told["schemas"] = self.schemas[-1:] if expires else self.schemas
        told["current-schema-id"] = len(self.schemas) - 1
        told["partition-specs"] = [
            {
                "spec-id": number,
                "fields": [
                    {
                        "source-id": each.id,
                        "field-id": 1000 + each.id,
                        "name": f"by_{each.id}",
                        "transform": "identity",
                    }
                    for each in spec
                ],
            }
            for number, spec in enumerate(self.specs or [[]])
        ]
        told["default-spec-id"] = max(0, len(self.specs) - 1)
        told["properties"] = {}
        if self.by == "names":
            mapping = json.dumps([*map(mapped, self.model.columns)])
            told["properties"] = {"schema.name-mapping.default": mapping}
        path.write_text(json.dumps(told))
        return str(path)

    def append(self, spec: Sequence[Column]) -> None:
        """Add a file of random rows."""
        chance = self.model.chance
        holds = chance.random() < 0.5
        file = self.model.append(spec, holds_partition=holds)
        ids = [each.id for each in spec]
        known = [[each.id for each in one] for one in self.specs]
        if ids not in known:
            self.specs.append([*spec])
            known.append(ids)
        self.tell()
        is_named = self.by == "names" and chance.random() < 0.8
        names = label_of if is_named else any_names(chance, file)
        rows = table_of(file, names, has_ids=not is_named)
        types = {each.field_id: each.field_type for each in _schema(self.model).fields}
        values = [stored(file.partition[number]) for number in ids]
        metrics: dict[str, dict[int, Any]] = {}
        if chance.random() < 0.7:
            ends = ends_of(file)
            metrics = {
                "lower_bounds": bounds(types, {n: e.least for n, e in ends.items()}),
                "upper_bounds": bounds(types, {n: e.most for n, e in ends.items()}),
                "value_counts": dict.fromkeys(ends, len(file.rows)),
                "null_value_counts": {n: e.nulls for n, e in ends.items()},
            }
        written = Written(rows, known.index(ids), tuple(values), metrics=metrics)
        self.log.commit([written], operation="append")


def label_of(column: Column) -> str:
    return column.label


def _schema(model: TableModel) -> Any:
    fields = [field_of(each, label_of, has_ids=True) for each in model.columns]
    return pyarrow_to_schema(pa.schema(fields))


def iceberg_field(column: Column) -> dict[str, Any]:
    """A column in a schema of Iceberg."""
    kind: Any
    if column.kind == "tokens":
        kind = list_type(column, "int")
    elif column.kind in KINDS:
        kind = str(_type_of(column))
    else:
        kind = {"type": "struct", "fields": [*map(iceberg_field, column.fields)]}
        kind = list_type(column, kind) if column.kind == "list" else kind
    found = {"id": column.id, "name": column.name, "required": False, "type": kind}
    if column.default is not None:
        found["initial-default"] = json_default(column.default)
    return found


def list_type(column: Column, item: Any) -> dict[str, Any]:
    return {
        "type": "list",
        "element-id": column.inner_id,
        "element": item,
        "element-required": False,
    }


def _type_of(column: Column) -> IcebergType:
    fields = [field_of(column, label_of, has_ids=True)]
    return pyarrow_to_schema(pa.schema(fields)).fields[0].field_type


def mapped(column: Column) -> dict[str, Any]:
    """A column in a name mapping."""
    inside = [*map(mapped, column.fields)]
    if column.kind in ("list", "tokens"):
        item: dict[str, Any] = {"field-id": column.inner_id, "names": ["element"]}
        inside = [{**item, **({"fields": inside} if inside else {})}]
    found: dict[str, Any] = {"field-id": column.id, "names": [column.label]}
    return {**found, "fields": inside} if inside else found


def json_default(value: Any) -> Any:
    """A default as the specification has it in JSON."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def stored(value: Any) -> Any:
    """A value of a partition as manifests have it."""
    if isinstance(value, datetime.datetime):
        since = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return (since - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    return value


def bounds(types: dict[int, Any], ends: dict[int, Any]) -> dict[int, bytes]:
    return {
        number: to_bytes(types[number], stored(value))
        for number, value in ends.items()
        if value is not None
    }


# --- Delta


DELTA = {
    "int": ("integer", "long"),
    "real": ("float", "double"),
    "decimal": ("decimal(9,2)", "decimal(18,2)"),
    "text": ("string", ""),
    "flag": ("boolean", ""),
    "date": ("date", ""),
    "time": ("timestamp", ""),
    "local": ("timestamp_ntz", ""),
    "bytes": ("binary", ""),
}
MAPPING = "delta.columnMapping."


def write_delta(
    folder: Path, model: TableModel, mode: str, parts: Iterable[Column]
) -> str:
    """Write the table of a model; return its folder.

    Args:
        folder: Where.
        model: Its columns and rows.
        mode: ``"none"``, ``"name"`` or ``"id"``: how columns are found in files.
        parts: Columns of its partition.
    """
    chance, log = model.chance, folder / "_delta_log"
    log.mkdir(parents=True)
    called = label_of if mode != "none" else (lambda column: column.name)
    fields = [delta_field(each, mode) for each in model.columns]
    features = ["columnMapping", "timestampNtz"]
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [each.name for each in parts],
                "configuration": {
                    f"{MAPPING}mode": mode,
                    f"{MAPPING}maxColumnId": "1000",
                },
                "createdTime": 1,
            }
        },
    ]
    for number, file in enumerate(model.files):
        names = any_names(chance, file) if mode == "id" else called
        path = folder / f"{number}.parquet"
        pq.write_table(
            table_of(file, names, has_ids=mode == "id" or chance.random() < 0.5),
            path,
            row_group_size=3,
        )
        add: dict[str, Any] = {
            "path": path.name,
            "partitionValues": {
                called(each): delta_text(file.partition[each.id]) for each in parts
            },
            "size": path.stat().st_size,
            "modificationTime": 1_700_000_000_000 + number,
            "dataChange": True,
        }
        if chance.random() < 0.7:
            add["stats"] = json.dumps(stats_of(file, called))
        actions.append({"add": add})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def delta_field(column: Column, mode: str) -> dict[str, Any]:
    """A column in a schema of Delta."""
    if column.kind == "tokens":
        kind: Any = "integer"
    elif column.kind in KINDS:
        kind = DELTA[column.kind][column.wide] or DELTA[column.kind][0]
    else:
        inside = [delta_field(each, mode) for each in column.fields]
        kind = {"type": "struct", "fields": inside}
    if column.kind in ("tokens", "list"):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    metadata: dict[str, Any] = {}
    if mode != "none":
        metadata = {
            f"{MAPPING}id": column.id,
            f"{MAPPING}physicalName": column.label,
        }
    name = {"name": column.name, "type": kind, "nullable": True}
    return {**name, "metadata": metadata}


def delta_text(value: Any) -> str | None:
    """A value of a partition as the log has it."""
    if isinstance(value, bytes):
        return "".join(f"\\u{byte:04x}" for byte in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return text if value.tzinfo is None else f"{text.replace(' ', 'T')}Z"
    return None if value is None else str(value)


def stats_of(file: File, called: Callable[[Column], str]) -> dict[str, Any]:
    """What the log tells of the values in a file."""
    found: dict[str, Any] = {"numRecords": len(file.rows)}
    found |= {"minValues": {}, "maxValues": {}, "nullCount": {}}
    by_id = {each.id: each for each in file.columns}
    for number, ends in ends_of(file).items():
        column = by_id[number]
        found["nullCount"][called(column)] = ends.nulls
        if ends.least is None or column.kind in ("bytes", "flag"):
            continue
        for key, value in (("minValues", ends.least), ("maxValues", ends.most)):
            found[key][called(column)] = delta_bound(value)
    return found


def delta_bound(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value
