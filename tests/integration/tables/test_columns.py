"""Columns of tables: partitions, mapped and renamed ones, and those that came later."""

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.types import LongType

import pagefeed as pf
from made.tables import (
    by_deltalake,
    catalog_in,
    delete_from_delta,
    of_delta,
    rows_table,
    sorted_rows,
    write_delta,
)
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
)


def test_partitions_are_columns(tmp_path):
    write_delta(tmp_path, [rows_table(0, 90)], partition_by=["lang"])
    found = of_delta(tmp_path)
    assert sorted_rows(found) == by_deltalake(tmp_path)
    assert "lang" in found.columns
    assert {row["lang"] for row in found.where("lang == 'en' and id < 60")} == {"en"}
    assert len(found.where("id >= 0 and lang == 'en'")) == 30


def test_partitions_that_are_texts_stay_texts(tmp_path):
    codes = ["007", "08", None] * 10
    write_delta(tmp_path, [rows_table(0, 30, code=codes)], partition_by=["code"])
    found = pf.delta(tmp_path, column="tokens", metadata=["code", "id"])
    assert {row["code"] for row in found} == {"007", "08", None}
    assert len(found.where("code == '007'")) == 10


def test_delta_column_mapping(tmp_path):
    mapped = {"delta.columnMapping.mode": "name"}
    tables = [rows_table(0, 50), rows_table(50, 70)]
    write_delta(tmp_path, tables, configuration=mapped, partition_by=["lang"])
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")]
    delete_from_delta(tmp_path, {files[0]: [1, 2]})
    found = of_delta(tmp_path)
    assert sorted_rows(found) == by_deltalake(tmp_path)
    assert {*found.columns} == {"id", "lang", "tokens"}
    smaller = found.where("id < 20")
    assert [row["id"] for row in smaller] == [
        row["id"] for row in found if row["id"] < 20
    ]
    fields: Any = ("input_ids", "metadata")
    loader = pf.Loader(
        found, sequences=pf.Windows(8, tail="drop"), batch_size=2, seed=1, fields=fields
    )
    told = pa.table(next(iter(loader))["metadata"])
    assert {"id", "lang"} < {*told.column_names}


@pytest.fixture
def renamed(tmp_path):
    """A table whose columns were renamed and swapped between two files."""
    catalog, properties = catalog_in(tmp_path)
    first = rows_table(0, 20, a=[*range(20)], b=[*range(100, 120)])
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as change:
        change.rename_column("a", "c")
    with table.update_schema() as change:
        change.rename_column("b", "a")
    with table.update_schema() as change:
        change.rename_column("lang", "language")
    table.append(
        rows_table(20, 30, c=[*range(10)], a=[*range(100, 110)]).rename_columns(
            ["id", "language", "tokens", "c", "a"]
        )
    )
    catalog.close()
    return properties


def test_columns_are_found_by_field_ids(renamed):
    def table(**wanted):
        return pf.iceberg("corpus.web", catalog=renamed, column="tokens", **wanted)

    found = table(metadata=["id"])
    assert len(found) == 30
    assert [row["id"] for row in found.where("a >= 115")] == [15, 16, 17, 18, 19]
    assert [row["id"] for row in found.where("c == 3")] == [3, 23]
    assert len(found.where("language == 'de'")) == 10
    with pytest.raises(ColumnNotFoundError, match="language"):
        found.where("lang == 'de'")
    told = table(metadata=["language", "a", "c"])
    languages = [("en", "de", None)[n % 3] for n in range(30)]
    assert [row["language"] for row in told] == languages
    assert [row["a"] for row in told] == [*range(100, 120), *range(100, 110)]
    assert [row["c"] for row in told] == [*range(20), *range(10)]
    first = table(metadata=["id"], snapshot="main")
    assert first.columns == found.columns


@pytest.fixture(params=["delta", "iceberg"])
def widened(tmp_path, request) -> Any:
    """A table that got a column after its first file; opens it with a rule for that."""
    rows = rows_table(0, 20), rows_table(20, 30, score=pa.array(range(10), pa.int64()))
    if request.param == "delta":
        write_deltalake(tmp_path, rows[0])
        write_deltalake(tmp_path, rows[1], mode="append", schema_mode="merge")
        return lambda **wanted: pf.delta(tmp_path, **{"column": "tokens", **wanted})
    catalog, properties = catalog_in(tmp_path)
    table = catalog.create_table("corpus.web", schema=rows[0].schema)
    table.append(rows[0])
    with table.update_schema() as change:
        change.add_column("score", LongType())
    table.append(rows[1])
    catalog.close()
    return lambda **wanted: pf.iceberg(
        "corpus.web", catalog=properties, **{"column": "tokens", **wanted}
    )


def test_a_later_column_is_refused_by_name(widened):
    with pytest.raises(ColumnNotFoundError, match="score") as caught:
        len(widened(metadata=["score"]))
    assert any('missing="null"' in note for note in caught.value.__notes__)
    with pytest.raises(ColumnNotFoundError, match="score"):
        len(widened().where("score > 3"))
    with pytest.raises(InvalidArgumentError, match="missing='none'"):
        widened(missing="none")


def test_a_later_column_is_null_before_by_rule(widened, tmp_path):
    # The index of the rule is not one for those who refuse.
    options: Any = {"missing": "null", "cache_dir": tmp_path / "cache"}
    found = widened(metadata=["id", "score"], **options)
    for _ in range(2):
        assert [row["score"] for row in found] == [None] * 20 + [*range(10)]
        found = widened(metadata=["id", "score"], **options)
    with pytest.raises(ColumnNotFoundError, match="score"):
        len(widened(metadata=["score"], cache_dir=tmp_path / "cache"))
    assert "score" in found.columns
    assert [row["id"] for row in found.where("score > 3")] == [*range(24, 30)]
    assert [row["id"] for row in found.where("score is null")] == [*range(20)]
    before = found.where("score is null")
    assert [row["score"] for row in before] == [None] * 20
    assert {*found.tiers("score", edges=[5])} == {
        *("score < 5", "score >= 5", "score is null")
    }
    fields: Any = ("input_ids", "metadata")
    documents = pf.Documents(columns=["id", "score"])
    for dataset in (found, before):
        loader = pf.Loader(
            dataset, sequences=pf.Windows(8), batch_size=2, fields=fields
        )
        told = [
            row for batch in loader for row in pa.table(batch["metadata"]).to_pylist()
        ]
        for batch in pf.Loader(dataset, sequences=documents, batch_size=2):
            columns = {name: pa.array(batch[name]) for name in ("id", "score")}
            told += pa.table(columns).to_pylist()
        assert len(told) > len(dataset)
        for row in told:
            assert row["score"] == (None if row["id"] < 20 else row["id"] - 20)
    with pytest.raises(ColumnNotFoundError, match="score"):
        len(widened(missing="null", aligned=["score"]))


def test_a_name_of_another_column_is_not_taken_for_a_missing_one(tmp_path):
    catalog, properties = catalog_in(tmp_path)
    first = rows_table(0, 20, score=pa.array(range(20), pa.int64()))
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)
    with table.update_schema() as change:
        change.rename_column("score", "old")
    with table.update_schema() as change:
        change.add_column("score", LongType())
    table.append(rows_table(20, 30, old=[*range(10)], score=[*range(10)]))
    catalog.close()
    wanted: Any = {"catalog": properties, "column": "tokens", "missing": "null"}
    found = pf.iceberg("corpus.web", metadata=["id"], **wanted)
    assert [row["id"] for row in found.where("score >= 8")] == [28, 29]
    assert len(found.where("score is null")) == 20
    assert [row["id"] for row in found.where("old == 3")] == [3, 23]
    told = pf.iceberg("corpus.web", metadata=["score"], **wanted)
    assert [row["score"] for row in told] == [None] * 20 + [*range(10)]


@pytest.mark.parametrize("wanted", ["column", "metadata", "spans", "aligned"])
def test_a_column_that_a_table_lacks_is_refused_when_it_is_opened(widened, wanted):
    """Before anything is read, and by a name that is like it."""
    names: Any = "scor" if wanted == "column" else ["scor"]
    with pytest.raises(ColumnNotFoundError, match="did you mean 'score'") as caught:
        widened(**{"column": "tokens", wanted: names})
    assert caught.value.column == "scor"


@pytest.mark.parametrize("inside", ["meta.scor", "meta.score.x", "lists.element.x"])
def test_fields_are_looked_for_in_structs_when_a_table_is_opened(tmp_path, inside):
    rows = rows_table(0, 3, meta=[{"score": 1}] * 3, lists=[[{"x": 1}]] * 3)
    write_delta(tmp_path, [rows])
    if inside.startswith("lists"):  # Only files know what these are called.
        pf.delta(tmp_path, column="tokens", metadata=[inside])
        return
    with pytest.raises(ColumnNotFoundError, match=r"did you mean 'meta\.score'"):
        pf.delta(tmp_path, column="tokens", metadata=[inside])
