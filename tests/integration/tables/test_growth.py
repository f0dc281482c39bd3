"""Data that grew between a save and a load: what remained comes as it would have."""

import itertools
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable

import pagefeed as pf
from made.growing import add_file, folder_loader, loader_of, rows_of_all, taken
from made.tables import catalog_in, delete_from_delta, rows_table, write_delta
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    StateMismatchError,
)


def batches(loader: pf.Loader) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in loader]


def tokens_in(found: list[list[list[int]]]) -> set[int]:
    return {token for batch in found for row in batch for token in row}


@pytest.mark.parametrize("name", ["z.parquet", "0.parquet", "b0.parquet"])
def test_what_remained_comes_first(tmp_path, name):
    # They are older than the next one, and keep the order of their names.
    for number, old in enumerate(["b.parquet", "a.parquet", "c.parquet"]):
        add_file(tmp_path, old, 100 * number)
        os.utime(tmp_path / old, (number, number))
    before = folder_loader(tmp_path)
    expected = batches(before)
    before = folder_loader(tmp_path)
    assert taken(before, 3) == expected[:3]
    state = before.state_dict()
    add_file(tmp_path, name, 900, rows=80)
    with pytest.raises(StateMismatchError, match="files then 3, now 4"):
        folder_loader(tmp_path).load_state_dict(state)
    now = folder_loader(tmp_path)
    now.load_state_dict(state, grown="next-epoch")
    assert (now.epoch, now.step) == (0, 3)
    remaining = iter(now)
    assert next(remaining)["input_ids"].tolist() == expected[3]
    # A state of the same epoch is one of the data of before.
    again = folder_loader(tmp_path)
    again.load_state_dict(now.state_dict(), grown="next-epoch")
    assert batches(again) == expected[4:]
    assert [batch["input_ids"].tolist() for batch in remaining] == expected[4:]
    fresh = folder_loader(tmp_path)
    fresh.set_epoch(1)
    whole = batches(fresh)
    assert now.epoch == 1
    assert batches(now) == whole
    assert 900 in np.unique(whole)
    # Later states are of the data as they are.
    third = folder_loader(tmp_path)
    third.load_state_dict(now.state_dict())
    assert third.epoch == 2


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_grew(tmp_path, kind):
    """Once, and once more before the state was loaded."""
    catalog, _ = catalog_in(tmp_path / "ice")
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)

    def add(begin: int) -> None:
        write_delta(tmp_path / "delta", [rows_table(begin, begin + 100)])
        table.append(rows_table(begin, begin + 100))

    def loader() -> pf.Loader:
        data = (
            pf.delta(tmp_path / "delta", column="tokens")
            if kind == "delta"
            else pf.iceberg("corpus.web", catalog=catalog, column="tokens")
        )
        return loader_of(data, batch_size=1)

    add(1)
    add(101)
    expected = rows_of_all([loader()])
    before = loader()
    taken(before, 2)
    state = before.state_dict()
    for begin in (201, 301):
        add(begin)
        with pytest.raises(StateMismatchError, match="load with grown="):
            loader().load_state_dict(state)
        now = loader()
        now.load_state_dict(state, grown="next-epoch")
        rows = rows_of_all([now])
        assert [row for row in rows if max(row) <= 200] == expected[2:]
        assert max(map(max, rows)) <= 200
        fresh = loader()
        fresh.set_epoch(1)
        assert rows_of_all([now]) == rows_of_all([fresh])
    catalog.close()


def test_a_table_that_grew_and_lost_rows(tmp_path):
    """It is refused, and what the refusal says goes on without the deleted rows."""
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 200)])
    before = loader_of(pf.delta(tmp_path, column="tokens"))
    taken(before, 2)
    state = before.state_dict()
    same = loader_of(pf.delta(tmp_path, column="tokens"))
    same.load_state_dict(state)
    rest = batches(same)
    write_delta(tmp_path, [rows_table(200, 300)])
    gone = {0: [*range(1, 50)], 1: [*range(20, 70)]}
    files = [Path(path).name for path in pf.delta(tmp_path, column="tokens").files]
    delete_from_delta(tmp_path, {files[n]: rows for n, rows in gone.items()})
    web = pf.delta(tmp_path, column="tokens")
    now = loader_of(web)
    with pytest.raises(StateMismatchError, match=r"lost rows .* delta:3.*erase\(where"):
        now.load_state_dict(state, grown="next-epoch")
    then = pf.delta(tmp_path, 1, column="tokens")
    numbers = {then.files[number]: rows for number, rows in gone.items()}
    then = then.erase(rows=numbers)
    again = loader_of(then)
    again.load_state_dict(state)
    left = batches(again)
    deleted = {row + 100 * n for n, rows in gone.items() for row in rows}
    assert tokens_in(left) & deleted == set()
    assert tokens_in(left) | {0} == tokens_in(rest) - deleted | {0}
    now.set_epoch(1)
    seen = tokens_in(batches(now))
    assert seen & deleted == set()
    assert max(seen) >= 200
    # A file that was written anew may have lost any of its rows.
    DeltaTable(tmp_path).delete("id = 190")
    rewritten = loader_of(pf.delta(tmp_path, column="tokens"))
    with pytest.raises(StateMismatchError, match=r"rewritten since\. Open delta:1"):
        rewritten.load_state_dict(state, grown="next-epoch")


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_files_with_deleted_rows_are_added(tmp_path, where):
    """While no file of before has one: all rows of the state are there."""

    def loader() -> pf.Loader:
        web = pf.delta(tmp_path, column="tokens")
        return loader_of(web if where is None else web.where(where), batch_size=1)

    write_delta(tmp_path, [rows_table(1, 100), rows_table(100, 200)])
    expected, before = batches(loader()), loader()
    taken(before, 2)
    state = before.state_dict()
    write_delta(tmp_path, [rows_table(200, 300)])
    [added] = {*pf.delta(tmp_path, column="tokens").files[2:]}
    delete_from_delta(tmp_path, {Path(added).name: [*range(1, 50)]})
    now = loader()
    now.load_state_dict(state, grown="next-epoch")
    rest = batches(now)
    assert [batch for batch in rest if max(batch[0]) < 200] == expected[2:]
    assert not tokens_in(rest) & {200, *range(250, 300)}
    seen = tokens_in(batches(now))
    assert max(seen) >= 250
    assert not (seen | tokens_in(rest)) & {*range(201, 250)}


def test_an_end_and_a_begin_have_nothing_left_of_before(tmp_path):
    add_file(tmp_path, "a.parquet", 0)
    loop = folder_loader(tmp_path)
    for _ in loop:
        state = loop.state_dict()  # The last one stands at the end.
    after = loop.state_dict()
    add_file(tmp_path, "b.parquet", 100)
    fresh = folder_loader(tmp_path)
    fresh.set_epoch(1)
    expected = batches(fresh)
    for saved in (state, after):
        now = folder_loader(tmp_path)
        now.load_state_dict(saved, grown="next-epoch")
        assert batches(now) == expected


def test_set_epoch_leaves_the_data_of_before(tmp_path):
    add_file(tmp_path, "a.parquet", 0)
    begun = folder_loader(tmp_path)
    taken(begun, 1)
    add_file(tmp_path, "b.parquet", 100)
    now = folder_loader(tmp_path)
    now.load_state_dict(begun.state_dict(), grown="next-epoch")
    now.set_epoch(0)
    assert now.step == 1
    now.set_epoch(1)
    fresh = folder_loader(tmp_path)
    fresh.set_epoch(1)
    assert batches(now) == batches(fresh)


def test_an_epoch_that_is_over_or_begins_again_is_of_all_data(tmp_path):
    add_file(tmp_path, "a.parquet", 0)
    begun = folder_loader(tmp_path)
    taken(begun, 3)
    state, old = begun.state_dict(), len(begun)
    add_file(tmp_path, "b.parquet", 100, rows=90)
    fresh = folder_loader(tmp_path)
    now = folder_loader(tmp_path)
    now.load_state_dict(state, grown="next-epoch")
    assert (len(now), now.num_steps_left) == (old, old - 3)
    now.seek(old)
    assert (now.epoch, now.step, len(now)) == (1, 0, len(fresh))
    now.load_state_dict(state, grown="next-epoch")
    taken(now, 1)
    assert batches(now) == batches(fresh)
    now.load_state_dict(state, grown="next-epoch")
    running = iter(now)
    next(running)
    now.seek(0)
    assert [batch["input_ids"].tolist() for batch in running] == batches(
        folder_loader(tmp_path)
    )
    now.load_state_dict(state, grown="next-epoch")
    with pytest.raises(StateMismatchError, match="seed"):
        now.load_state_dict(state | {"seed": 6})
    assert (now.step, now.state_dict()) == (3, state)


def test_skipped_steps_and_growth(tmp_path):
    add_file(tmp_path, "a.parquet", 0)
    expected = batches(folder_loader(tmp_path))
    begun = folder_loader(tmp_path)
    taken(begun, 1)
    begun.skip([2])
    state = begun.state_dict()
    add_file(tmp_path, "b.parquet", 100)
    now = folder_loader(tmp_path)
    now.load_state_dict(state, grown="next-epoch")
    assert taken(now, 3) == [expected[1], *expected[3:5]]


def test_what_did_not_grow_is_refused(tmp_path):
    for number, old in enumerate(["a.parquet", "b.parquet"]):
        add_file(tmp_path, old, 100 * number)
    begun = folder_loader(tmp_path)
    taken(begun, 1)
    state = begun.state_dict()
    same = folder_loader(tmp_path)
    same.load_state_dict(state, grown="next-epoch")
    assert same.state_dict() == state
    add_file(tmp_path, "a.parquet", 500)
    add_file(tmp_path, "c.parquet", 600)
    changed = folder_loader(tmp_path)
    with pytest.raises(StateMismatchError, match="with some files added"):
        changed.load_state_dict(state, grown="next-epoch")
    assert changed.step == 0
    with pytest.raises(InvalidArgumentError, match="grown='next-epoch' delivers them"):
        changed.load_state_dict(state, grown="now")  # type: ignore[arg-type]
    with pytest.raises(StateMismatchError, match="saved after grown='now'"):
        same.load_state_dict(state | {"grown": [["8c01", 3]]})
    with pytest.raises(InvalidArgumentError, match="grown='later'"):
        changed.load_state_dict(state, grown="later")  # type: ignore[arg-type]
    mixed = loader_of(pf.mix({"web": (pf.parquet(tmp_path, column="tokens"), 1.0)}))
    with pytest.raises(StateMismatchError, match="this loader 'mixture'"):
        mixed.load_state_dict(state, grown="next-epoch")


@pytest.mark.parametrize("epochs", [1, 2, None])
def test_where_mixed_data_come_from(tmp_path, epochs):
    add_file(tmp_path, "b.parquet", 0)
    begun = folder_loader(tmp_path, batch_size=2, epochs=epochs)
    taken(begun, 2)
    add_file(tmp_path, "a.parquet", 900)
    now = folder_loader(tmp_path, batch_size=2, epochs=epochs)
    now.load_state_dict(begun.state_dict(), grown="next-epoch")
    epoch = 0
    for step, batch in enumerate(now, 2):
        # Steps of a document are told of the epoch of the next step.
        last, epoch = epoch, now.state_dict()["epoch"]
        for row in range(2):
            for origin in now.locate(step, row):
                first = 900 if origin.file.endswith("a.parquet") else 0
                assert batch["input_ids"][row, origin.offset] == first + origin.row
                if epoch == last:
                    slots = now.steps_of(origin.file, origin.row)
                    assert (step, row) in {(slot.step, slot.row) for slot in slots}
        if step == 30:
            break


def test_steps_of_a_budget_of_tokens_grow(tmp_path):
    add_file(tmp_path, "b.parquet", 1)
    add_file(tmp_path, "c.parquet", 100)

    def loader() -> pf.Loader:
        return pf.Loader(
            pf.parquet(tmp_path, column="tokens"),
            sequences=pf.Documents(max_length=16),
            batch_tokens=64,
            seed=5,
            rank=0,
            world_size=1,
            drop_last=False,
            padding=0,
        )

    def documents(steps: Iterable[Any]) -> Counter[int]:
        rows = [row for batch in steps for row in batch["input_ids"]]
        return Counter(int(row[0]) for row in rows if row.any())

    begun = loader()
    head = documents(itertools.islice(begun, 3))
    state = begun.state_dict()
    add_file(tmp_path, "a.parquet", 900)
    now = loader()
    now.load_state_dict(state, grown="next-epoch")
    rest = documents(now)
    numbers = [*range(1, 61), *range(100, 160)]
    assert head + rest == Counter(numbers)
    assert now.epoch == 1
    assert documents(now) == Counter(
        [*range(1, 61), *range(100, 160), *range(900, 960)]
    )


def test_a_state_of_a_table_that_was_compacted(tmp_path):
    """It loads into its snapshot until the files are gone, and is refused by name."""
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 200)])
    loader = loader_of(pf.delta(tmp_path, column="tokens"))
    expected = batches(loader)
    loader = loader_of(pf.delta(tmp_path, column="tokens"))
    taken(loader, 2)
    state = loader.state_dict()
    table = DeltaTable(tmp_path)
    table.optimize.compact()
    now = loader_of(pf.delta(tmp_path, column="tokens"))
    with pytest.raises(StateMismatchError, match=r"then delta:1.*open that.*set_epoch"):
        now.load_state_dict(state)
    with pytest.raises(StateMismatchError, match=r"Open delta:1, .*call set_epoch"):
        now.load_state_dict(state, grown="next-epoch")
    then = loader_of(pf.delta(tmp_path, 1, column="tokens"))
    then.load_state_dict(state)
    assert batches(then) == expected[2:]
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(MissingFileError) as gone:
        loader_of(pf.delta(tmp_path, 1, column="tokens"))
    assert "the table had it at delta:1" in str(gone.value.__notes__)


def test_keys_of_rows_are_refused_by_name(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100)])
    with pytest.raises(InvalidArgumentError, match="loads into that snapshot alone"):
        pf.delta(tmp_path, column="tokens", key="id")  # type: ignore[call-arg]
