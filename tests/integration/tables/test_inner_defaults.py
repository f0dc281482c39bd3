"""Fields in structs, lists and maps that older files lack, and that have a default."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import compute
from pyiceberg.types import DateType, LongType, StringType

import pagefeed as pf
from made.iceberg_log import IcebergLog, Written, with_ids
from made.tables import catalog_in, rows_table
from pagefeed.errors import ColumnNotFoundError, CorruptFileError, UnsupportedError

DAY = "2026-01-02"
STRUCT = pa.struct({"x": pa.int64(), "t": pa.struct({"u": pa.int64()})})
OLD: list[Any] = [
    None,
    *({"x": n, "t": {"u": n} if n % 2 else None} for n in range(1, 6)),
]
NEW: list[Any] = [
    {"x": 1, "y": None, "t": {"u": 1, "v": "new"}},
    None,
    {"x": 2, "y": 3},
]


def told_of(metadata: str, defaults: dict[str, Any], name: str) -> str:
    """Metadata of format 3 whose fields have defaults, by their names."""

    def put(kind: Any) -> None:
        if isinstance(kind, dict):
            for field in kind.get("fields", []):
                if field["name"] in defaults:
                    field["initial-default"] = defaults[field["name"]]
                put(field["type"])
            for key in ("element", "value"):
                put(kind.get(key))

    told = json.loads(Path(metadata).read_text())
    told |= {"format-version": 3, "next-row-id": 0}
    for snapshot in told["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    for schema in told["schemas"]:
        put(schema)
    path = Path(metadata).with_name(f"{name}.metadata.json")
    path.write_text(json.dumps(told))
    return str(path)


@pytest.fixture
def metadata(tmp_path):
    """A table with a file of before its structs got y, v and day, and one of after."""
    catalog, _ = catalog_in(tmp_path)
    s = pa.array(OLD, STRUCT)
    lists = pa.array([[each] * (n % 3) for n, each in enumerate(OLD)], pa.list_(STRUCT))
    maps = [[(f"k{n}", each)] for n, each in enumerate(OLD)]
    m = pa.array(maps, pa.map_(pa.string(), STRUCT))
    first = rows_table(0, 6, s=s, l=lists, m=m)
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as changed:
        for path in (("s",), ("l",), ("m", "value")):
            changed.add_column((*path, "y"), LongType())
            changed.add_column((*path, "t", "v"), StringType())
            changed.add_column((*path, "day"), DateType())
    kind = table.schema().as_arrow().field("s").type
    s = pa.array(NEW, kind)
    lists, maps = [[each] for each in NEW], [[("k", each)] for each in NEW]
    m = pa.array(maps, pa.map_(pa.string(), kind))
    table.append(rows_table(6, 9, s=s, l=pa.array(lists, pa.list_(kind)), m=m))
    catalog.close()
    found = str(table.metadata_location).removeprefix("file://")
    return told_of(found, {"y": 7, "v": "old", "day": DAY}, "defaults")


def expected(struct: dict[str, Any] | None, *, is_old: bool) -> dict[str, Any] | None:
    """A struct of a row, as the specification has it."""
    if struct is None:
        return None
    y, v, day = (7, "old", DAY) if is_old else (struct.get("y"), None, None)
    inner = struct.get("t")
    if inner is not None:
        inner = {"u": inner["u"], "v": inner.get("v", v)}
    return {"x": struct["x"], "t": inner, "y": y, "day": day}


STRUCTS = [expected(each, is_old=True) for each in OLD]
STRUCTS += [expected(each, is_old=False) for each in NEW]


def dated(value: Any) -> Any:
    """The value with days as text."""
    if isinstance(value, dict):
        return {name: dated(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [dated(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def field(struct: dict[str, Any] | None, *path: str) -> Any:
    for name in path:
        struct = None if struct is None else struct[name]
    return struct


@pytest.mark.parametrize("missing", ["error", "null"])
def test_rows_have_the_defaults_of_fields(metadata, missing):
    names = ["s", "l", "m", "s.x", "s.y", "s.t", "s.t.v", "s.day"]
    web = pf.iceberg(metadata, missing=missing, column="tokens", metadata=names)
    rows = [dated(row) for row in web]
    assert [row["s"] for row in rows] == STRUCTS
    for name in names[3:]:
        path = name.split(".")[1:]
        assert [row[name] for row in rows] == [field(s, *path) for s in STRUCTS], name
    lists = [[each] * (n % 3) for n, each in enumerate(STRUCTS[:6])]
    assert [row["l"] for row in rows] == lists + [[each] for each in STRUCTS[6:]]
    maps = [[[f"k{n}", each]] for n, each in enumerate(STRUCTS[:6])]
    assert [row["m"] for row in rows] == maps + [[["k", each]] for each in STRUCTS[6:]]
    fields: Any = ("input_ids", "metadata")
    loader = pf.Loader(
        web, sequences=pf.Windows(8), batch_size=1, fields=fields, drop_last=False
    )
    told: list[Any] = []
    for batch in loader:
        told += dated(pa.table(batch["metadata"]).select(names).to_pylist())
    assert all({name: row[name] for name in names} in told for row in rows)
    documents = pf.Documents(columns=["s", "s.t.v"])
    batches = list(pf.Loader(web, sequences=documents, batch_size=9, shuffle=None))
    assert dated(pa.array(batches[0]["s"]).to_pylist()) == STRUCTS
    texts = pa.array(batches[0]["s.t.v"]).to_pylist()
    alone = [each and {"t": each["t"] and {"v": each["t"]["v"]}} for each in STRUCTS]
    assert texts == alone


PREDICATES: list[tuple[str, str, Callable[[Any], bool]]] = [
    ("s.y == 7", "y", lambda v: v == 7),
    ("s.y is null", "y", lambda v: v is None),
    ("s.y is not null and s.x >= 0", "y", lambda v: v is not None),
    ("s.y < 7", "y", lambda v: v is not None and v < 7),
    ("s.t.v == 'old'", "t.v", lambda v: v == "old"),
    ("s.t.v in ('new', 'none')", "t.v", lambda v: v == "new"),
    ("s.t.v is null", "t.v", lambda v: v is None),
    ("s.day >= '2026-01-01'", "day", lambda v: v is not None),
    ("s.day > '2026-01-02'", "day", lambda v: v is ...),
]


@pytest.mark.parametrize("missing", ["error", "null"])
def test_predicates_see_the_defaults_of_fields(metadata, missing):
    web = pf.iceberg(metadata, missing=missing, column="tokens", metadata=["id"])
    for predicate, path, test in PREDICATES:
        values = [field(s, *path.split(".")) for s in STRUCTS]
        wanted = [number for number, value in enumerate(values) if test(value)]
        assert [row["id"] for row in web.where(predicate)] == wanted, predicate


def test_a_struct_that_is_read_itself(metadata):
    """As the column of the dataset, of which nothing else is made up."""
    web = pf.iceberg(metadata, column="s")
    assert [dated(row["s"]) for row in web] == STRUCTS
    loader = pf.Loader(web, sequences=pf.Documents(), batch_size=9, shuffle=None)
    [batch] = loader
    assert dated(pa.array(batch["s"]).to_pylist()) == STRUCTS


def test_an_expression_is_told_that_files_lack_the_field(metadata):
    """It names fields of files: nothing is made up for it, and nothing is null."""
    web = pf.iceberg(metadata, column="tokens", metadata=["id"])
    with pytest.raises(ColumnNotFoundError):
        len(web.where(compute.field("s", "y") == 7))


def test_files_without_the_struct(metadata):
    """Rows of a file that lacks even the struct have none, or it is refused by name."""
    told = json.loads(Path(metadata).read_text())
    for schema in told["schemas"]:
        for each in schema["fields"]:
            if each["name"] == "s":
                each["id"] = 999
    Path(metadata).write_text(json.dumps(told))
    names = ["s", "s.y", "s.t.v"]
    nulls = pf.iceberg(metadata, missing="null", column="tokens", metadata=names)
    assert [[row[name] for name in names] for row in nulls] == [[None] * 3] * 9
    assert len(nulls.where("s.y is null")) == 9
    for name in names:
        web = pf.iceberg(metadata, column="tokens", metadata=[name])
        with pytest.raises(ColumnNotFoundError, match="there is no column"):
            list(web)


def test_a_struct_whose_other_fields_are_gone(metadata):
    """Files have the struct, and none of the fields that it has now."""
    told = json.loads(Path(metadata).read_text())
    for schema in told["schemas"]:
        for each in schema["fields"]:
            if each["name"] == "s":
                kept = [f for f in each["type"]["fields"] if f["name"] == "y"]
                each["type"]["fields"] = kept
    Path(metadata).write_text(json.dumps(told))
    web = pf.iceberg(metadata, column="tokens", metadata=["id", "s", "s.y"])
    values = [field(s, "y") for s in STRUCTS]
    assert [row["s.y"] for row in web] == values
    assert [row["s"] for row in web] == [s and {"y": s["y"]} for s in STRUCTS]
    sevens = [number for number, value in enumerate(values) if value == 7]
    assert [row["id"] for row in web.where("s.y == 7")] == sevens
    nulls = [number for number, value in enumerate(values) if value is None]
    assert [row["id"] for row in web.where("s.y is null")] == nulls


@pytest.mark.parametrize(
    ("defaults", "kind"),
    [({"t": {}}, UnsupportedError), ({"y": "seven"}, CorruptFileError)],
)
def test_defaults_that_are_none(metadata, defaults, kind):
    with pytest.raises(kind):
        pf.iceberg(told_of(metadata, defaults, "odd"), column="tokens")


def test_deleted_keys_in_structs(tmp_path):
    """Equality deletes see the default of a field that a file of data lacks."""
    catalog, _ = catalog_in(tmp_path)
    kind = pa.struct({"x": pa.int64(), "y": pa.int64()})
    schema = rows_table(0, 1, s=pa.array([None], kind)).schema
    table = catalog.create_table("corpus.web", schema=schema)
    catalog.close()
    made = str(table.metadata_location).removeprefix("file://")
    fields = {each.name: each.field_id for each in table.schema().fields}
    inner = table.schema().find_field("s.y").field_id
    numbered = {name: (name, number) for name, number in fields.items()}
    x = table.schema().find_field("s.x").field_id
    ids = {b"PARQUET:field_id": str(x).encode()}
    old = pa.struct([pa.field("x", pa.int64(), metadata=ids)])
    rows = rows_table(0, 4, s=pa.array([None, {"x": 1}, None, {"x": 2}], old))
    log = IcebergLog(told_of(made, {"y": 7}, "begin"))
    log.version = 3
    held = {numbered[name]: rows[name].combine_chunks() for name in rows.column_names}
    log.commit([Written(with_ids(held))])
    ids = {b"PARQUET:field_id": str(inner).encode()}
    key = pa.StructArray.from_arrays(
        [pa.array([7])], fields=[pa.field("y", pa.int64(), metadata=ids)]
    )
    log.commit(deletes=[Written(with_ids({("s", fields["s"]): key}), keys=(inner,))])
    web = pf.iceberg(log.metadata, column="tokens", metadata=["id"])
    assert [row["id"] for row in web] == [0, 2]
