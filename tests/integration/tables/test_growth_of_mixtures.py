"""Mixtures whose datasets grew: each goes on to all of its data with its next epoch."""

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.growing import add_file, loader_of
from made.tables import catalog_in, rows_table, write_delta
from pagefeed.errors import StateMismatchError
from pagefeed.reports import Leg

NAMES = ("code", "web")
BORDER = 10_000
"""Tokens of web are below, of code above."""
ADDED = 5_000
"""Behind a border, tokens that were added begin here."""
LANES = 12
Row = tuple[int, list[int]]
"""Number of the dataset, and the tokens."""


def fill(folder: Path) -> None:
    add_file(folder / "web", "b.parquet", 1, rows=240)
    add_file(folder / "code", "b.parquet", BORDER, rows=160)


def grow(folder: Path, name: str, number: int = 0) -> None:
    first = ADDED + 1000 * number + (BORDER if name == "code" else 0)
    add_file(folder / name, f"a{number}.parquet", first, rows=120)


def mixed(folder: Path, mixture: dict[str, Any] | None = None, **options) -> pf.Loader:
    parts = {
        name: (pf.parquet(folder / name, column="tokens"), weight)
        for name, weight in (("web", 0.7), ("code", 0.3))
    }
    wanted = {"fields": ["input_ids", "dataset_ids"], "batch_size": 1, **options}
    mixture = {"unit": "sequences", "max_steps": 600, **(mixture or {})}
    return loader_of(pf.mix(parts, **mixture), **wanted)


def rows(ranks: Sequence[pf.Loader], steps: int | None = None) -> list[Row]:
    """Rows of some steps of all ranks, in the order of positions."""
    found: list[Row] = []
    iterators = [iter(loader) for loader in ranks]
    while steps is None or steps > 0:
        batches = [next(iterator, None) for iterator in iterators]
        if batches[0] is None:
            break
        given = [batch for batch in batches if batch is not None]
        for row in range(len(given[0]["input_ids"])):
            for batch in given:
                number = int(batch["dataset_ids"][row])
                found.append((number, batch["input_ids"][row].tolist()))
        steps = None if steps is None else steps - 1
    return found


def windows_of(folder: Path, name: str, file: str = "") -> list[list[int]]:
    """All sequences of a dataset, or of one file."""
    data = pf.parquet(folder / name / file, column="tokens")
    loader = loader_of(data, batch_size=1)
    return [row for batch in loader for row in batch["input_ids"].tolist()]


def texts(found: list[list[int]]) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, found))


def of(found: list[Row], name: str) -> list[list[int]]:
    return [row for number, row in found if number == NAMES.index(name)]


@pytest.mark.parametrize("shuffle", ["page", None])
@pytest.mark.parametrize("grown", [["web"], ["web", "code"]])
@pytest.mark.parametrize("taken", [1, 260])
def test_each_dataset_begins_its_next_epoch_with_all_of_its_data(
    tmp_path, grown, taken, shuffle
):
    fill(tmp_path)
    loader = mixed(tmp_path, shuffle=shuffle)
    assert loader.dataset_names == NAMES
    whole = rows([loader])
    sizes = {name: len(windows_of(tmp_path, name)) for name in NAMES}
    begun = mixed(tmp_path, shuffle=shuffle)
    assert rows([begun], taken) == whole[:taken]
    state = begun.state_dict()
    for name in grown:
        grow(tmp_path, name)
    with pytest.raises(StateMismatchError, match="load with grown="):
        mixed(tmp_path, shuffle=shuffle).load_state_dict(state)
    now = mixed(tmp_path, shuffle=shuffle)
    now.load_state_dict(state, grown="next-epoch")
    assert (now.step, now.dataset_names) == (taken, NAMES)
    rest = rows([now])
    assert len(rest) == len(whole) - taken
    # The datasets come as they would have.
    assert [number for number, _ in rest] == [number for number, _ in whole[taken:]]
    for name in NAMES:
        before, size = len(of(whole[:taken], name)), sizes[name]
        ours, theirs = of(rest, name), of(whole, name)[before:]
        if name not in grown:
            assert ours == theirs
            continue
        # Lanes go on to another epoch within some positions.
        left = -before % size if before else 0
        if shuffle and 0 < left < 16:  # Some lanes have begun the epoch after it.
            left += size
        assert ours[: max(0, left - 16)] == theirs[: max(0, left - 16)]
        all_data = texts(windows_of(tmp_path, name))
        behind = ours[left + 16 : left + len(all_data) - 16]
        assert texts(behind) <= all_data
        many = len(ours) >= left + len(all_data)
        if many:
            assert all_data <= texts(ours)
            assert any(max(row) % BORDER >= ADDED for row in behind)


def test_a_state_of_grown_data_goes_on_at_any_size(tmp_path):
    fill(tmp_path)
    begun = mixed(tmp_path)
    rows([begun], 30)
    first = begun.state_dict()
    grow(tmp_path, "web")
    now = mixed(tmp_path)
    now.load_state_dict(first, grown="next-epoch")
    expected = rows([now])
    now.load_state_dict(first, grown="next-epoch")
    head = rows([now], 50)
    assert head == expected[:50]
    state = json.loads(json.dumps(now.state_dict()))
    assert len(json.dumps(state)) < 1024
    copied = pickle.loads(pickle.dumps(now))
    assert copied.state_dict() == state
    assert rows([copied]) == expected[50:]
    for world_size in (2, 3):
        ranks = [
            mixed(tmp_path, {"max_steps": 10**6}, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for loader in ranks:
            loader.load_state_dict(state)
        found = rows(ranks, 100)
        assert found == expected[50 : 50 + len(found)][: len(found)] or (
            found[: len(expected) - 50] == expected[50:]
        )
    # A pass that begins anew is of all data.
    now.set_epoch(1)
    fresh = mixed(tmp_path)
    fresh.set_epoch(1)
    assert rows([now], 60) == rows([fresh], 60)


def test_it_grows_again_and_again(tmp_path):
    fill(tmp_path)
    begun = mixed(tmp_path, {"max_steps": 2000})
    seen = rows([begun], 30)
    state = begun.state_dict()
    for number, steps in enumerate([10, 30, 300, 20]):
        for name in NAMES:
            grow(tmp_path, name, number)
        now = mixed(tmp_path, {"max_steps": 2000})
        now.load_state_dict(state, grown="next-epoch")
        seen += rows([now], steps)
        state = now.state_dict()
    again = mixed(tmp_path, {"max_steps": 2000})
    again.load_state_dict(state)
    legs = [Leg(world_size=2, batch_size=2, steps=100), Leg(world_size=1, batch_size=3)]
    for asked in (None, legs):
        result = pf.verify(again, asked)
        assert (result.ok, result.problems) == (True, [])
    seen += rows([again])
    for name in NAMES:
        everything = texts(windows_of(tmp_path, name))
        counts = [texts(of(seen, name))[row] for row in everything]
        assert min(counts) >= 1, name
        assert max(counts) - min(counts) <= 10


def test_balanced_ranks_go_on(tmp_path):
    """From the next end of a stretch on."""
    fill(tmp_path)
    options = {"balance": pf.Balance(attention=1, stretch=8), "world_size": 2}
    mixture: dict[str, Any] = {
        "stop": "all_exhausted",
        "max_epochs": {"web": 2, "code": 2},
    }
    mixture |= {"max_steps": None}

    def ranks() -> list[pf.Loader]:
        return [mixed(tmp_path, mixture, rank=rank, **options) for rank in range(2)]

    before = ranks()
    head = rows(before, 20)
    state = before[0].state_dict()
    old = {name: texts(windows_of(tmp_path, name)) for name in NAMES}
    grow(tmp_path, "web")
    now = ranks()
    for loader in now:
        loader.load_state_dict(state, grown="next-epoch")
    found = head + rows(now)
    assert texts(of(found, "code")) <= old["code"] + old["code"]
    everything = texts(windows_of(tmp_path, "web"))
    first = old["web"]
    # Less than a step of both ranks is left out.
    assert texts(of(found, "web")) <= everything + first
    assert (everything + first - texts(of(found, "web"))).total() < 2


def test_limits_count_epochs(tmp_path):
    fill(tmp_path)
    mixture = {"max_epochs": {"web": 2, "code": 1}, "max_steps": None}
    begun = mixed(tmp_path, mixture)
    head = rows([begun], 40)
    state = begun.state_dict()
    old = {name: texts(windows_of(tmp_path, name)) for name in NAMES}
    for name in NAMES:
        grow(tmp_path, name)
    now = mixed(tmp_path, mixture)
    now.load_state_dict(state, grown="next-epoch")
    found = head + rows([now])
    web = texts(windows_of(tmp_path, "web"))
    of_web, of_code = texts(of(found, "web")), texts(of(found, "code"))
    assert of_code == old["code"]
    assert of_web == old["web"] + web


def test_where_tokens_come_from(tmp_path):
    fill(tmp_path)
    begun = mixed(tmp_path)
    rows([begun], 20)
    state = begun.state_dict()
    for name in NAMES:
        grow(tmp_path, name)
    now = mixed(tmp_path)
    now.load_state_dict(state, grown="next-epoch")
    for step, batch in enumerate(now, 20):
        if step % 23 == 0:
            for origin in now.locate(step, 0):
                path = Path(origin.file)
                first = ADDED if path.name.startswith("a") else 0
                first += BORDER if path.parent.name == "code" else first == 0
                assert origin.dataset == path.parent.name
                assert batch["input_ids"][0, origin.offset] == first + origin.row
                slots = now.steps_of(origin.file, origin.row)
                assert step in {slot.step for slot in slots}
    # Of epochs that were over when the data grew it tells as well.
    assert [Path(one.file).parent.name for one in now.locate(3, 0)] != []


def test_what_did_not_grow_is_refused(tmp_path):
    fill(tmp_path)
    begun = mixed(tmp_path)
    rows([begun], 5)
    begun.skip([9])
    state = begun.state_dict()
    same = mixed(tmp_path)
    same.load_state_dict(state, grown="next-epoch")
    assert same.state_dict() == state
    grow(tmp_path, "web")
    now = mixed(tmp_path)
    now.load_state_dict(state, grown="next-epoch")
    grown = now.state_dict()
    add_file(tmp_path / "code", "b.parquet", 500)
    changed = mixed(tmp_path)
    for one in (state, grown):
        with pytest.raises(StateMismatchError, match="with some files added"):
            changed.load_state_dict(one, grown="next-epoch")
    assert changed.step == 0
    fill(tmp_path)
    assert pf.verify(mixed(tmp_path)).ok
    parts = grown["mixture"]["datasets"]
    web = next(part for part in parts if part[0] == "web")
    mixed_in = [[*web[5][0], [["8c01", 3, 9]]]]
    for wrong in ([[0, *web[5][0][1:]]], [[1, "x", 0, 0]], [["x"]], 7, mixed_in):
        web[5] = wrong
        told = "grown='now'" if wrong is mixed_in else "mixture of a pagefeed state"
        with pytest.raises(StateMismatchError, match=told):
            mixed(tmp_path).load_state_dict(grown)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_that_grew_in_a_mixture(tmp_path, kind):
    """What remained of an epoch comes in its order, and each new row comes."""
    tables: dict[str, Any] = {}

    def append(name: str, begin: int, end: int) -> None:
        rows_added = rows_table(begin, end)
        if kind == "delta":
            write_delta(tmp_path / name, [rows_added])
            return
        if name not in tables:
            catalog, _ = catalog_in(tmp_path / name)
            schema = rows_added.schema
            tables[name] = catalog.create_table("corpus.web", schema=schema)
            catalog.close()
        tables[name].append(rows_added.cast(tables[name].schema().as_arrow()))

    def table(name: str) -> Any:
        if kind == "delta":
            return pf.delta(tmp_path / name, column="tokens")
        path = str(tables[name].metadata_location).removeprefix("file://")
        return pf.iceberg(path, column="tokens")

    def loader() -> pf.Loader:
        return loader_of(
            pf.mix({name: table(name) for name in NAMES}, max_steps=200),
            batch_size=1,
            fields=["input_ids", "dataset_ids"],
        )

    for name, begin in (("web", 0), ("code", BORDER)):
        append(name, begin, begin + 120)
    whole, begun = rows([loader()]), loader()
    rows([begun], 20)
    state = begun.state_dict()
    append("web", ADDED, ADDED + 100)
    now = loader()
    now.load_state_dict(state, grown="next-epoch")
    found = rows([now])
    assert of(found, "code") == of(whole[20:], "code")
    told = np.unique(of(found, "web")).tolist()
    assert {*range(ADDED, ADDED + 100)} <= {*told}
    again = loader()
    again.load_state_dict(json.loads(json.dumps(now.state_dict())))
    assert pf.verify(again).ok
