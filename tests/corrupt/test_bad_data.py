"""The Parquet project's broken files: typed errors, or values where they are sound."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from made.shared_data import parquet_testing
from models import golden
from models.probing import Job, Outcome, assert_all, probe

REFUSED = {
    "ARROW-GH-45185.parquet": ["x"],
    "ARROW-GH-47662.parquet": ["flba_field"],
    "ARROW-RS-GH-6229-DICTHEADER.parquet": [
        "nation_key",
        "name",
        "region_key",
        "comment_col",
    ],
    "ARROW-RS-GH-6229-LEVELS.parquet": ["outer"],
    "PARQUET-1481.parquet": ["Handle"],
}


def bad(name: str) -> Path:
    return parquet_testing("bad_data", name)


def outcomes(name: str, columns: list[str]) -> dict[str, Outcome]:
    path = bad(name)
    jobs = [Job(path=path, column=one, expected=path) for one in columns]
    found = probe(jobs)
    assert_all(found, {"same"})
    assert len(found) == len(jobs)
    return {one.job.column: one for one in found}


def test_every_file_is_covered():
    mixed = {
        "ARROW-GH-41317.parquet",
        "ARROW-GH-41321.parquet",
        "ARROW-GH-43605.parquet",
    }
    there = {path.name for path in bad("README.md").parent.glob("*.parquet")}
    assert there == mixed | set(REFUSED)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_broken_columns_are_refused(name: str):
    for outcome in outcomes(name, REFUSED[name]).values():
        assert outcome.typed, str(outcome)


def test_dictionary_indices_of_no_bits_are_read():
    (outcome,) = outcomes("ARROW-GH-43605.parquet", ["min_fl"]).values()
    assert outcome.outcome == "same"


def test_the_column_with_fewer_rows_is_refused():
    name = "ARROW-GH-41317.parquet"
    found = outcomes(name, pq.read_schema(bad(name)).names)
    refused = {column for column, outcome in found.items() if outcome.typed}
    assert refused == {"timestamp_us_no_tz"}


def test_broken_columns_do_not_spoil_the_others():
    name = "ARROW-GH-41321.parquet"
    columns = pq.read_schema(bad(name)).names
    broken = set()
    for column in columns:
        try:
            golden.whole_column(bad(name), column)
        except OSError:
            broken.add(column)
    found = outcomes(name, columns)
    refused = {column for column, outcome in found.items() if outcome.typed}
    assert len(broken) == 4
    assert refused == broken
