"""Loaders of mixtures, over real files."""

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import pagefeed as pf
import pagefeed.mixture.state_part
from made.numbered import LENGTH, first_tokens
from models.mixing import (
    APART,
    ROWS,
    WEIGHTS,
    feed,
    make,
    mixture,
    num_sequences,
    shares,
    staged,
    take,
    write_datasets,
)
from pagefeed.errors import InvalidArgumentError, StateMismatchError


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> dict[str, pf.dataset.ParquetDataset]:
    """Three datasets that tokens tell apart."""
    return write_datasets(tmp_path_factory.mktemp("mixture"))


def test_proportions_follow_the_weights(datasets):
    tokens = take([make(staged(datasets, max_tokens=20_000))])
    before = shares(tokens[: 6000 // LENGTH])
    after = shares(tokens[9000 // LENGTH :])
    for name, weight in WEIGHTS.items():
        assert abs(before[name] - weight) < 0.07
    assert after["math"] < 0.01
    assert abs(after["code"] - 0.5) < 0.07


@pytest.mark.parametrize(("world_size", "batch_size"), [(2, 2), (3, 4), (5, 1)])
def test_the_order_is_the_same_at_any_size(datasets, world_size, batch_size):
    mixed = staged(datasets, max_tokens=20_000)
    alone = make(mixed)
    loaders = feed(mixed, world_size, batch_size)
    # Lanes are chosen by world size; a state carries them to any other.
    for loader in loaders:
        loader.load_state_dict(alone.state_dict())
    whole, parts = take([alone]), take(loaders)
    assert len(parts) > len(whole) - world_size * batch_size
    assert parts[: len(whole)] == whole[: len(parts)]


def test_a_resume_with_other_sizes_goes_on_exactly(datasets):
    mixed = staged(datasets, max_tokens=20_000)
    whole = take([make(mixed)])
    parts, state = [], make(mixed).state_dict()
    for world_size, batch_size, steps in [(2, 4, 11), (3, 1, 40), (1, 8, None)]:
        loaders = feed(mixed, world_size, batch_size)
        for loader in loaders:
            loader.load_state_dict(json.loads(json.dumps(state)))
        parts += take(loaders, steps)
        state = loaders[0].state_dict()
    assert len(parts) > len(whole) - 8
    assert parts == whole[: len(parts)]


def state_size(datasets, num_changes):
    """Characters of the state of a mixture after some changes of weights."""
    rng, names = np.random.default_rng(0), [*datasets]
    loader = make(mixture(datasets, max_steps=10**6))
    for step in range(num_changes):
        loader.seek(10**4 * (step + 1))
        weights = rng.dirichlet(np.ones(len(names))).tolist()
        loader.set_weights(dict(zip(names, weights, strict=True)))
    return len(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("num_changes", [0, 1, 6, 11, 16])
def test_a_state_is_as_small_as_is_promised(datasets, num_changes):
    num_datasets, size = len(datasets), state_size(datasets, num_changes)
    named = sum(map(len, datasets))
    listed = (num_changes + 1) * (12 + 14 * num_datasets)
    assert size <= 300 + 110 * num_datasets + named + listed
    if num_datasets * num_changes <= 22:
        assert size < 1024


def test_weights_set_while_running_are_in_the_state(datasets):
    mixed = mixture(datasets, max_steps=100)
    untouched = take([make(mixed)])
    loader = make(mixed)
    tokens: list[int] = []
    states = {}
    for step, batch in enumerate(loader):
        tokens += first_tokens(batch)
        if step == 29:
            loader.set_weights({"code": 0.1, "web": 0.9})
        states[step] = loader.state_dict()
    assert len(tokens) == 400
    assert tokens[:120] == untouched[:120]
    assert abs(shares(tokens[120:])["code"] - 0.1) < 0.05
    assert len(json.dumps(states[50])) < 1024
    for step in (29, 50):
        resumed = make(mixed, batch_size=2)
        resumed.load_state_dict(states[step])
        rest = take([resumed])
        assert len(rest) == 2 * (100 - step - 1)
        assert rest == tokens[4 * (step + 1) :][: len(rest)]


def test_weights_set_on_all_ranks_hold_on_all(datasets):
    mixed = mixture(datasets, max_steps=60)
    loaders = feed(mixed, 3, 2)
    tokens = take(loaders, 10)
    for loader in loaders:
        loader.set_weights({"math": 1}, anneal=2)
    iterators = [iter(loader) for loader in loaders]
    del iterators  # A new iteration begins again, with the same changes.
    again = take(loaders)
    assert again[: len(tokens)] == tokens
    assert shares(again[12 * 6 :]) == {"code": 0.0, "math": 1.0, "web": 0.0}


def test_a_dataset_joins_and_another_leaves_at_a_resume(datasets):
    first = mixture(datasets, {"code": 0.5, "web": 0.5}, max_steps=80)
    loader = make(first)
    tokens = take([loader], 20)
    state = loader.state_dict()
    later = mixture(datasets, {"web": 0.5, "math": 0.5}, max_steps=80)
    resumed = make(later)
    resumed.load_state_dict(state)
    rest = take([resumed], 40)
    assert abs(shares(rest)["math"] - 0.5) < 0.05
    assert shares(rest)["code"] == 0
    # Of web, what follows is what would have followed.
    web = [t for t in tokens + rest if t // APART == 2]
    assert len(set(web)) == len(web)
    again = make(later)
    again.load_state_dict(resumed.state_dict())
    assert len(take([again])) == 4 * 20
    row = [token // APART for token in tokens[:4]].index(0)
    with pytest.raises(InvalidArgumentError, match="'code' was delivered before"):
        resumed.locate(0, row)


def test_other_stages_hold_from_the_resume_on(datasets):
    loader = make(mixture(datasets, max_steps=100))
    tokens = take([loader], 25)
    stages = [pf.Stage(start_step=40, weights={"code": 1})]
    resumed = make(
        mixture(datasets, {"web": 1, "code": 0}, stages=stages, max_steps=60)
    )
    resumed.load_state_dict(loader.state_dict())
    rest = take([resumed])
    assert len(rest) == 4 * 35
    assert set(shares(rest[:60]).values()) == {0.0, 1.0}
    assert shares(rest[60:])["code"] == 1
    assert not set(tokens) & {t for t in rest if t // APART == 2}
    state = resumed.state_dict()
    assert state["step"] == 0  # It is through: the next epoch begins.


def test_an_anneal_goes_on_over_a_resume(datasets):
    stages = [pf.Stage(start_step=10, weights={"code": 1}, anneal=40)]
    mixed = mixture(datasets, stages=stages, max_steps=80)
    whole = take([make(mixed)])
    loader = make(mixed)
    tokens = take([loader], 33)
    resumed = make(mixed)
    resumed.load_state_dict(loader.state_dict())
    assert tokens + take([resumed]) == whole


@pytest.mark.parametrize("how", ["start_step", "start_tokens", "set_weights"])
def test_an_anneal_from_the_first_step_is_saved_and_resumed(datasets, how):
    wanted = {"code": 1, "web": 1}
    stages = {
        "start_step": [pf.Stage(start_step=0, weights=wanted, anneal=20)],
        "start_tokens": [pf.Stage(start_tokens=0, weights=wanted, anneal=80 * LENGTH)],
    }.get(how, [])
    mixed = mixture(datasets, stages=stages, max_steps=40)

    def begun() -> pf.Loader:
        loader = make(mixed)
        if how == "set_weights":
            loader.set_weights(wanted, anneal=20)
        return loader

    whole = take([begun()])
    for steps in (0, 1, 13):
        loader = begun()
        take([loader], steps)
        state = json.loads(json.dumps(loader.state_dict()))
        assert [stage[:2] for stage in state["mixture"]["stages"]] == [[0, 0], [0, 80]]
        resumed = make(mixed)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert take([resumed]) == whole[4 * steps :]


def test_capped_datasets_are_delivered_exactly_so_often(datasets):
    caps = {"code": 1, "math": 3, "web": 2}
    loader = make(mixture(datasets, max_epochs=caps), batch_size=1)
    tokens = take([loader])
    sizes = num_sequences(datasets)
    assert len(loader) == len(tokens) == sum(caps[name] * sizes[name] for name in caps)
    seen = Counter(tokens)
    for number, name in enumerate(ROWS):
        counts = [seen[token] for token in seen if token // APART == number]
        assert counts == [caps[name]] * sizes[name]


def test_the_first_dataset_to_run_out_ends_it(datasets):
    loader = make(mixture(datasets, stop="first_exhausted"), batch_size=1)
    tokens = take([loader])
    sizes = num_sequences(datasets)
    counts = Counter(token // APART for token in tokens)
    assert len(loader) == len(tokens)
    assert counts[1] == sizes["math"]
    assert tokens[-1] // APART == 1
    assert set(Counter(tokens).values()) == {1}


def test_all_datasets_run_out_in_turn(datasets):
    loader = make(mixture(datasets, stop="all_exhausted"), batch_size=1)
    tokens = take([loader])
    sizes = num_sequences(datasets)
    seen = Counter(tokens)
    assert len(loader) == len(tokens)
    assert len(seen) == sum(sizes.values())
    assert shares(tokens)["web"] == pytest.approx(0.6, abs=0.01)


def test_a_length_is_the_number_of_steps(datasets):
    assert len(make(mixture(datasets, max_steps=17))) == 17
    assert len(make(mixture(datasets, max_tokens=LENGTH * 40 + 1))) == 10
    assert len(make(mixture(datasets, max_tokens=LENGTH * 41), drop_last=False)) == 11
    with pytest.raises(TypeError, match="never ends"):
        len(make(mixture(datasets)))


def test_seek_and_skip(datasets):
    mixed = staged(datasets, max_steps=80)
    whole = take([make(mixed)])
    loader = make(mixed)
    loader.seek(50)
    assert take([loader]) == whole[200:]
    loader = make(mixed)
    loader.skip(range(10, 13))
    left = take([loader])
    assert left == whole[:40] + whole[52:]


def test_rows_are_located_and_documents_found(datasets):
    loader = make(staged(datasets, max_steps=90), rank=1, world_size=3)
    batches = [first_tokens(batch) for batch in loader]
    loader.set_epoch(0)
    for step in (0, 7, 60, 89):
        for row, token in enumerate(batches[step]):
            source = loader.locate(step, row)[0]
            assert source.dataset == list(ROWS)[token // APART]
            assert Path(source.file).parent.name == source.dataset
            slots = loader.steps_of(source.file, source.row)
            assert (step, 1, row) in slots
    alone = make(pf.mix({"web": datasets["web"]}))
    for loader_of_some in (loader, alone):
        with pytest.raises(InvalidArgumentError, match="not a file"):
            loader_of_some.steps_of("nowhere.parquet", 0)


def test_a_resume_behind_a_lowered_end_is_refused_by_numbers(datasets):
    loader = make(staged(datasets, max_steps=80))
    loader.seek(50)
    shorter = make(staged(datasets, max_steps=20))
    expected = "after 200 sequences .*ends after 80: "
    with pytest.raises(StateMismatchError, match=expected):
        shorter.load_state_dict(loader.state_dict())


def test_stats_count_what_was_delivered(datasets):
    loader = make(mixture(datasets, max_steps=50))
    tokens = take([loader])
    stats = loader.stats()
    for number, name in enumerate(ROWS):
        sequences = sum(token // APART == number for token in tokens)
        assert stats[f"{name}/sequences"] == sequences
        assert stats[f"{name}/tokens"] == sequences * LENGTH


def test_every_epoch_has_an_order_of_its_own(datasets):
    caps = dict.fromkeys(ROWS, 1)
    loader = make(mixture(datasets, max_epochs=caps), batch_size=1)
    first, second = take([loader]), take([loader])
    assert sorted(first) == sorted(second)
    assert first != second
    loader.set_epoch(0)
    assert take([loader]) == first


def test_the_order_of_a_dataset_hangs_on_its_name_alone(datasets):
    def web(mixed: pf.Mixture) -> list[int]:
        tokens = take([make(mixed, batch_size=1)])
        return [token for token in tokens if token // APART == 2]

    caps = {"web": 1}
    once = web(mixture(datasets, max_epochs=caps, max_steps=1000))
    other = {"web": 0.3, "math": 0.7}
    again = web(mixture(datasets, other, max_epochs=caps, max_steps=3000))
    assert sorted(once) == sorted(again)
    # Lanes are read at slightly different paces, so near places may change.
    place = {token: number for number, token in enumerate(again)}
    moved = np.abs(np.diff([place[token] for token in once]) - 1)
    assert np.median(moved) <= 48


def test_a_loader_is_pickled_with_its_changes(datasets):
    mixed = mixture(datasets, max_steps=40)
    loader = make(mixed)
    take([loader], 10)
    loader.set_weights({"web": 1})
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()
    assert shares(take([copy]))["web"] == 1


def test_workers_share_the_steps_of_a_mixture(datasets):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from pagefeed.torch import as_dataset

    mixed = staged(datasets, max_steps=30)
    whole = take([make(mixed)])
    wrapped = as_dataset(make(mixed, format="torch"))
    batches = torch.utils.data.DataLoader(
        wrapped, batch_size=None, num_workers=2, multiprocessing_context="forkserver"
    )
    assert [token for batch in batches for token in first_tokens(batch)] == whole


def test_temperature_goes_from_proportional_to_uniform(datasets):
    def parts(temperature: float | None) -> np.ndarray:
        mixed = pf.mix(datasets, temperature=temperature, unit="sequences")
        plan = make(mixed).view().run.initial.parts["mixture"]
        assert plan is not None
        return np.array(plan.changes[0].weights)

    sizes = np.array(list(num_sequences(datasets).values()))
    assert np.allclose(parts(None), sizes / sizes.sum())
    assert np.allclose(parts(2), np.sqrt(sizes) / np.sqrt(sizes).sum())
    assert np.allclose(parts(1e9), 1 / 3)
