"""INT96 timestamps arrive right in any year, or are refused by name: none wraps."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import parquet_testing
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import CorruptFileError, UnsupportedError

FAR = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1500, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 123456),
    None,
    datetime.datetime(3000, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
NEAR = [datetime.datetime(1700, 1, 1), None, datetime.datetime(2200, 1, 1)]
SPARK = {"org.apache.spark.sql.parquet.row.metadata": "{}"}


def write(
    path: Path, times: list[Any], unit: str = "us", *, by: str = "arrow"
) -> ParquetDataset:
    """Times in a column, in a struct, and in lists, of a writer."""
    kind: Any = pa.timestamp(unit)
    at = pa.array(times, kind)
    rows = pa.table(
        {
            "tokens": pa.array([[n] * 4 for n in range(len(at))], pa.list_(pa.int32())),
            "id": range(len(at)),
            "at": at,
            "s": pa.StructArray.from_arrays([at], ["at"]),
            "l": pa.array([[each, each] for each in times], pa.list_(kind)),
        }
    )
    with pq.ParquetWriter(
        path,
        rows.schema,
        use_deprecated_int96_timestamps=True,
        store_schema=by == "arrow",
    ) as writer:
        writer.write_table(rows)
        if by == "spark":
            writer.add_key_value_metadata(SPARK)
    physical = pq.ParquetFile(path).metadata.schema.column(2).physical_type
    assert physical == "INT96"
    names = ["id", "at", "s", "l"]
    return pf.parquet(path, column="tokens", metadata=names)


def ids(web: ParquetDataset, predicate: str) -> list[int]:
    return [row["id"] for row in web.where(predicate)]


@pytest.mark.parametrize("by", ["arrow", "spark"])
def test_writers_without_finer_times_have_any_year(tmp_path, by):
    web = write(tmp_path / "web.parquet", FAR, by=by)
    rows = [
        {"id": n, "at": each, "s": {"at": each}, "l": [each, each]}
        for n, each in enumerate(FAR)
    ]
    assert [{name: row[name] for name in rows[0]} for row in web] == rows
    fields: Any = ("input_ids", "metadata")
    batches = pf.Loader(web, sequences=pf.Windows(4), batch_size=1, fields=fields)
    told = [row for b in batches for row in pa.table(b["metadata"]).to_pylist()]
    assert {row["id"]: row["at"] for row in told} == dict(enumerate(FAR))
    for column in ("at", "s.at"):
        assert ids(web, f"{column} >= '2999-01-01'") == [4, 5]
        assert ids(web, f"{column} < '1500-01-02T03:04:05.000007'") == [0, 1]
        assert ids(web, f"{column} is null") == [3]


@pytest.mark.parametrize(("unit", "by"), [("ns", "arrow"), ("us", "nobody known")])
def test_nanoseconds_are_exact(tmp_path, unit, by):
    web = write(tmp_path / "web.parquet", NEAR, unit, by=by)
    assert pa.array(web.column_index("at").read_page(0)).type == pa.timestamp("ns")
    assert [row["at"] for row in web] == NEAR
    assert ids(web, "at < '2199-01-01'") == [0]
    assert ids(web, "s.at is null") == [1]


def test_years_that_nanoseconds_do_not_hold_are_refused(tmp_path):
    """By name, and only where the column is asked for."""
    web = write(tmp_path / "web.parquet", FAR, by="nobody known")
    with pytest.raises(UnsupportedError, match="INT96 timestamp of about") as caught:
        list(web)
    assert caught.value.column == "at"
    for predicate in ("at < '2200-01-01'", "s.at is null"):
        with pytest.raises(UnsupportedError, match="INT96 timestamp of about") as other:
            len(web.where(predicate))
        assert str(other.value.column) in predicate
    import pyarrow.compute as pc

    with pytest.raises(UnsupportedError, match="INT96 timestamp of about"):
        len(web.where(pc.field("at").is_null()))
    assert ids(pf.parquet(web.files, column="tokens", metadata=["id"]), "id > 3") == [
        4,
        5,
    ]


def test_a_damaged_page_is_named(tmp_path):
    path = tmp_path / "web.parquet"
    write(path, NEAR)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(2)
    data, start = bytearray(path.read_bytes()), chunk.dictionary_page_offset
    data[start : start + 6] = b"\xff" * 6
    path.write_bytes(data)
    for predicate in ("at > '2020-01-01'", "at is null"):
        with pytest.raises(CorruptFileError, match="pyarrow cannot read it") as caught:
            len(pf.parquet(path, column="tokens").where(predicate))
        assert caught.value.file == str(path)


def test_files_of_several_writers_have_the_finest_unit(tmp_path):
    paths = [tmp_path / f"{n}.parquet" for n in range(3)]
    write(paths[0], NEAR, "ns")
    write(paths[1], NEAR, by="spark")
    wanted: Any = {"column": "tokens", "metadata": ["at", "s", "l"]}
    assert [row["at"] for row in pf.parquet(paths[:2], **wanted)] == NEAR * 2
    write(paths[2], FAR, by="spark")
    both = pf.parquet(paths, **wanted)
    assert len(both.where("at < '2250-01-01'")) == 7
    with pytest.raises(UnsupportedError, match="does not fit") as caught:
        list(both)
    assert caught.value.file == str(paths[2])


def test_a_file_of_spark():
    """Its last year is one in which Spark's own days overflow."""
    path = parquet_testing("data", "int96_from_spark.parquet")
    web = pf.parquet(path, column="a")
    for use in (lambda: list(web), lambda: len(web.where("a > '2024-01-01'"))):
        with pytest.raises(UnsupportedError, match="INT96 timestamp of about the year"):
            use()
