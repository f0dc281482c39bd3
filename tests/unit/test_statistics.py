"""Statistics that cannot be bounds prove nothing: no matching row is lost."""

import datetime
import decimal
import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.files import chunk_metas, read_footer, with_footer
from made.thrift import BINARY, Field, Struct, i64
from pagefeed.errors import CorruptFileError
from pagefeed.selection import bounds_of
from pagefeed.selection.table_columns import Bounds

MIN, MAX, NULLS, MAX_VALUE, MIN_VALUE = 2, 1, 3, 5, 6
NUMBERS = [100, 108, 198, 206, None, 3]
COLUMNS = {
    "i": pa.array(NUMBERS, pa.int32()),
    "u": pa.array(NUMBERS, pa.uint64()),
    "f": pa.array(NUMBERS, pa.float64()),
    "s": pa.array([None if n is None else f"{n:03}" for n in NUMBERS]),
    "b": pa.array([None if n is None else b"%03d" % n for n in NUMBERS]),
    "d": pa.array([n and decimal.Decimal(n) for n in NUMBERS], pa.decimal128(30, 2)),
}
CASES: list[tuple[str, int, Any]] = [
    ("{} == {}", 108, operator.eq),
    ("{} in [{}]", 3, operator.eq),
    ("{} < {}", 108, operator.lt),
    ("not {} <= {}", 108, operator.gt),
]


def swapped(said: Struct) -> None:
    said[MIN_VALUE], said[MAX_VALUE] = said[MAX_VALUE], said[MIN_VALUE]


def all_null(said: Struct) -> None:
    said[NULLS] = i64(3)


def negative_nulls(said: Struct) -> None:
    said[NULLS] = i64(-1)


def narrow(said: Struct) -> None:
    """As if bytes had been compared as signed numbers: the bound below is too high."""
    said[MIN], said[MAX] = said[MAX_VALUE], said[MAX_VALUE]
    del said[MIN_VALUE], said[MAX_VALUE]


def changed(path: Path, change: Any, *, column_orders: bool = True) -> Path:
    """A file with other statistics in all row groups of all columns but the tokens."""
    footer = read_footer(path.read_bytes())
    if not column_orders:
        del footer[7]
    for meta in chunk_metas(footer):
        if 12 in meta and meta[3].value[1][0] != b"input_ids":
            change(meta[12].value)
    out = path.with_name(f"{change.__name__}.parquet")
    out.write_bytes(with_footer(path.read_bytes(), footer))
    return out


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statistics") / "true.parquet"
    rows = pa.array([[n] for n in range(6)], pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": rows, **COLUMNS}), path, row_group_size=3)
    return path


CHANGES = [swapped, all_null, negative_nulls, narrow]


def rows_of(data: Any, predicate: Any) -> list[int]:
    return [row["input_ids"][0] for row in data.where(predicate)]


@pytest.mark.parametrize("change", CHANGES)
def test_such_statistics_lose_no_row(true: Path, change: Any):
    path = changed(true, change, column_orders=change is not narrow)
    data = pf.parquet(str(path), column="input_ids")
    # Old writers compared bytes wrongly, and signed numbers as others do.
    for column in "sbd" if change is narrow else COLUMNS:
        assert rows_of(data, f"{column} is null") == [4]
        assert rows_of(data, pc.field(column) == COLUMNS[column][1]) == [1]
        for form, number, holds in CASES:
            if column == "f" and form.startswith("not"):
                continue  # NaN could match, so that nothing is left out.
            literal = f"'{number:03}'" if column in "sb" else number
            expected = [n for n, x in enumerate(NUMBERS) if x and holds(x, number)]
            predicate = form.format(column, literal)
            assert rows_of(data, predicate) == expected, predicate


def test_true_statistics_leave_row_groups_out(true: Path):
    """A page that is damaged is not read where bounds prove that no row matches."""
    data = true.read_bytes()
    footer = read_footer(data)
    offset = chunk_metas(footer, "i")[0][9].value
    path = true.with_name("damaged.parquet")
    path.write_bytes(data[:offset] + bytes(8) + data[offset + 8 :])
    damaged = pf.parquet(str(path), column="input_ids")
    assert rows_of(damaged, "i < 50") == [5]
    with pytest.raises(CorruptFileError):
        rows_of(damaged, "i < 150")


@pytest.mark.parametrize("writer", [b"Parquet.Net version 4.25.0 (build 6)", b"other"])
def test_bounds_of_times_in_the_zone_of_the_writer_are_none(
    tmp_path: Path, writer: bytes
):
    noon = datetime.datetime(2021, 1, 1, 12)
    tokens = pa.array([[0], [1]], pa.list_(pa.int32()))
    times = pa.array([noon, noon], pa.timestamp("ms"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"input_ids": tokens, "t": times}), path)
    footer = read_footer(path.read_bytes())
    footer[6] = Field(BINARY, writer)
    said = chunk_metas(footer, "t")[0][12].value
    earlier = int.from_bytes(said[MIN_VALUE].value, "little") - 8 * 3600 * 1000
    for bound in (MIN, MAX, MIN_VALUE, MAX_VALUE):
        said[bound] = Field(BINARY, earlier.to_bytes(8, "little"))
    path.write_bytes(with_footer(path.read_bytes(), footer))
    found = rows_of(pf.parquet(path, column="input_ids"), f"t == '{noon.isoformat()}'")
    assert found == ([0, 1] if writer.startswith(b"Parquet.Net") else [])


def test_bounds_in_the_log_of_a_table_that_contradict_themselves():
    assert bounds_of(2, 1, num_nulls=0, num_rows=5) is None
    assert bounds_of("b", "a", num_nulls=None, num_rows=None) is None
    assert bounds_of(1, 2, num_nulls=5, num_rows=5) is None
    assert bounds_of(None, 2, num_nulls=5, num_rows=5) is None
    assert bounds_of(None, None, num_nulls=6, num_rows=5) is None
    assert bounds_of(None, None, num_nulls=-1, num_rows=5) is None
    assert bounds_of(None, None, num_nulls=5, num_rows=5) == Bounds(
        None, None, may_have_values=False
    )
