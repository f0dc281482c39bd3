"""Mixtures of few and many datasets, tiny ones and such in file order."""

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import LENGTH, first_tokens
from made.shuffles import SHUFFLES
from models.mixing import (
    APART,
    ROWS,
    feed,
    make,
    mixture,
    num_sequences,
    staged,
    take,
    write_datasets,
)
from pagefeed.mixture import LEAST_LANES, MixtureCursor
from pagefeed.reports.verification import Leg, verify
from pagefeed.run import Slot

TINY = {"code": 1, "math": 3, "web": 7}
"""Sequences of tiny datasets."""


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> dict[str, pf.dataset.ParquetDataset]:
    """Three datasets that tokens tell apart."""
    return write_datasets(tmp_path_factory.mktemp("mixture"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> dict[str, pf.dataset.ParquetDataset]:
    """Datasets of one page each, with fewer sequences than there are lanes."""
    folder = tmp_path_factory.mktemp("tiny")
    found = {}
    for number, (name, count) in enumerate(TINY.items()):
        first = number * APART
        rows = [list(range(first, first + count * LENGTH))]
        tokens = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
        pq.write_table(tokens, folder / f"{name}.parquet")
        found[name] = pf.parquet(folder / f"{name}.parquet", column="input_ids")
    return found


@pytest.mark.parametrize(
    ("shuffle", "world_size"),
    [*zip(SHUFFLES, itertools.cycle([1, 3, 8]), strict=False)],
)
def test_tiny_datasets_have_enough_lanes(tiny, world_size, shuffle):
    caps = {"code": 5, "math": 2, "web": 1}
    mixed = mixture(tiny, max_epochs=caps)
    loaders = [
        make(mixed, rank=rank, world_size=world_size, batch_size=1, shuffle=shuffle)
        for rank in range(world_size)
    ]
    assert loaders[0].state_dict()["num_lanes"] == LEAST_LANES
    assert len(tiny["web"].index) == 1
    tokens = take(loaders)
    assert len(tokens) == 18 // world_size * world_size
    alone = make(mixed, batch_size=1, shuffle=shuffle)
    assert tokens == take([alone])[: len(tokens)]
    seen = Counter(tokens)
    if world_size == 1:
        assert sorted(seen.values()) == [1] * 7 + [2] * 3 + [5]
    for token, count in seen.items():
        assert count <= list(caps.values())[token // APART]


def located(loaders: list[pf.Loader], steps: range) -> dict[str, list[Slot]]:
    """Where the only document of each file is, by what ``locate`` says of every row."""
    found: dict[str, set[Slot]] = defaultdict(set)
    for rank, loader in enumerate(loaders):
        for step in steps:
            for row in range(loader.batch_size):
                for source in loader.locate(step, row):
                    found[source.file].add(Slot(step, rank, row))
    return {file: sorted(slots) for file, slots in found.items()}


@pytest.mark.parametrize(
    ("shuffle", "sizes", "stop"),
    [("page", (1, 1), 41), ("row", (3, 2), 17), (None, (8, 1), 16)],
)
def test_documents_of_tiny_datasets_are_found(tiny, shuffle, sizes, stop):
    world_size, batch_size = sizes
    stages = [pf.Stage(start_step=9, weights={"code": 1, "math": 1}, anneal=4)]
    every: list[dict[str, Any]] = [
        {"max_steps": stop, "stages": stages},
        {"max_epochs": {"code": 5, "math": 2, "web": 1}},
    ]
    for ends in every:
        mixed = mixture(tiny, **ends)
        loaders = [
            make(
                mixed,
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                shuffle=shuffle,
            )
            for rank in range(world_size)
        ]
        slots = located(loaders, range(len(loaders[0])))
        assert len(slots) == len(tiny)
        for file in slots:
            assert loaders[0].steps_of(file, 0) == slots[file]


@pytest.mark.parametrize("shuffle", ["page", None])
def test_documents_of_an_endless_mixture_are_found_an_epoch_ahead(tiny, shuffle):
    loader = make(mixture(tiny), batch_size=1, shuffle=shuffle)
    slots = located([loader], range(900))
    for now in (0, 1, 30, 77):
        loader.seek(now)
        track = loader.view().run.at(loader.view().position.now)
        assert isinstance(track, MixtureCursor)
        for number, (name, dataset) in enumerate(tiny.items()):
            size = TINY[name]
            following = track.course.following(now)[number]
            found = loader.steps_of(dataset.files[0], 0)
            assert len(found) == size * (1 + -(-int(following.max()) // size))
            assert set(found) <= set(slots[dataset.files[0]])
            before = [slot for slot in slots[dataset.files[0]] if slot.step < now]
            assert [slot for slot in found if slot.step < now] == before


def test_files_stay_in_order_without_a_shuffle(datasets):
    mixed = staged(datasets, max_tokens=20_000)
    loader = make(mixed, shuffle=None)
    # As many lanes as any mixture, at any world size: they hold the proportions.
    assert loader.state_dict()["num_lanes"] == LEAST_LANES
    whole = take([loader])
    taken, state = [], make(mixed, shuffle=None).state_dict()
    for world_size, batch_size, steps in [(3, 2, 31), (8, 1, 17), (2, 4, None)]:
        loaders = [
            make(
                mixed,
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                shuffle=None,
            )
            for rank in range(world_size)
        ]
        for loader in loaders:
            loader.load_state_dict(state)
        taken += take(loaders, steps)
        state = loaders[0].state_dict()
    # A last, incomplete step is dropped.
    assert len(whole) - 8 < len(taken) <= len(whole)
    assert taken == whole[: len(taken)]
    for number, name in enumerate(ROWS):
        alone = take([make(datasets[name], batch_size=1, shuffle=None)])
        mine = [token for token in whole if token // APART == number]
        epochs = len(mine) // len(alone) + 1
        assert mine == (alone * epochs)[: len(mine)]
        assert len(mine) > 10


def test_in_file_order_weights_change_and_rows_are_found(datasets):
    mixed = mixture(datasets, max_steps=60)
    loader = make(mixed, shuffle=None)
    tokens = []
    for step, batch in enumerate(loader):
        tokens += first_tokens(batch)
        if step == 19:
            loader.set_weights({"web": 1})
    web = [token for token in tokens if token // APART == 2]
    alone = take([make(datasets["web"], batch_size=1, shuffle=None)])
    assert web == alone[: len(web)]
    assert {token // APART for token in tokens[80:]} == {2}
    loader = make(mixed, shuffle=None)
    batches = [first_tokens(batch) for batch in loader]
    loader.set_epoch(0)
    for step in (0, 31, 59):
        for row, token in enumerate(batches[step]):
            source = loader.locate(step, row)[0]
            assert source.dataset == list(ROWS)[token // APART]
            assert (step, 0, row) in loader.steps_of(source.file, source.row)


def test_in_file_order_every_sequence_is_delivered_so_often(datasets):
    caps = {"code": 2, "math": 3, "web": 1}
    mixed = mixture(datasets, max_epochs=caps)
    legs = [
        Leg(world_size=4, batch_size=2, steps=9),
        Leg(world_size=3, batch_size=1, steps=20),
        Leg(world_size=1, batch_size=1),
    ]
    assert verify(make(mixed, shuffle=None), legs).ok
    seen = Counter(take([make(mixed, batch_size=1, shuffle=None)]))
    for number, (name, cap) in enumerate(caps.items()):
        counts = [seen[token] for token in seen if token // APART == number]
        assert counts == [cap] * num_sequences(datasets)[name]


def test_hundreds_of_datasets_are_mixed_and_resumed(tmp_path):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 300)
    parts = {}
    for number, size in enumerate(sizes.tolist()):
        first = number * APART // 100
        rows = [list(range(first, first + LENGTH * size))]
        tokens = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
        pq.write_table(tokens, tmp_path / f"{number:03}.parquet")
        data = pf.parquet(tmp_path / f"{number:03}.parquet", column="input_ids")
        parts[f"lang{number:03}"] = data
    mixed = pf.mix(parts, temperature=2, max_tokens=LENGTH * 8_000)
    loader = make(mixed, batch_size=50, memory="256MiB")
    tokens = take([loader], 80)
    state = json.loads(json.dumps(loader.state_dict()))
    loader.load_state_dict(state)
    tokens += take([loader])
    counts = np.bincount(np.array(tokens) // (APART // 100), minlength=300)
    ideal = 8_000 * np.sqrt(sizes) / np.sqrt(sizes).sum()
    assert np.abs(counts - ideal).max() <= loader.state_dict()["num_lanes"]
    loaders = feed(mixed, 2, 40)
    for each in loaders:
        each.load_state_dict(state)
    assert take(loaders) == tokens[4000:]


@pytest.mark.parametrize("sequences", [pf.Windows(64), pf.Packed(64)])
def test_shares_of_tokens_hold_where_documents_differ_by_a_hundred(tmp_path, sequences):
    rng = np.random.default_rng(0)
    parts = {}
    for number, (name, mean) in enumerate({"long": 2000, "short": 20}.items(), 1):
        lengths = np.maximum(1, rng.lognormal(-0.5, 1, 4_000_000 // mean) * mean)
        ends = np.concatenate([[0], lengths.astype(np.int64).cumsum()])
        tokens = pa.array(np.full(ends[-1], number, dtype=np.int32))
        rows = pa.ListArray.from_arrays(ends.astype(np.int32), tokens)
        pq.write_table(pa.table({"input_ids": rows}), tmp_path / f"{name}.parquet")
        parts[name] = pf.parquet(tmp_path / f"{name}.parquet", column="input_ids"), 0.5
    mixed = pf.mix(parts, max_steps=1000)
    options = {"batch_size": 100, "padding": 0, "memory": "1GiB"}
    loader = make(mixed, sequences=sequences, **options)
    counts = np.zeros(3)
    for batch in loader:
        counts += np.bincount(batch["input_ids"].ravel(), minlength=3)
    assert counts.sum() == 100_000 * 64
    assert abs(counts[1] / (counts[1] + counts[2]) - 0.5) < 0.001
    tokens_of = [loader.stats()[f"{name}/tokens"] for name in parts]
    assert np.allclose(tokens_of, counts[1:], rtol=1e-3)


def test_one_dataset_in_a_mixture_is_planned_as_far_ahead_as_alone(datasets):
    tracks = []
    for data in (datasets["web"], mixture(datasets, {"web": 1}, max_steps=9)):
        loader = make(data)
        session = loader.view()
        state = replace(session.position.now, num_lanes=LEAST_LANES)
        tracks.append(session.run.at(state))
    alone, mixed = (track.horizon(1 << 23) for track in tracks)
    assert alone == mixed > 2 * LEAST_LANES
