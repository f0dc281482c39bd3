"""Times of files that do not say their zone, in tables whose type does."""

import datetime
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.tables import rows_table, write_delta

TIMES = [datetime.datetime(1969, 7, 20, 20, 17), None, datetime.datetime(2026, 1, 2)]
NAIVE, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


def told(web: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Times by ids: of rows, and of batches."""
    rows = {row["id"]: (row["at"], row["s"]["at"], row["s.at"]) for row in web}
    fields: Any = ("input_ids", "metadata")
    loader = pf.Loader(
        web, sequences=pf.Windows(4), batch_size=1, fields=fields, drop_last=False
    )
    tables = [pa.table(batch["metadata"]) for batch in loader]
    batches = {
        row["id"]: (row["at"], row["s"]["at"], row["s.at"])
        for table in tables
        for row in table.to_pylist()
    }
    return rows, batches


@pytest.mark.parametrize(
    ("kinds", "of_table"),
    [([NAIVE], UTC), ([NAIVE, UTC], UTC), ([UTC, NAIVE], UTC), ([UTC], NAIVE)],
)
def test_times_have_the_zone_of_the_table(tmp_path, kinds, of_table):
    """As ``where`` compares them: the instant that the file stores."""
    write_delta(
        tmp_path,
        [
            rows_table(3 * n, 3 * n + 3, **columns(of_table))
            for n, _ in enumerate(kinds)
        ],
    )
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "at", "s", "s.at"])
    for path, kind in zip(web.files, kinds, strict=True):
        first = pq.read_table(path, columns=["id"])["id"][0].as_py()
        pq.write_table(rows_table(first, first + 3, **columns(kind)), path)
    log = tmp_path / "_delta_log"
    for commit in log.glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, lines)))
    web = pf.delta(tmp_path, column="tokens", metadata=["id", "at", "s", "s.at"])
    zone = datetime.UTC if of_table == UTC else None
    times = [time and time.replace(tzinfo=zone) for time in TIMES] * len(kinds)
    rows, batches = told(web)
    assert rows == {n: (time,) * 3 for n, time in enumerate(times)}
    assert batches == rows
    late = web.where("at > '2020-01-01T00:00:00" + ("Z'" if zone else "'"))
    assert [row["at"] for row in late] == [times[2]] * len(kinds)


def columns(kind: pa.DataType) -> dict[str, Any]:
    zone = datetime.UTC if kind == UTC else None
    times = [time and time.replace(tzinfo=zone) for time in TIMES]
    at = pa.array(times, kind)
    return {"at": at, "s": pa.StructArray.from_arrays([at], ["at"])}
