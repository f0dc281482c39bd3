"""Data that grew between a save and a load: what remained comes as it would have."""

import itertools
import os
import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable

import pagefeed as pf
from made.growing import add_file, folder_loader, loader_of, rows_of_all, taken
from made.shuffles import SHUFFLES
from made.tables import catalog_in, delete_from_delta, rows_table, write_delta
from pagefeed.errors import InvalidArgumentError, StateMismatchError


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


@pytest.mark.parametrize("when", ["next-epoch", "now"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_grew(tmp_path, kind, when):
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
        now.load_state_dict(state, grown=when)
        rows = rows_of_all([now])
        assert [row for row in rows if max(row) <= 200] == expected[2:]
        assert any(max(row) > 200 for row in rows) == (when == "now")
        fresh = loader()
        fresh.set_epoch(1)
        assert rows_of_all([now]) == rows_of_all([fresh])
    catalog.close()


@pytest.mark.parametrize("when", ["next-epoch", "now"])
def test_a_table_that_grew_and_lost_rows(tmp_path, when):
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
    with pytest.raises(StateMismatchError, match=r"lost rows .* delta:3.*erase\(snap"):
        now.load_state_dict(state, grown=when)
    then = pf.delta(tmp_path, 1, column="tokens").erase(snapshot=web)
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
    with pytest.raises(StateMismatchError, match=r"they were rewritten.*erase\(where"):
        rewritten.load_state_dict(state, grown=when)


@pytest.mark.parametrize("where", [None, "id >= 0"])
@pytest.mark.parametrize("when", ["next-epoch", "now"])
def test_files_with_deleted_rows_are_added(tmp_path, when, where):
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
    now.load_state_dict(state, grown=when)
    rest = batches(now)
    assert [batch for batch in rest if max(batch[0]) < 200] == expected[2:]
    assert bool(tokens_in(rest) & {200, *range(250, 300)}) == (when == "now")
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
    with pytest.raises(InvalidArgumentError, match="skipped: load with"):
        now.load_state_dict(state, grown="now")
    now.load_state_dict(state, grown="next-epoch")
    assert taken(now, 3) == [expected[1], *expected[3:5]]
    later = folder_loader(tmp_path)
    later.load_state_dict(now.state_dict(), grown="now")
    rows = [row for batch in batches(later) for row in batch]
    left = [row for row in rows if max(row) < 100]
    assert left[:3] == [row for batch in expected[5:] for row in batch][:3]


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
    with pytest.raises(InvalidArgumentError, match="grown='later'"):
        changed.load_state_dict(state, grown="later")  # type: ignore[arg-type]
    mixed = loader_of(pf.mix({"web": (pf.parquet(tmp_path, column="tokens"), 1.0)}))
    with pytest.raises(StateMismatchError, match="this loader 'mixture'"):
        mixed.load_state_dict(state, grown="next-epoch")


def test_places_where_data_were_added_rise(tmp_path):
    add_file(tmp_path, "a.parquet", 0)
    loader = folder_loader(tmp_path)
    for number, name in enumerate(["b.parquet", "c.parquet"], start=1):
        taken(loader, 1)
        state = loader.state_dict()
        add_file(tmp_path, name, 100 * number)
        loader = folder_loader(tmp_path)
        loader.load_state_dict(state, grown="now")
    state = loader.state_dict()
    (first, at), (second, later) = state["grown"]
    assert at < later
    folder_loader(tmp_path).load_state_dict(state)
    wrong = state | {"grown": [[first, later], [second, at]]}
    with pytest.raises(StateMismatchError, match=r"grown=.* must rise"):
        folder_loader(tmp_path).load_state_dict(wrong)


def all_ranks(folder: Path, world_size: int, **options) -> list[pf.Loader]:
    return [
        folder_loader(folder, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("name", ["z.parquet", "0.parquet"])
def test_new_data_are_mixed_into_what_remains(tmp_path, name, shuffle):
    for number, old in enumerate(["a.parquet", "b.parquet"]):
        add_file(tmp_path, old, 100 * number)
    options = {"shuffle": shuffle, "batch_size": 1}
    whole = [row for [row] in batches(folder_loader(tmp_path, **options))]
    begun = folder_loader(tmp_path, **options)
    assert taken(begun, 5) == [[row] for row in whole[:5]]
    state = begun.state_dict()
    add_file(tmp_path, name, 900, rows=80)
    added = pf.parquet(tmp_path / name, column="tokens")
    new = [row for [row] in batches(loader_of(added, **options))]
    found = {}
    for world_size in (1, 2, 3):
        ranks = all_ranks(tmp_path, world_size, **options)
        for loader in ranks:
            loader.load_state_dict(state, grown="now")
        assert {loader.epoch for loader in ranks} == {0}
        rows = rows_of_all(ranks)
        left = len(whole) - 5 + len(new)
        assert left - world_size < len(rows) <= left
        found[world_size] = rows
        assert ranks[0].epoch == 1
    assert found[1][: len(found[3])] == found[3]
    assert [row for row in found[1] if max(row) < 900] == whole[5:]
    assert sorted(row for row in found[1] if min(row) >= 900) == sorted(new)
    half = found[1][: len(found[1]) // 2]
    count = sum(min(row) >= 900 for row in half)
    assert abs(count - len(new) / 2) <= 50  # A group of lanes, about.


def test_a_state_of_mixed_data_goes_on_at_any_size(tmp_path):
    add_file(tmp_path, "b.parquet", 0)
    add_file(tmp_path, "c.parquet", 100)
    begun = folder_loader(tmp_path, batch_size=1)
    taken(begun, 4)
    first = begun.state_dict()
    add_file(tmp_path, "a.parquet", 900)
    one = folder_loader(tmp_path, batch_size=1)
    one.load_state_dict(first, grown="now")
    expected = rows_of_all([one])
    one = folder_loader(tmp_path, batch_size=1)
    one.load_state_dict(first, grown="now")
    assert rows_of_all([one], 6) == expected[:6]
    state = one.state_dict()
    assert len(str(state)) < 1024
    # It says itself that the data grew, and travels to other processes.
    copied = pickle.loads(pickle.dumps(one))
    assert copied.state_dict() == state
    assert rows_of_all([copied]) == expected[6:]
    for world_size in (2, 3):
        ranks = all_ranks(tmp_path, world_size, batch_size=1)
        for loader in ranks:
            loader.load_state_dict(state)
        assert rows_of_all(ranks, 2) == expected[6 : 6 + 2 * world_size]
    # It grows again, twice in an epoch.
    add_file(tmp_path, "d.parquet", 2000)
    again = folder_loader(tmp_path, batch_size=1)
    with pytest.raises(StateMismatchError, match="files then 3, now 4"):
        again.load_state_dict(state)
    again.load_state_dict(state, grown="now")
    rows = rows_of_all([again])
    assert [row for row in rows if max(row) < 2000] == expected[6:]
    assert any(min(row) >= 2000 for row in rows)
    later = folder_loader(tmp_path, batch_size=1)
    later.load_state_dict(state, grown="next-epoch")
    assert rows_of_all([later]) == expected[6:]
    fresh = folder_loader(tmp_path, batch_size=1)
    fresh.set_epoch(1)
    assert rows_of_all([later]) == rows_of_all([again]) == rows_of_all([fresh])
    with pytest.raises(StateMismatchError, match="with some files added"):
        folder_loader(tmp_path, batch_size=1).load_state_dict(
            again.state_dict() | {"grown": [["x", 3]]}
        )


@pytest.mark.parametrize("epochs", [1, 2, None])
@pytest.mark.parametrize("when", ["next-epoch", "now"])
def test_where_mixed_data_come_from(tmp_path, when, epochs):
    add_file(tmp_path, "b.parquet", 0)
    begun = folder_loader(tmp_path, batch_size=2, epochs=epochs)
    taken(begun, 2)
    add_file(tmp_path, "a.parquet", 900)
    now = folder_loader(tmp_path, batch_size=2, epochs=epochs)
    now.load_state_dict(begun.state_dict(), grown=when)
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


@pytest.mark.parametrize("balance", ["attention", pf.Balance(tokens=9, attention=1)])
def test_balanced_ranks_mix_new_data_in(tmp_path, balance):
    add_file(tmp_path, "b.parquet", 0)
    add_file(tmp_path, "c.parquet", 100)
    options = {"balance": balance, "shuffle": "row"}
    ranks = all_ranks(tmp_path, 2, **options)
    head = rows_of_all(ranks, 3)
    state = ranks[0].state_dict()
    old = [row for [row] in batches(folder_loader(tmp_path, batch_size=1))]
    add_file(tmp_path, "a.parquet", 900)
    now = all_ranks(tmp_path, 2, **options)
    for loader in now:
        loader.load_state_dict(state, grown="now")
    rest = rows_of_all(now)
    found = Counter(map(tuple, head + rest))
    assert max(found.values()) == 1
    assert any(min(row) >= 900 for row in rest)
    added = pf.parquet(tmp_path / "a.parquet", column="tokens")
    alone = [row for [row] in batches(loader_of(added, batch_size=1))]
    missing = Counter(map(tuple, old + alone)) - found
    assert missing.total() < 4  # Less than a step of both ranks.
    assert found <= Counter(map(tuple, old + alone))
    assert pf.verify(now[0]).ok


@pytest.mark.parametrize("when", ["now", "next-epoch"])
def test_steps_of_a_budget_of_tokens_grow(tmp_path, when):
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
    now.load_state_dict(state, grown=when)
    rest = documents(now)
    numbers = [*range(1, 61), *range(100, 160)]
    if when == "now":
        numbers += range(900, 960)
    assert head + rest == Counter(numbers)
    assert now.epoch == 1
    assert documents(now) == Counter(
        [*range(1, 61), *range(100, 160), *range(900, 960)]
    )


@pytest.mark.parametrize("grown", ["next-epoch", "now"])
def test_what_was_said_of_grown_data_holds_for_the_same_state(tmp_path, grown):
    add_file(tmp_path, "a.parquet", 0)
    before = folder_loader(tmp_path)
    taken(before, 3)
    state = before.state_dict()
    add_file(tmp_path, "b.parquet", 900)
    once, twice = (folder_loader(tmp_path) for _ in range(2))
    for loader in (once, twice):
        loader.load_state_dict(state, grown=grown)
    twice.load_state_dict(state)  # As a trainer does, from its checkpoint.
    assert batches(once) == batches(twice)
    with pytest.raises(StateMismatchError, match="files then 1, now 2"):
        folder_loader(tmp_path).load_state_dict(state)
