"""Rows that a later snapshot of a table has no more are erased from a run."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.tables import (
    catalog_in,
    data_files,
    delete_from_delta,
    delete_from_iceberg,
    rows_table,
    write_delta,
    write_iceberg,
)
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedError,
)

PADDING = 7


def loader_of(data: ParquetDataset) -> pf.Loader:
    sequences = pf.Windows(16)
    return pf.Loader(data, sequences=sequences, batch_size=2, seed=5, padding=PADDING)


def test_a_later_snapshot_of_a_table(tmp_path):
    metadata = write_iceberg(
        tmp_path / "ice", [rows_table(0, 100), rows_table(100, 160)]
    )
    files = data_files(metadata)
    then = pf.iceberg(metadata, column="tokens", metadata=["id"])
    for kind in ("positions", "vectors"):
        deleted = [(files[0], [0, 7, 99]), (files[1], [59])]
        later = delete_from_iceberg(metadata, deleted, kind)
        now = pf.iceberg(later, column="tokens")
        gone = then.erase(snapshot=now)
        ids = [row["id"] for row in gone]
        assert [n for n in range(160) if ids[n] is None] == [0, 7, 99, 159]
        loader = loader_of(gone)
        loader.load_state_dict(loader_of(then).state_dict())
    write_delta(tmp_path / "delta", [rows_table(0, 100)])
    data = pf.delta(tmp_path / "delta", column="tokens", metadata=["id"])
    name = data.files[0].rsplit("/", 1)[1]
    delete_from_delta(tmp_path / "delta", {name: [3, 4]})
    gone = data.erase(snapshot=pf.delta(tmp_path / "delta", column="tokens"))
    assert [n for n in range(100) if gone[n]["id"] is None] == [3, 4]


def test_a_snapshot_that_wrote_files_anew_is_refused(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100)])
    data = pf.delta(tmp_path, column="tokens")
    DeltaTable(tmp_path).delete("id = 5")
    now = pf.delta(tmp_path, column="tokens")
    with pytest.raises(UnsupportedError, match=r"rows were rewritten: .*key='id'"):
        data.erase(snapshot=now)
    gone = data.erase(where="id == 5").spans.erased
    assert gone
    assert gone.num_rows == 1


def ids_left(data: ParquetDataset) -> set[int]:
    return {n for n in range(len(data)) if data[n]["id"] is not None}


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_rows_that_were_rewritten_are_told_by_their_key(tmp_path, data):
    """Any deletes, appends and compactions, in any order, and a predicate on top."""
    folder = tmp_path / "table"
    shutil.rmtree(folder, ignore_errors=True)
    write_delta(folder, [rows_table(0, 40), rows_table(40, 60)])
    then = pf.delta(folder, column="tokens", metadata=["id"])
    gone, end = set[int](), 60
    for what in data.draw(st.lists(st.sampled_from(["delete", "append", "compact"]))):
        table = DeltaTable(folder)
        if what == "compact":
            table.optimize.compact()
        elif what == "append":
            write_delta(folder, [rows_table(end, end + 9)])
            end += 9
        else:
            some = data.draw(st.sets(st.integers(0, end - 1), min_size=1, max_size=9))
            table.delete(f"id in ({', '.join(map(str, some))})")
            gone |= some
    now = pf.delta(folder, column="tokens")
    if data.draw(st.booleans()):
        now = now.where("id >= 20")
        gone |= {*range(20)}
    left = then.erase(snapshot=now, key="id")
    assert ids_left(left) == {*range(60)} - gone
    loader = loader_of(left)
    loader.load_state_dict(loader_of(then).state_dict())


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("of_table", ["id", None])
def test_a_run_goes_on_without_rows_that_went_in_a_rewrite(tmp_path, kind, of_table):
    """By the key that the table was opened with, or one that is given."""
    of_erase = "id" if of_table is None else None
    then, rewrite = rewritten_table(tmp_path, kind, key=of_table)
    expected = [batch["input_ids"] for batch in loader_of(then)]
    begun = loader_of(then)
    batches = iter(begun)
    for _ in range(3):
        next(batches)
    state = begun.state_dict()
    now = rewrite()
    assert not {*then.files} & {*now.files}
    left = then.erase(snapshot=now, key=of_erase)
    assert [n for n in range(150) if left[n]["id"] is None] == [7, 31, 149]
    loader = loader_of(left)
    loader.load_state_dict(state)
    rest = [batch["input_ids"] for batch in loader]
    for found, before in zip(rest, expected[3:], strict=True):
        gone = np.isin(before, [7, 31, 149]) & (found == PADDING)
        assert np.array_equal(found[~gone], before[~gone])
        assert not np.isin(found, [31, 149]).any()
    with pytest.raises(UnsupportedError, match="gives rows no ids"):
        then.erase(snapshot=now, key="_row_id")


def rewritten_table(folder: Path, kind: str, **options: Any) -> tuple[Any, Any]:
    """A table, and what deletes three of its rows and rewrites all its files."""
    rows, options = (
        [rows_table(n, n + 30) for n in range(0, 150, 30)],
        {
            "column": "tokens",
            "metadata": ["id"],
            **options,
        },
    )
    if kind == "delta":
        write_delta(folder, rows)

        def rewrite_delta() -> Any:
            DeltaTable(folder).delete("id in (7, 31, 149)")
            DeltaTable(folder).optimize.compact()
            return pf.delta(folder, **options)

        return pf.delta(folder, **options), rewrite_delta
    catalog, _ = catalog_in(folder)
    table = catalog.create_table("corpus.web", schema=rows[0].schema)
    for each in rows:
        table.append(each)

    def rewrite_iceberg() -> Any:
        table.overwrite(table.scan("id not in (7, 31, 149)").to_arrow())
        catalog.close()
        return pf.iceberg(table, **options)

    return pf.iceberg(table.metadata_location, **options), rewrite_iceberg


def test_a_compaction_takes_nothing_from_a_run(tmp_path):
    """The state goes on over its own snapshot, exactly, without what was deleted."""
    write_delta(tmp_path, [rows_table(n, n + 30) for n in range(0, 150, 30)])

    def opened(version: int | None = None) -> ParquetDataset:
        return pf.delta(tmp_path, version, column="tokens")

    def rest(dataset: ParquetDataset) -> list[Any]:
        loader = loader_of(dataset)
        loader.load_state_dict(state)
        return [batch["input_ids"].tolist() for batch in loader]

    begun = loader_of(opened())
    next(iter(begun))
    state = begun.state_dict()
    expected = rest(opened())
    DeltaTable(tmp_path).optimize.compact()
    assert rest(opened()) == rest(opened(4)) == expected
    assert rest(opened(4).erase(snapshot=opened(), key="id")) == expected
    DeltaTable(tmp_path).delete("id = 77")
    with pytest.raises(StateMismatchError, match=r"delta:4, now delta:6"):
        rest(opened())
    found = rest(opened(4).erase(snapshot=opened(), key="id"))
    pairs = zip(
        np.array(found).reshape(-1), np.array(expected).reshape(-1), strict=True
    )
    changed = {(int(now), int(then)) for now, then in pairs if now != then}
    assert changed == {(PADDING, 77)}


def test_a_key_that_does_not_tell_rows_is_refused(tmp_path):
    twice = rows_table(0, 30, url=[f"u{n // 2}" for n in range(30)])
    write_delta(tmp_path, [twice])
    then = pf.delta(tmp_path, column="tokens")
    DeltaTable(tmp_path).delete("id = 5")
    now = pf.delta(tmp_path, column="tokens")
    for key, problem in (
        ("url", "2 rows that were rewritten have 'u0'"),
        ("lang", "10 of the rewritten rows have none"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            then.erase(snapshot=now, key=key)
    with pytest.raises(ColumnNotFoundError, match="nr"):
        then.erase(snapshot=now, key="nr")
    with pytest.raises(InvalidArgumentError, match="give snapshot= too"):
        then.erase(where="id = 1", key="id")
    # A file that was deleted whole, and none was added: nothing was rewritten.
    write_delta(tmp_path / "parts", [rows_table(0, 30)], partition_by=["lang"])
    then = pf.delta(tmp_path / "parts", column="tokens", metadata=["id"])
    DeltaTable(tmp_path / "parts").delete("lang = 'en'")
    left = then.erase(snapshot=pf.delta(tmp_path / "parts", column="tokens"))
    assert [row["id"] for row in left].count(None) == 10


def test_files_of_another_selection_are_no_rewritten_ones(tmp_path):
    write_delta(tmp_path, [rows_table(n, n + 30) for n in (0, 30, 60)])
    whole = pf.delta(tmp_path, column="tokens", metadata=["id"])
    some = whole.where("id < 60")
    assert len(some.files) == 2
    DeltaTable(tmp_path).delete("id >= 30 and id < 60")
    now = pf.delta(tmp_path, column="tokens", metadata=["id"])
    assert ids_left(some.erase(snapshot=now)) == {*range(30)}
    write_delta(tmp_path, [rows_table(90, 120)])
    later = pf.delta(tmp_path, column="tokens").where("id >= 60")
    assert ids_left(now.erase(snapshot=later)) == {*range(30, 60)}
