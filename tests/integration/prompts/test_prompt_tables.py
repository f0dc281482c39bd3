"""Prompts of tables: each row that is not deleted once a pass, at one snapshot."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.prompts import queue_of, saved
from made.tables import (
    data_files,
    delete_from_delta,
    delete_from_iceberg,
    rows_table,
    write_delta,
    write_iceberg,
)
from pagefeed.errors import StateMismatchError

GONE = [3, 40, 41, 59]
LEFT = sorted({*range(100)} - {*GONE})


def write(folder: Path, kind: str) -> Any:
    """Write a table with deleted rows; return a function that opens it."""
    tables = [rows_table(0, 60), rows_table(60, 100)]
    if kind == "delta":
        write_delta(folder, tables)
        files = folder.glob("*.parquet")
        first = next(file for file in files if pq.read_metadata(file).num_rows == 60)
        delete_from_delta(folder, {first.name: GONE}, "u")
        return lambda version=None: pf.delta(folder, version, column="id")
    metadata = write_iceberg(folder, tables)
    metadata = delete_from_iceberg(metadata, [(data_files(metadata)[0], GONE)], kind)
    return lambda: pf.iceberg(metadata, column="id")


@pytest.mark.parametrize("kind", ["delta", "positions", "vectors"])
def test_deleted_rows_are_no_prompts_and_kills_lose_none(tmp_path, kind):
    opened = write(tmp_path, kind)
    settings: dict[str, Any] = {"columns": ["id", "lang"], "epochs": 2}
    queue, trained = queue_of(opened(), **settings), []
    while not queue.done:
        tickets = queue.take(30)
        rows = queue.read(tickets)
        kept = tickets[::2]
        queue.commit(kept)
        trained += [row["id"] for row in rows[::2]]
        state = saved(queue)
        queue.take(5)  # Lost with the process.
        queue = queue_of(opened(), **settings)
        queue.load_state_dict(state)
        assert all(row["lang"] == ("en", "de", None)[row["id"] % 3] for row in rows)
    assert Counter(trained) == dict.fromkeys(LEFT, 2)


def test_a_state_of_another_version_of_a_table_is_refused(tmp_path):
    opened = write(tmp_path, "delta")
    queue = queue_of(opened(), columns=["id"])
    queue.commit(queue.take(20)[:10])
    other = queue_of(opened(1), columns=["id"])
    with pytest.raises(StateMismatchError):
        other.load_state_dict(saved(queue))
