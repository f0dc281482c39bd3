"""Columns of tables in files that call them otherwise, or do not hold them."""

import datetime
import decimal
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.types import IntegerType, ListType, LongType, StringType

import pagefeed as pf
from made.tables import catalog_in, data_files, rows_table, write_delta, write_iceberg
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)


def change(metadata: str, **changes: Any) -> str:
    """Metadata with some entries changed; the path of the new file."""
    found = json.loads(Path(metadata).read_text()) | {
        name.replace("_", "-"): value for name, value in changes.items()
    }
    path = Path(metadata).with_name(f"changed-{len(metadata)}.metadata.json")
    path.write_text(json.dumps(found))
    return str(path)


@pytest.fixture
def replaced(tmp_path):
    """Metadata of a table whose tokens were renamed and replaced, its history gone."""
    catalog, _ = catalog_in(tmp_path)
    first = rows_table(0, 20, quality=[n / 20 for n in range(20)])
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as changed:
        changed.rename_column("tokens", "tokens_v1")
        changed.rename_column("quality", "id2")
    with table.update_schema() as changed:
        changed.rename_column("id", "quality")
    with table.update_schema() as changed:
        changed.rename_column("id2", "id")
    with table.update_schema() as changed:
        changed.add_column("tokens", ListType(99, IntegerType()))
    table.append(
        pa.table(
            {
                "quality": [*range(20, 30)],
                "lang": ["en"] * 10,
                "tokens_v1": [[0]] * 10,
                "id": [0.5] * 10,
                "tokens": pa.array([[n] for n in range(20, 30)], pa.list_(pa.int32())),
            }
        ).cast(table.schema().as_arrow())
    )
    catalog.close()
    metadata = str(table.metadata_location).removeprefix("file://")
    schemas = [json.loads(table.schema().model_dump_json())]
    return change(metadata, schemas=schemas)


def test_ids_decide_where_the_history_of_schemas_expired(replaced, tmp_path):
    # The old tokens would come by the name of the new ones.
    with pytest.raises(ColumnNotFoundError, match="tokens"):
        len(pf.iceberg(replaced, column="tokens"))
    web = pf.iceberg(replaced, column="tokens_v1", metadata=["id", "quality"])
    told = list(web)
    assert [row["quality"] for row in told] == [*range(30)]
    assert [row["id"] for row in told] == [n / 20 for n in range(20)] + [0.5] * 10
    assert [row["quality"] for row in web.where("id > 0.8")] == [17, 18, 19]
    found = web.where("quality >= 18")
    assert [row["quality"] for row in found] == [*range(18, 30)]
    # An expression names columns as the table does, too.
    import pyarrow.compute as pc

    found = web.where(pc.field("quality") >= 18)
    assert [row["quality"] for row in found] == [*range(18, 30)]
    # A selection kept on disk is one of this table, not of the files.
    cache: Any = {"cache_dir": tmp_path / "cache"}
    by_name = pf.parquet(web.files[0], column="tokens", **cache)
    assert len(by_name.where("quality >= 0.5")) == 10
    by_id = pf.iceberg(replaced, column="tokens_v1", **cache).where("quality >= 0.5")
    assert len(by_id) == 29


def test_files_without_ids_are_read_by_the_name_mapping(tmp_path):
    metadata = write_iceberg(tmp_path, [rows_table(0, 20)])
    for path in data_files(metadata):
        local = path.removeprefix("file://")
        rows = pq.read_table(local)
        plain = pa.schema([pa.field(f.name, f.type) for f in rows.schema])
        names = {"id": "lang", "lang": "id", "tokens": "old"}
        plain = pa.table(rows.columns, names=[names[name] for name in plain.names])
        plain = plain.cast(pa.schema([pa.field(f.name, f.type) for f in plain.schema]))
        pq.write_table(strip(plain), local)
    with pytest.raises(UnsupportedError, match="name mapping"):
        len(pf.iceberg(metadata, column="tokens"))
    mapping = [
        {"field-id": 1, "names": ["number", "lang"]},
        {"field-id": 2, "names": ["id"]},
        {"field-id": 3, "names": ["tokens", "old"], "fields": []},
    ]
    properties = {"schema.name-mapping.default": json.dumps(mapping)}
    web = pf.iceberg(
        change(metadata, properties=properties), column="tokens", metadata=["id"]
    )
    assert [row["id"] for row in web] == [*range(20)]
    assert [row["id"] for row in web.where("id >= 18 or lang is null")][-3:] == [
        17,
        18,
        19,
    ]
    broken = change(metadata, properties={"schema.name-mapping.default": "{"})
    with pytest.raises(CorruptFileError, match="not a name mapping"):
        pf.iceberg(broken, column="tokens")


def strip(rows: pa.Table) -> pa.Table:
    """Without field ids."""

    def plain(field: pa.Field) -> pa.Field:
        kind = field.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = pa.list_(pa.field("element", kind.value_type))
        return pa.field(field.name, kind)

    return rows.cast(pa.schema([plain(field) for field in rows.schema]))


def test_defaults_fill_files_that_lack_a_column(tmp_path):
    catalog, _ = catalog_in(tmp_path)
    first = rows_table(0, 10)
    table = catalog.create_table(
        "corpus.web", schema=first.schema, properties={"format-version": "2"}
    )
    table.append(first)
    with table.update_schema() as changed:
        changed.add_column("score", LongType())
        changed.add_column("tag", StringType())
    table.append(rows_table(10, 15, score=[1, None, 3, 4, 5], tag=[*"abcde"]))
    catalog.close()
    metadata = str(table.metadata_location).removeprefix("file://")
    found = json.loads(Path(metadata).read_text())
    for schema in found["schemas"]:
        for field in schema["fields"]:
            if field["name"] == "score":
                field["initial-default"] = 7
            if field["name"] == "tag":
                field["initial-default"] = "none"
    changes = {"schemas": found["schemas"], "format-version": 3, "next-row-id": 0}
    version_3 = change(metadata, **changes)
    web = pf.iceberg(version_3, column="tokens", metadata=["id", "score", "tag"])
    assert [row["tag"] for row in web] == ["none"] * 10 + [*"abcde"]
    assert [row["id"] for row in web.where("tag == 'none' and id > 7")] == [8, 9]
    assert [row["score"] for row in web] == [7] * 10 + [1, None, 3, 4, 5]
    assert [row["id"] for row in web.where("score >= 4")] == [*range(10), 13, 14]
    fields: Any = ("input_ids", "metadata")
    batches = pf.Loader(web, sequences=pf.Windows(8), batch_size=2, fields=fields)
    told = [row for b in batches for row in pa.table(b["metadata"]).to_pylist()]
    scores = {row["id"]: row["score"] for row in told}
    assert scores == {row["id"]: row["score"] for row in web}
    documents = pf.Documents(columns=["id", "score"])
    for batch in pf.Loader(web, sequences=documents, batch_size=5):
        for number, score in zip(
            pa.array(batch["id"]).to_pylist(),
            pa.array(batch["score"]).to_pylist(),
            strict=True,
        ):
            assert score == scores[number]


TYPED = {
    "day": pa.array([datetime.date(2024, 1, 1), None, datetime.date(2020, 2, 29)]),
    "price": pa.array([decimal.Decimal("9.50"), None, decimal.Decimal("10.00")]),
    "size": pa.array([9.5, None, 10.0]),
    "flag": pa.array([True, None, False]),
    "code": pa.array([b"\x01", None, b"\xff\x00"]),
    "at": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
    "count": pa.array([7, None, -3], pa.int32()),
    "name": pa.array(["en/US", None, "100% a:b \u65e5"]),
}


@pytest.mark.parametrize("column", TYPED)
@pytest.mark.parametrize("missing", ["error", "null"])
@pytest.mark.parametrize("mode", ["none", "name"])
def test_partitions_have_the_types_of_the_table(tmp_path, column, missing, mode):
    rows = rows_table(0, 3).append_column(column, TYPED[column])
    configuration = {"delta.columnMapping.mode": mode}
    write_deltalake(tmp_path, rows, partition_by=[column], configuration=configuration)
    web = pf.delta(tmp_path, column="tokens", metadata=["id", column], missing=missing)
    wanted = dict(zip(range(3), TYPED[column].to_pylist(), strict=True))
    assert {row["id"]: row[column] for row in web} == wanted
    fields: Any = ("input_ids", "metadata")
    [batch] = pf.Loader(
        web, sequences=pf.Windows(8), batch_size=1, fields=fields, drop_last=False
    )
    told = pa.table(batch["metadata"]).to_pylist()
    assert {row["id"]: row[column] for row in told} == wanted
    assert [row["id"] for row in web.where(f"{column} is null")] == [1]
    if column in ("price", "size"):
        assert [row["id"] for row in web.where(f"{column} >= 9.6")] == [2]
    if column == "day":
        assert [row["id"] for row in web.where("day < '2021-01-01'")] == [2]
    if column == "at":
        found = web.where("at < '2001-01-01T00:00:00Z'")
        assert [row["id"] for row in found] == [0]


def test_paths_are_taken_as_they_are(tmp_path):
    values = ["en/US", "a:b", "\u65e5\u672c", "100%", "q%41 z+&?#="]
    rows = rows_table(0, 5).append_column("p", pa.array(values))
    folder = tmp_path / "a table, 100% #1?"
    write_deltalake(folder, rows, partition_by=["p"])
    web = pf.delta(folder, column="tokens", metadata=["id", "p"])
    assert {row["id"]: row["p"] for row in web} == dict(enumerate(values))
    # A shallow clone names the files of another table.
    clone = tmp_path / "clone"
    (clone / "_delta_log").mkdir(parents=True)
    [log] = (folder / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            root = f"file://{quote(str(folder))}"
            line["add"]["path"] = f"{root}/{line['add']['path']}"
    (clone / "_delta_log" / log.name).write_text("\n".join(map(json.dumps, lines)))
    found = pf.delta(clone, column="tokens", metadata=["id"])
    assert sorted(found.files) == sorted(web.files)
    assert len(found.where("id >= 2")) == 3
    opened = pf.delta(DeltaTable(folder), column="tokens")
    assert opened.files == web.files


def test_iceberg_tables_are_opened_in_every_way(tmp_path):
    catalog, properties = catalog_in(tmp_path)
    rows = rows_table(0, 20)
    location = tmp_path / "a b%41"
    table = catalog.create_table(
        "corpus.web", schema=rows.schema, location=f"file://{location}"
    )
    table.append(rows)
    table.append(rows_table(20, 30))
    catalog.close()
    by_name = pf.iceberg("corpus.web", catalog=properties, column="tokens")
    assert len(by_name) == 30
    assert pf.iceberg(table, column="tokens").files == by_name.files
    assert pf.iceberg(location, column="tokens").files == by_name.files
    first = min((location / "metadata").glob("00001-*.metadata.json"))
    (location / "metadata" / "version-hint.text").write_text(first.name)
    assert len(pf.iceberg(location, column="tokens")) == 20
    with pytest.raises(MissingFileError, match="not an Iceberg table"):
        pf.iceberg(tmp_path / "none", column="tokens")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_of_a_relative_path_have_absolute_names(tmp_path, kind, monkeypatch):
    """So files are found by their names, whether rows of them are selected or not."""
    monkeypatch.chdir(tmp_path)
    rows = [rows_table(0, 20), rows_table(20, 40)]
    if kind == "delta":
        write_delta(Path("web"), rows)
        web = pf.delta("web", column="tokens")
    else:
        catalog, _ = catalog_in(tmp_path)
        table = catalog.create_table(
            "corpus.web", schema=rows[0].schema, location="file:web"
        )
        for each in rows:
            table.append(each)
        catalog.close()
        web = pf.iceberg("web", column="tokens")
    assert all(Path(file).is_file() and file.startswith("/") for file in web.files)
    settings: dict[str, Any] = {"sequences": pf.Windows(8, tail="pad")}
    loader = pf.Loader(web.where("id < 10"), batch_size=1, **settings)
    first, second = (os.path.relpath(file) for file in web.files)
    assert loader.steps_of(first, 0)
    assert not loader.steps_of(first, 15)
    assert not loader.steps_of(second, 3)
    assert len(web.erase(rows={second: [3]}).where("id >= 20")) == 20


def test_tables_without_files_and_malformed_ones_are_refused_by_type(tmp_path):
    write_delta(tmp_path / "empty", [rows_table(0, 5)])
    DeltaTable(tmp_path / "empty").delete()
    (tmp_path / "folder").mkdir()
    with pytest.raises(MissingFileError, match="holds no Parquet files"):
        pf.parquet(tmp_path / "folder", column="tokens")
    with pytest.raises(MissingFileError, match="holds no Parquet files"):
        pf.delta(tmp_path / "empty", column="tokens")
    metadata = Path(write_iceberg(tmp_path / "ice", [rows_table(0, 5)]))
    good = json.loads(metadata.read_text())
    broken = metadata.with_name("broken.metadata.json")
    value: Any
    for name in good:
        for value in (None, 3, "x", [], {}, [{}], [None]):
            broken.write_text(json.dumps({**good, name: value}))
            with suppress(PagefeedError):
                len(pf.iceberg(broken, column="tokens"))
    broken.write_text(json.dumps({**good, "current-schema-id": 7}))
    with pytest.raises(CorruptFileError):
        pf.iceberg(broken, column="tokens")
    variant = {"id": 99, "name": "v", "required": False, "type": "variant"}
    schema = {**good["schemas"][0], "fields": [variant]}
    broken.write_text(json.dumps({**good, "schemas": [schema]}))
    with pytest.raises(UnsupportedError, match="variant"):
        pf.iceberg(broken, column="tokens")
    [first] = good["snapshots"]
    of_manifests = {n: v for n, v in first.items() if n != "manifest-list"}
    snapshots = [of_manifests | {"manifests": ["1.avro"]}]
    broken.write_text(json.dumps({**good, "snapshots": snapshots}))
    with pytest.raises(UnsupportedError, match="has no manifest list"):
        pf.iceberg(broken, column="tokens")
    good["schemas"][0]["fields"][0]["id"] = 1 << 40
    broken.write_text(json.dumps(good))
    with pytest.raises(CorruptFileError, match="field id 1099511627776"):
        pf.iceberg(broken, column="tokens")


@pytest.mark.parametrize("mode", ["none", "name"])
def test_int96_is_a_time_of_utc_and_holds_any_year(tmp_path, mode):
    at = [datetime.datetime(year, 1, 2, tzinfo=datetime.UTC) for year in (1500, 9999)]
    rows = rows_table(0, 2).append_column("at", pa.array(at, pa.timestamp("us", "UTC")))
    configuration = {"delta.columnMapping.mode": mode}
    write_deltalake(tmp_path, rows, configuration=configuration)
    [path] = tmp_path.rglob("*.parquet")
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "at"])
    found = [row["at"] for row in web]
    assert [each.replace(tzinfo=datetime.UTC) for each in found] == at
    assert [each.utcoffset() for each in found] == [datetime.timedelta()] * 2
