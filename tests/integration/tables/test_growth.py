"""Data that grew between a save and a load: what remained comes as it would have."""

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.tables import rows_table, write_delta
from pagefeed.errors import InvalidArgumentError, StateMismatchError

SEQUENCES = pf.Windows(16, tail="drop")


def add_file(folder: Path, name: str, first: int, rows: int = 60) -> None:
    """A file that is the newest of all, whatever its name."""
    folder.mkdir(exist_ok=True)
    tokens = [[n] * (1 + n % 7) for n in range(first, first + rows)]
    column = pa.array(tokens, pa.list_(pa.int32()))
    pq.write_table(pa.table({"tokens": column}), folder / name, row_group_size=20)
    newest = max(path.stat().st_mtime_ns for path in folder.glob("*.parquet"))
    os.utime(folder / name, ns=(newest + 1000, newest + 1000))


def loader_of(dataset, **options) -> pf.Loader:
    wanted = {"batch_size": 2, "seed": 5, "rank": 0, "world_size": 1, **options}
    return pf.Loader(dataset, sequences=SEQUENCES, **wanted)


def folder_loader(folder: Path, **options) -> pf.Loader:
    return loader_of(pf.parquet(folder, column="tokens"), **options)


def batches(loader: pf.Loader) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in loader]


def taken(loader: pf.Loader, steps: int) -> list[list[list[int]]]:
    steps_of = iter(loader)
    return [next(steps_of)["input_ids"].tolist() for _ in range(steps)]


@pytest.mark.parametrize("name", ["z.parquet", "0.parquet", "b0.parquet"])
def test_what_remained_comes_first(tmp_path, name):
    for number, old in enumerate(["a.parquet", "b.parquet", "c.parquet"]):
        add_file(tmp_path, old, 100 * number)
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


def test_a_table_that_grew(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 200)])

    def loader():
        return loader_of(pf.delta(tmp_path, column="tokens"))

    before = loader()
    expected = batches(before)
    before = loader()
    taken(before, 2)
    write_delta(tmp_path, [rows_table(200, 300)])
    now = loader()
    now.load_state_dict(before.state_dict(), grown="next-epoch")
    assert batches(now) == expected[2:]
    assert max(max(row) for batch in batches(now) for row in batch) >= 200


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
    with pytest.raises(InvalidArgumentError, match="epochs=1"):
        folder_loader(tmp_path, epochs=2).load_state_dict(state, grown="next-epoch")


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_growth_and_resumes(tmp_path, seed):
    """Against a plain model: an epoch delivers the files there were at its begin."""
    rng = random.Random(seed)
    names = [f"{letter}.parquet" for letter in "mcxaqz"]
    add_file(tmp_path, names[0], 0)
    held, first = frozenset([0]), 100

    def sequences_of(numbers: frozenset[int]) -> list[list[int]]:
        files = sorted(numbers, key=lambda number: names[number])
        paths = [str(tmp_path / names[number]) for number in files]
        loader = loader_of(
            pf.parquet(paths, column="tokens"), batch_size=1, drop_last=False
        )
        return sorted(row for batch in batches(loader) for row in batch)

    state: dict[str, object] = {}
    delivered: list[list[int]] = []
    epoch, of_epoch, num_epochs = 0, held, 0
    for _ in range(16):
        if len(held) < len(names) and rng.random() < 0.4:
            add_file(tmp_path, names[len(held)], first, rows=rng.randrange(20, 70))
            held, first = held | {len(held)}, first + 100
        world_size = rng.choice([1, 2])
        ranks = [
            folder_loader(tmp_path, batch_size=1, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for loader in ranks:
            loader.load_state_dict(state, grown="next-epoch")
        if ranks[0].epoch != epoch:
            whole = sequences_of(of_epoch)
            for row in delivered:
                whole.remove(row)
            assert len(whole) < 2  # On two ranks one may be left.
            epoch, delivered, num_epochs = ranks[0].epoch, [], num_epochs + 1
        if not delivered:
            of_epoch = held
        left = ranks[0].num_steps_left
        assert left
        steps = min(left, rng.randrange(1, 20))
        for loader in ranks:
            delivered += [row for batch in taken(loader, steps) for row in batch]
        state = ranks[0].state_dict()
        assert all(loader.state_dict() == state for loader in ranks)
    assert num_epochs > 1
