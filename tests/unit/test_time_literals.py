"""Times in predicates, with more digits than the column has: compared exactly."""

import datetime
import operator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf

BASE = datetime.datetime(2020, 3, 2, 21, 13, 31)
MICROS = [0, 456_000, 456_001, 999_999]
SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge}


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.time32("ms")], ids=str
)
def test_times_finer_than_a_column_are_compared_exactly(
    tmp_path: Path, kind: pa.DataType
):
    per_unit = 10**6 if kind.unit == "s" else 1000
    times = [BASE.replace(microsecond=each) for each in MICROS]
    column = [
        each.replace(microsecond=each.microsecond // per_unit * per_unit)
        for each in times
    ]
    is_time = pa.types.is_time(kind)
    values = [each.time() for each in column] if is_time else column
    table = {"t": pa.array([*values, None], kind), "n": range(5), "tokens": [[1]] * 5}
    path = tmp_path / "times.parquet"
    pq.write_table(pa.table(table), path, row_group_size=2)
    data = pf.parquet(path, column="tokens", metadata=["n"])
    for time in times:
        text = time.time().isoformat() if is_time else time.isoformat()
        zone = "Z" if not is_time and kind.tz else ""
        for sign, holds in SIGNS.items():
            found = data.where(f"t {sign} '{text}{zone}'")
            rows = [row["n"] for row in found.head(5)] if len(found) else []
            assert rows == [n for n, own in enumerate(column) if holds(own, time)]
