"""Columns whose files have other types than the table, as its own library writes."""

import datetime
import decimal
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import pagefeed as pf
from made.tables import catalog_in, rows_table, write_delta

PREDICATES: dict[str, Callable[[str | None], bool]] = {
    "source == 'web'": lambda value: value == "web",
    "source != 'web'": lambda value: value not in (None, "web"),
    "source in ['book', 'none']": lambda value: value in ("book", "none"),
    "source is null": lambda value: value is None,
    "source >= 'c'": lambda value: value is not None and value >= "c",
}


def ids(rows: Iterable[Any]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("change", ["delete", "update"])
def test_where_after_deltalake_wrote_files_anew(tmp_path, change):
    """It writes texts as string_view."""
    rows = rows_table(0, 20, source=["web", None, "book", "web"] * 5)
    write_delta(tmp_path, [rows, rows_table(20, 30, source=["book"] * 10)])
    table = DeltaTable(tmp_path)
    if change == "delete":
        table.delete("id = 3 or id = 25")
    else:
        table.update(predicate="id = 3 or id = 25", updates={"source": "'none'"})
    files = [pq.read_schema(path) for path in table.file_uris()]
    assert "string_view" in {str(each.field("source").type) for each in files}
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "source"])
    model = [(row["id"], row["source"]) for row in web]
    assert sorted(each for each, _ in model) == sorted(
        pa.table(table.scan())["id"].to_pylist()
    )
    for predicate, is_kept in PREDICATES.items():
        expected = sorted(each for each, value in model if is_kept(value))
        assert ids(web.where(predicate)) == expected, predicate


def test_where_over_a_file_whose_column_is_all_null(tmp_path):
    """Its Arrow type is null, as some writers have it."""
    rows = [rows_table(10 * n, 10 * n + 10, q=[n / 2] * 10) for n in range(3)]
    write_delta(tmp_path, rows)
    path = pf.delta(tmp_path, column="tokens").files[1]
    held = pq.read_table(path)
    place = held.schema.get_field_index("q")
    pq.write_table(held.set_column(place, "q", pa.nulls(10)), path)
    [log] = (tmp_path / "_delta_log").glob("*1.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, lines)))
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "q"])
    assert [row["q"] for row in web if 10 <= row["id"] < 20] == [None] * 10
    assert ids(web.where("q > 0.3")) == [*range(20, 30)]
    assert ids(web.where("q is null")) == [*range(10, 20)]
    assert ids(web.where("q <= 0.3")) == [*range(10)]


def test_decimals_get_more_digits(tmp_path):
    catalog, _ = catalog_in(tmp_path)
    prices = [decimal.Decimal(f"{n}.50") for n in range(10)]
    first = rows_table(0, 10, price=pa.array(prices, pa.decimal128(5, 2)))
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as changed:
        changed.update_column("price", DecimalType(20, 2))
    large = [decimal.Decimal("123456789012.25")] * 10
    second = rows_table(10, 20, price=pa.array(large, pa.decimal128(20, 2)))
    table.append(second.cast(table.schema().as_arrow()))
    catalog.close()
    web = pf.iceberg(table, column="tokens", metadata=["id", "price"])
    assert [row["price"] for row in web] == prices + large
    assert ids(web.where("price > 7.5")) == [8, 9, *range(10, 20)]
    assert ids(web.where("price == 3.5")) == [3]
    assert ids(web.where("price > 9999")) == [*range(10, 20)]


def spans_of(end: str, rows: range) -> pa.Array:
    """A span of each row, whose kind is the row."""
    kind = pa.list_(pa.struct({name: pa.int32() for name in ("start", end, "kind")}))
    return pa.array([[{"start": 0, end: 1, "kind": n}] for n in rows], kind)


def test_spans_of_a_renamed_column(tmp_path):
    """Also where the fields of its structs were renamed."""
    catalog, _ = catalog_in(tmp_path)
    first = rows_table(0, 10).append_column("marks", spans_of("stop", range(10)))
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as changed:
        changed.rename_column("marks", "entities")
        changed.rename_column("marks.element.stop", "end")
    second = rows_table(10, 20).append_column(
        "entities", spans_of("end", range(10, 20))
    )
    table.append(second.cast(table.schema().as_arrow()))
    catalog.close()
    web = pf.iceberg(table, column="tokens", metadata=["id"], spans=["entities"])
    loader = pf.Loader(
        web,
        sequences=pf.Windows(32, tail="pad"),
        batch_size=1,
        shuffle=None,
        fields=("input_ids", "metadata"),
    )
    found = [value for batch in loader for value in kinds_of(batch)]
    assert sorted(set(found)) == [*range(20)]


def kinds_of(batch: Any) -> list[int]:
    told = pa.table(batch["metadata"])["entities"].to_pylist()
    return [each["kind"] for spans in told for each in spans]


def test_delta_columns_are_mapped_by_ids(tmp_path):
    """Files call them anything, also what other columns of the table are called."""
    rows = rows_table(0, 20, score=[*range(20)], other=[*range(100, 120)])
    mapped = {"delta.columnMapping.mode": "name"}
    write_delta(tmp_path, [rows], configuration=mapped)
    [log] = (tmp_path / "_delta_log").glob("*.json")
    text = log.read_text().replace(
        '"delta.columnMapping.mode":"name"', '"delta.columnMapping.mode":"id"'
    )
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, lines)))
    [fields] = [
        json.loads(x["metaData"]["schemaString"]) for x in lines if "metaData" in x
    ]
    numbers = {
        x["name"]: x["metadata"]["delta.columnMapping.id"] for x in fields["fields"]
    }
    [path] = tmp_path.rglob("*.parquet")
    names = {"score": "other", "other": "score", "id": "x"}
    schema = pa.schema(
        pa.field(
            names.get(each.name, each.name),
            each.type,
            metadata={"PARQUET:field_id": str(numbers[each.name])},
        )
        for each in rows.schema
    )
    pq.write_table(pa.Table.from_arrays(rows.columns, schema=schema), path)
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "score", "other"])
    assert [(row["id"], row["score"], row["other"]) for row in web] == [
        (n, n, n + 100) for n in range(20)
    ]
    assert ids(web.where("score < 3")) == [0, 1, 2]
    assert ids(web.where("other >= 118 and id > 5")) == [18, 19]


def test_types_that_iceberg_promotes(tmp_path):
    """Files of before hold narrower ones, also in structs and lists."""

    def schema(whole: Any, real: Any, digits: int) -> pa.Schema:
        of_struct = pa.struct([("x", whole)])
        return pa.schema(
            {
                "id": whole,
                "real": real,
                "price": pa.decimal128(digits, 2),
                "s": of_struct,
                "tokens": pa.list_(whole),
            }
        )

    catalog, _ = catalog_in(tmp_path)
    narrow = schema(pa.int32(), pa.float32(), 5)
    table = catalog.create_table("corpus.web", schema=narrow)
    prices = [decimal.Decimal(text) for text in ("1.25", "999.99", "1234567.25")]
    rows = [
        {"id": n, "real": n + 0.5, "price": price, "s": {"x": n}, "tokens": [n, n]}
        for n, price in zip((1, 2, 1 << 40), prices, strict=True)
    ]
    rows[2]["tokens"] = [70_000]
    table.append(pa.Table.from_pylist(rows[:2], narrow))
    with table.update_schema() as changed:
        for path in ("id", ("s", "x"), ("tokens", "element")):
            changed.update_column(path, LongType())
        changed.update_column("real", DoubleType())
        changed.update_column("price", DecimalType(10, 2))
    wide = schema(pa.int64(), pa.float64(), 10)
    table.append(pa.Table.from_pylist(rows[2:], wide))
    web = pf.iceberg(table, column="tokens", metadata=["id", "real", "price", "s"])
    catalog.close()
    assert sorted(web, key=lambda row: row["id"]) == rows
    for predicate, expected in {
        "id > 1": [2, 1 << 40],
        "id == 2": [2],
        "id > 5000000000": [1 << 40],
        "real < 2": [1],
        "price > 100": [2, 1 << 40],
        "s.x > 1": [2, 1 << 40],
    }.items():
        assert ids(web.where(predicate)) == expected
    wanted: Any = ["input_ids", "metadata"]
    loader = pf.Loader(web, sequences=pf.Windows(5), batch_size=1, fields=wanted)
    [batch] = loader
    assert sorted(batch["input_ids"][0].tolist()) == [1, 1, 2, 2, 70_000]
    told = pa.table(batch["metadata"]).to_pylist()
    assert {row["price"] for row in told} == {*prices}


WIDENED: list[tuple[str, pa.DataType, list[Any], str, pa.DataType, list[Any], Any]] = [
    ("byte", pa.int8(), [1, -2], "short", pa.int16(), [300, 2], 1),
    ("integer", pa.int32(), [1, -2], "long", pa.int64(), [2**40, 2], 1),
    ("integer", pa.int32(), [1, -2], "double", pa.float64(), [0.5, 2.0], 1),
    ("float", pa.float32(), [1.5, -2.0], "double", pa.float64(), [1e300, 2.0], 1.5),
    (
        *("short", pa.int16(), [1, -2], "decimal(12,1)", pa.decimal128(12, 1)),
        *([decimal.Decimal("12345678901.5"), decimal.Decimal("2.0")], 1),
    ),
    (
        *("decimal(5,2)", pa.decimal128(5, 2), [decimal.Decimal("1.25")] * 2),
        *("decimal(10,4)", pa.decimal128(10, 4)),
        *([decimal.Decimal("100000.1234"), decimal.Decimal("2.0000")], 1.25),
    ),
    (
        *("date", pa.date32(), [datetime.date(1969, 1, 2), datetime.date(2026, 1, 2)]),
        *("timestamp_ntz", pa.timestamp("us")),
        [datetime.datetime(2026, 1, 2, 3, 4), datetime.datetime(1, 1, 1)],
        datetime.datetime(2026, 1, 2),
    ),
]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("has_wide", [False, True])
@pytest.mark.parametrize("case", WIDENED, ids=lambda case: f"{case[0]} to {case[3]}")
def test_types_that_delta_widens(tmp_path, case, has_wide, nested):
    """Files of before hold narrower ones; values come in the type of the table."""
    _, narrow, old, name, wide, new, limit = case

    def rows(first: int, values: list[Any], kind: pa.DataType) -> pa.Table:
        column = pa.array([*values, None], kind)
        if nested:
            column = pa.StructArray.from_arrays([column], ["x"])
        return rows_table(first, first + 3, q=column)

    write_delta(tmp_path, [rows(0, old, narrow)])
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    features = ["typeWidening", "timestampNtz", "deletionVectors"]
    names = {"readerFeatures": features, "writerFeatures": features}
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **names}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            [field] = [each for each in schema["fields"] if each["name"] == "q"]
            [field] = field["type"]["fields"] if nested else [field]
            field["type"] = name
            action["metaData"]["schemaString"] = json.dumps(schema)
    expected = [*old, None]
    if has_wide:
        path = tmp_path / "wide.parquet"
        pq.write_table(rows(3, new, wide), path)
        size, now = path.stat().st_size, 2**42
        add = {"path": path.name, "size": size, "modificationTime": now}
        actions.append({"add": {**add, "partitionValues": {}, "dataChange": True}})
        expected += [*new, None]
    log.write_text("\n".join(map(json.dumps, actions)))
    expected = [
        datetime.datetime(value.year, value.month, value.day)
        if type(value) is datetime.date
        else value
        for value in expected
    ]
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "q"])
    fields: Any = ("input_ids", "metadata")
    windows = pf.Windows(99, tail="pad")
    [batch] = pf.Loader(web, sequences=windows, batch_size=1, fields=fields)
    told = pa.table(batch["metadata"])
    values = told["q"].combine_chunks()
    values = values.field("x") if nested else values
    assert values.type == wide
    assert dict(zip(told["id"].to_pylist(), values.to_pylist(), strict=True)) == dict(
        enumerate(expected)
    )
    literal = f"'{limit}'" if isinstance(limit, datetime.datetime) else limit
    column = "q.x" if nested else "q"
    held = [(n, value) for n, value in enumerate(expected) if value is not None]
    assert ids(web.where(f"{column} >= {literal}")) == [
        n for n, v in held if v >= limit
    ]
    assert ids(web.where(f"{column} < {literal}")) == [n for n, v in held if v < limit]
    assert len(web.where(f"{column} is null")) == len(expected) - len(held)


def test_missing_columns_have_the_type_of_the_table(tmp_path):
    """Where those files that hold the column, or a field in it, have narrower ones."""
    catalog, _ = catalog_in(tmp_path)
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    table.append(rows_table(0, 2))
    with table.update_schema() as changed:
        changed.add_column("q", FloatType())
        changed.add_column("s", StructType(NestedField(90, "t", StringType())))
    s = pa.array([{"t": "a"}, None])
    second = rows_table(2, 4, q=pa.array([0.5, None], pa.float32()), s=s)
    table.append(second)
    with table.update_schema() as changed:
        changed.update_column("q", DoubleType())
        changed.add_column(("s", "late"), LongType())
    catalog.close()
    names = ["id", "q", "s"]
    web = pf.iceberg(table, column="tokens", metadata=names, missing="null")
    rows = [[row[name] for name in names] for row in web]
    assert rows == [
        [0, None, None],
        [1, None, None],
        [2, 0.5, {"t": "a", "late": None}],
        [3, None, None],
    ]
    pages = [pa.array(web.column_index("q").read_page(n)) for n in range(2)]
    assert [page.type for page in pages] == [pa.float64()] * 2
    assert ids(web.where("q < 1 and s.late is null")) == [2]
