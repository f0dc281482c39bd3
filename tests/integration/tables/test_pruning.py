"""Files that the metadata of a table prove to have no selected row stay closed."""

import json
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    FloatType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

import pagefeed as pf
from made.tables import (
    catalog_in,
    delete_from_delta,
    delete_from_iceberg,
    rows_table,
    write_delta,
    write_iceberg,
)
from pagefeed import selection as select
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import EmptySelectionError, MissingFileError
from pagefeed.reports import facts_of_inspection, facts_of_plan

SIZES = 60, 40, 80, 20


def tables() -> list[pa.Table]:
    """Ids rise from file to file; there are nulls and a NaN."""
    found, first = [], 0
    for number, size in enumerate(SIZES):
        score: list[Any] = [n / 10 for n in range(first, first + size)]
        if number == 2:
            score[3] = float("nan")
        extra = {
            "score": pa.array(score, pa.float64()),
            "source": pa.array(
                [None if number == 1 else f"{number}" * 40] * size, pa.string()
            ),
        }
        found.append(rows_table(first, first + size, **extra))
        first += size
    return found


def opened(folder: Path, kind: str, **wanted: Any) -> ParquetDataset:
    """A table of these files, of which some rows are deleted."""
    columns: dict[str, Any] = {"column": "tokens", "metadata": ["id"], **wanted}
    if kind == "delta":
        if not folder.exists():
            write_delta(folder, tables())
            [*files] = map(os.path.basename, pf.delta(folder, column="tokens").files)
            delete_from_delta(folder, {files[0]: [5], files[2]: [7, 8]})
        return pf.delta(folder, **columns)
    if not folder.exists():
        metadata = write_iceberg(folder, tables())
        whole = pf.iceberg(metadata, column="tokens").files
        deleted = [(f"file://{whole[0]}", [5]), (f"file://{whole[2]}", [7, 8])]
        changed = delete_from_iceberg(metadata, deleted, "positions")
        (folder / "path").write_text(changed)
    return pf.iceberg((folder / "path").read_text(), **columns)


def delivered(dataset: ParquetDataset) -> tuple[list[Any], str]:
    """Batches of an epoch in their order, and the identity in a state."""
    loader = pf.Loader(dataset, sequences=pf.Windows(8), batch_size=1, seed=3)
    batches = [batch["input_ids"].tolist() for batch in loader]
    return batches, loader.state_dict()["dataset"]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("predicates", "numbers"),
    [
        (["id < 30"], [0]),
        (["id >= 70 and id < 110"], [1, 2]),
        (["id in [3, 190]"], [0, 3]),
        (["source is null"], [1]),
        (["score > 17.5"], [2, 3]),
        (["id > 175", "lang == 'de'"], [2, 3]),
        (["source == '" + "2" * 40 + "' or id == 1"], [0, 2]),
    ],
)
def test_pruned_files_are_not_opened(tmp_path, kind, predicates, numbers, monkeypatch):
    """Rows, order and state are those of reading everything; files may be gone."""
    folder = tmp_path / "table"
    whole = opened(folder, kind)
    with monkeypatch.context() as patch:
        patch.setattr(
            select, "files_that_may_match", lambda files, _: [*range(len(files.files))]
        )
        everything = opened(folder, kind)
        for predicate in predicates:
            everything = everything.where(predicate)
        expected, rows = delivered(everything), [*everything]
    assert rows
    kept = {whole.files[number] for number in numbers}
    # The first one tells the types of columns.
    for path in {*whole.files[1:]} - kept:
        os.remove(path)
    found = opened(folder, kind)
    for predicate in predicates:
        found = found.where(predicate)
    assert {*found.files} <= kept
    assert [*found] == rows
    assert delivered(found) == expected
    with pytest.raises(MissingFileError):
        len(opened(folder, kind))


def iceberg_in(folder: Path, schema: Schema, spec: PartitionSpec) -> Any:
    catalog, _ = catalog_in(folder)
    return catalog.create_table("corpus.web", schema=schema, partition_spec=spec)


def metadata_of(table: Any) -> str:
    return str(table.metadata_location).removeprefix("file://")


def files_of(dataset: ParquetDataset) -> tuple[int, int, int]:
    """Files that are read, that are pruned, and in which no row was found."""
    table = dataset.table
    assert table is not None
    return len(dataset.files), len(table.pruned), len(table.without_rows)


def test_partitions_of_iceberg(tmp_path):
    """By identity, and by what is made of a column."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "lang", StringType()),
        NestedField(3, "at", TimestampType()),
        NestedField(
            4,
            "tokens",
            ListType(element_id=5, element=LongType(), element_required=False),
        ),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "lang"),
        PartitionField(3, 1001, DayTransform(), "at_day"),
        PartitionField(1, 1002, TruncateTransform(10), "id_trunc"),
    )
    table = iceberg_in(tmp_path, schema, spec)
    at = [1_767_400_000_000_000 + n * 3_600_000_000 for n in range(60)]
    rows = rows_table(0, 60, at=pa.array(at, pa.timestamp("us")))
    rows = rows.set_column(2, "tokens", rows["tokens"].cast(pa.list_(pa.int64())))
    parts: dict[Any, list[int]] = {}
    languages = [*enumerate(rows["lang"].to_pylist())]
    for n, lang in languages:
        parts.setdefault((lang, at[n] // 86_400_000_000, n // 10), []).append(n)
    paths = [str(tmp_path / f"{number}.parquet") for number in range(len(parts))]
    for path, numbers in zip(paths, parts.values(), strict=True):
        pq.write_table(rows.take(numbers), path)
    table.add_files(paths)
    web = pf.iceberg(metadata_of(table), column="tokens", metadata=["id", "lang"])
    count = len(web.files)
    for predicate, wanted in {
        "lang == 'en'": [n for n, lang in languages if lang == "en"],
        "lang is null": [n for n, lang in languages if lang is None],
        "id >= 40 and lang == 'de'": [
            n for n, lang in languages if n >= 40 and lang == "de"
        ],
        "at < '2026-01-04'": [n for n in range(60) if at[n] < 1_767_484_800_000_000],
        "at_day == '2026-01-04'": [
            n for n in range(60) if at[n] // 86_400_000_000 == 20_457
        ],
        "id_trunc == 20": [*range(20, 30)],
    }.items():
        found = web.where(predicate)
        assert sorted(row["id"] for row in found) == wanted, predicate
        read, pruned, without = files_of(found)
        assert read + pruned + without == count
        # The first file alone is kept for its types.
        assert pruned > count // 3, predicate
        assert without <= 1, predicate


def test_bounds_of_a_type_or_name_of_before_are_not_used(tmp_path):
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "score", FloatType()),
        NestedField(3, "a", LongType()),
        NestedField(4, "b", LongType()),
        NestedField(
            5,
            "tokens",
            ListType(element_id=6, element=LongType(), element_required=False),
        ),
    )
    table = iceberg_in(tmp_path, schema, PartitionSpec())

    def rows(begin: int, names: Sequence[str], kind: pa.DataType) -> pa.Table:
        numbers = [*range(begin, begin + 10)]
        values: list[Any] = [
            *(numbers, pa.array([0.1] * 10, kind), numbers, [-n for n in numbers]),
            pa.array([[n] for n in numbers], pa.list_(pa.int64())),
        ]
        return pa.table(dict(zip(names, values, strict=True)))

    table.append(rows(0, ["id", "score", "a", "b", "tokens"], pa.float32()))
    with table.update_schema() as change:
        change.update_column("score", field_type=_double())
        change.rename_column("a", "c")
    with table.update_schema() as change:
        change.rename_column("b", "a")
    table.append(rows(10, ["id", "score", "c", "a", "tokens"], pa.float64()))
    web = pf.iceberg(metadata_of(table), column="tokens", metadata=["id"])
    # A 32-bit 0.1 equals 0.1 in the file that has such numbers.
    matches = [row["id"] for row in web.where("score == 0.1")]
    assert matches == [row["id"] for row in web if row["id"] in matches]
    assert {*range(10, 20)} <= {*matches}
    assert [row["id"] for row in web.where("a == -3")] == [3]
    assert [row["id"] for row in web.where("c == 13")] == [13]
    assert files_of(web.where("a <= -10")) == (1, 1, 0)
    assert files_of(web.where("score < 0")) == (2, 0, 0)


def _double() -> Any:
    from pyiceberg.types import DoubleType

    return DoubleType()


def test_times_that_writers_cut_to_milliseconds(tmp_path):
    """The log of Delta has them, and the upper bound is then below the last time."""
    at = [1_767_400_000_000_000 + n for n in (100, 200, 345_678)]
    for number in range(2):
        moved = pa.array([n + number * 10**6 for n in at], pa.timestamp("us", "UTC"))
        write_delta(tmp_path, [rows_table(0, 3, at=moved)])
    web = pf.delta(tmp_path, column="tokens")
    # Of the second file: the first one tells the types of columns and stays.
    assert len(web.where("at >= '2026-01-03T00:26:41.345678Z'")) == 1
    last = "at >= '2026-01-03T00:26:40.345678Z' and at < '2026-01-03T00:26:41Z'"
    assert len(web.where(last)) == 1
    assert files_of(web.where("at > '2026-01-03T00:26:41Z'"))[1] == 1


def test_statistics_that_other_writers_of_delta_leave_out_or_cut(tmp_path):
    """Counts are optional, and some cut a text without rounding it up."""
    long = "a" * 40
    write_delta(tmp_path, [rows_table(0, 2, s=[text] * 2) for text in ("b", long)])
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                known = json.loads(line["add"]["stats"])
                del known["nullCount"], known["numRecords"]
                for bounds in (known["minValues"], known["maxValues"]):
                    bounds["s"] = bounds["s"][:32]
                line["add"]["stats"] = json.dumps(known)
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    web = pf.delta(tmp_path, column="tokens")
    assert len(web.where(f"s >= '{long}' and s < 'b'")) == 2
    assert len(web.where("s is not null and s != 'b'")) == 2
    assert files_of(web.where("s < 'a'")) == (1, 1, 0)


def test_partitions_by_decimals_and_by_null(tmp_path):
    price = pa.array([Decimal("1.50")] * 2, pa.decimal128(9, 2))
    for begin in (0, 2):
        rows = rows_table(begin, begin + 2, price=price, day=[None, "monday"])
        write_delta(tmp_path, [rows], partition_by=["price", "day"])
    web = pf.delta(tmp_path, column="tokens", metadata=["id"])
    assert sorted(row["id"] for row in web.where("price is not null")) == [0, 1, 2, 3]
    assert sorted(row["id"] for row in web.where("day is null")) == [0, 2]


def test_plan_and_inspect_tell_what_is_pruned(tmp_path):
    found = opened(tmp_path / "table", "iceberg").where("id < 30 or id == 95")
    assert files_of(found) == (2, 2, 0)
    loader = pf.Loader(found, sequences=pf.Windows(8), batch_size=2)
    plan = pf.forecast(loader)
    assert plan.pruned_files == 2
    assert dict(facts_of_plan(plan))["files pruned"] == "2"
    looked = pf.inspect(found)
    assert looked.pruned_files == 2
    assert dict(facts_of_inspection(looked))["files pruned"] == "2"
    assert "pruned=2" in repr(found)


def test_nothing_is_selected(tmp_path):
    found = opened(tmp_path / "table", "iceberg").where("id < 0")
    assert files_of(found) == (1, 3, 0)
    with pytest.raises(EmptySelectionError, match="id is from 0 to 59"):
        pf.Loader(found, sequences=pf.Windows(8), batch_size=2)


def test_erasing_and_growth_of_a_part_of_a_table(tmp_path):
    write_delta(tmp_path, tables())
    whole = pf.delta(tmp_path, column="tokens", metadata=["id"])
    part = whole.where("id < 100")
    assert len(part.files) == 2
    erased = whole.erase(rows={whole.files[0]: [3], whole.files[3]: [1]})
    assert delivered(erased.where("id < 100"))[1] == delivered(part)[1]
    # A file all of whose rows went is one without rows, not one that is gone.
    names = [os.path.basename(path) for path in whole.files]
    delete_from_delta(tmp_path, {names[0]: [4], names[1]: [*range(SIZES[1])]})
    # The files of before are the first ones of those with such rows.
    loader = pf.Loader(part, sequences=pf.Windows(8), batch_size=2, seed=1)
    batches = iter(loader)
    next(batches)
    state, rest = loader.state_dict(), [each["input_ids"].tolist() for each in batches]
    other = tmp_path / "other"
    extra = {"score": [0.5] * 40, "source": ["9"] * 40}
    more = [rows_table(begin, begin + 40, **extra) for begin in (150, 20)]
    write_delta(other, [*tables(), *more])
    grown = pf.delta(other, column="tokens", metadata=["id"]).where("id < 100")
    assert files_of(grown) == (3, 3, 0)
    again = pf.Loader(grown, sequences=pf.Windows(8), batch_size=2, seed=1)
    again.load_state_dict(state, grown="next-epoch")
    assert [each["input_ids"].tolist() for each in again] == rest
