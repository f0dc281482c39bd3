"""Balanced mixtures: each dataset is delivered as without balance, in another order."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.core._base import finished
from pagefeed.core.run import gathered
from pagefeed.mixture import MixtureCursor
from scaled import scaled

SIZES = {"small": 1000, "large": 6000, "tiny": 20}
BALANCES = {
    "attention": "attention",
    "tokens": "tokens",
    "short": pf.Balance(attention=1, stretch=8),
    "exact": pf.Balance(tokens=1, stretch=16, bucket=4, exact=True),
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("mixed"), np.random.default_rng(3)
    made = {}
    for name, size in SIZES.items():
        mean = 4 if name == "small" else 5
        lengths = rng.lognormal(mean, 0.8, size).astype(int).clip(1, 900)
        rows = [np.full(length, 7, np.uint16) for length in lengths]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"input_ids": rows}), path, row_group_size=100)
        made[name] = pf.parquet(path, column="input_ids")
    return made


def loader(parts, weights, balance, **options):
    given: dict[str, Any] = {"batch_size": 4, "world_size": 8, "seed": 1} | options
    mixing = {
        name: given.pop(name)
        for name in ("max_steps", "stop", "stages")
        if name in given
    }
    data = {name: (parts[name], weight) for name, weight in weights.items()}
    return pf.Loader(
        pf.mix(data, unit="sequences", **mixing),
        sequences=pf.Documents([], max_length=1024),
        balance=balance,
        epochs=1 if mixing else None,
        rank=0,
        fields=("labels",),
        num_threads=1,
        **given,
    )


def delivered(made, begin=None, count=None, *, balanced=True):
    """Sequences from a state on, to the end or so many, before ranks are balanced."""
    return found_in(made, begin, count, balanced=balanced).numbers


def found_in(made: Any, begin=None, count=None, *, balanced: bool) -> Any:
    """The same, with the epochs for which they are read."""
    run = made.view().run
    cursor = run.at(run.beginning(0) if begin is None else begin)
    assert isinstance(cursor, MixtureCursor)
    end = cursor.end if count is None else cursor.start + count
    positions = range(cursor.start, end or 0)
    found = cursor.at(positions) if balanced else cursor.unbalanced(positions)
    return finished(gathered(found))


@pytest.mark.parametrize("name", BALANCES)
@pytest.mark.parametrize("max_steps", [None, 100])
def test_a_row_comes_once_an_epoch_and_shares_are_the_weights(parts, name, max_steps):
    options = {} if max_steps is None else {"max_steps": max_steps}
    weights = {"small": 0.3, "large": 0.7}
    for seed in range(3):
        made = loader(parts, weights, BALANCES[name], seed=seed, **options)
        found = delivered(made, count=3200)
        before = delivered(made, count=3200, balanced=False)
        number = made.view().run.names.index("small")
        of = made.view().run.index.dataset_of
        small = found[of(found) == number]
        assert len(np.unique(small)) == len(small) > 900
        if max_steps is not None:
            assert sorted(found) == sorted(before)
            assert abs(len(small) / len(found) - 0.3) <= 0.003
        one, other = (np.cumsum(of(each) == number) for each in (found, before))
        # A bucket of like lengths is mostly of one dataset.
        assert abs(one - other).max() < (8 * 64 if name == "tokens" else 60)


@pytest.mark.parametrize("name", BALANCES)
def test_epochs_of_datasets_are_delivered_as_without_balance(parts, name):
    weights = {"small": 0.5, "large": 0.45, "tiny": 0.05}
    made = loader(parts, weights, BALANCES[name])
    found, before = (
        delivered(made, count=20_000, balanced=balanced) for balanced in (True, False)
    )
    run = made.view().run
    for number, part in enumerate(run.names):
        of_part = run.index.dataset_of(found) == number
        drawn, expected = found[of_part], before[run.index.dataset_of(before) == number]
        if part == "tiny":  # Too short to be balanced: nothing is moved.
            assert (found[run.index.dataset_of(before) == number] == expected).all()
        for rows in (drawn, expected):  # A lane may be ahead by one.
            epochs = len(rows) // SIZES[part or ""]
            for epoch in range(epochs):
                rest = rows[epoch * SIZES[part or ""] :][: SIZES[part or ""]]
                assert len(np.unique(rest)) > 0.9 * len(rest) or part == "tiny"
        assert len(drawn) == pytest.approx(len(expected), abs=600)


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted"])
@pytest.mark.parametrize("name", ["attention", "tokens"])
def test_a_run_ends_with_the_sequences_it_would_have(parts, name, stop):
    weights = {"small": 0.5, "large": 0.5}
    made = loader(parts, weights, BALANCES[name], stop=stop)
    found, before = delivered(made), delivered(made, balanced=False)
    assert sorted(found) == sorted(before)
    assert (found != before).mean() > 0.9


@pytest.mark.parametrize("name", ["attention", "exact"])
@pytest.mark.parametrize("given", [range(200, 3000, 8), range(900, 950)])
def test_epochs_of_infilled_documents_move_with_their_sequences(parts, name, given):
    infill = pf.Infill(rate=0.5, prefix=1, middle=2, suffix=3)
    both = parts | {"small": parts["small"].infill(infill)}
    made = loader(both, {"small": 0.9, "large": 0.1}, BALANCES[name], max_steps=100)
    found, before = (found_in(made, balanced=each) for each in (True, False))
    assert (found.numbers != before.numbers).mean() > 0.9
    epochs = [
        sorted(zip(each.numbers.tolist(), each.epochs.tolist(), strict=True))
        for each in (found, before)
    ]
    assert epochs[0] == epochs[1]
    assert set(found.epochs.tolist()) == {0, 1, 2}
    cursor = made.view().run.at(made.view().run.beginning(0))
    some = finished(gathered(cursor.at(given)))
    assert some.numbers.tolist() == found.numbers[given].tolist()
    assert some.epochs is not None
    assert some.epochs.tolist() == found.epochs[given].tolist()


def test_nothing_moves_over_a_stage(parts):
    stages = [
        pf.Stage(start_step=start, weights={"small": small, "large": 1 - small})
        for start, small in ((50, 0.9), (120, 0.1))
    ]
    weights = {"small": 0.5, "large": 0.5}
    made = loader(parts, weights, "attention", stages=stages, max_steps=150)
    both = [delivered(made, balanced=balanced) for balanced in (True, False)]
    for first, last in pairwise([0, 50, 120, 150]):
        one, other = (sorted(each[first * 32 : last * 32]) for each in both)
        assert one == other


sizes = st.tuples(st.integers(1, 4), st.integers(1, 9))


@settings(deadline=None, max_examples=scaled(25))
@given(
    st.sampled_from(sorted(BALANCES)),
    st.lists(
        st.tuples(sizes, st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=3
    ),
    st.integers(1, 60),
)
def test_runs_that_go_on_in_other_sizes_lose_and_repeat_nothing(
    parts, name, resumed, max_steps
):
    weights = {"small": 0.3, "large": 0.7}
    made = loader(parts, weights, BALANCES[name], max_steps=max_steps)
    run = made.view().run
    state, seen = run.beginning(0), list[int]()
    for (batch_size, world_size), num_steps, further in resumed:
        cursor = run.at(state)
        steps = cursor.route.num_steps or 0
        taken = min(num_steps, steps)
        count = taken * run.step_sequences
        seen += delivered(made, state, count).tolist()
        max_steps = max(max_steps, state.step + taken) + further
        saved = cursor.state_after(taken).to_dict()
        made = loader(
            parts,
            weights,
            BALANCES[name],
            max_steps=max_steps,
            batch_size=batch_size,
            world_size=world_size,
        )
        run = made.view().run
        state = run.accept(type(state).from_dict(saved))
    # To the next place over which nothing is moved.
    cursor = run.at(state)
    assert isinstance(cursor, MixtureCursor)
    assert cursor.balanced is not None
    border = cursor.balanced.next_border(cursor.start)
    seen += delivered(made, state, border - cursor.start).tolist()
    begin = run.beginning(0)
    assert sorted(seen) == sorted(delivered(made, begin, border, balanced=False))
    assert len(str(cursor.begin.to_dict())) < 1500


@pytest.mark.parametrize("name", BALANCES)
def test_counters_tell_what_was_delivered(parts, name):
    made = loader(parts, {"small": 0.3, "large": 0.7}, BALANCES[name], max_steps=60)
    run = made.view().run
    dataset, names = run.index.dataset_of(delivered(made)), list(run.names)
    begin, size = run.beginning(0), run.step_sequences
    skipping = begin.skipping(run.at(begin).route, [3, 4, 11])
    for state, gone in ((begin, []), (skipping, [3, 4, 11])):
        cursor = run.at(state)
        left = [step for step in range(60) if step not in gone]
        for taken in (0, 1, 5, 23, len(left)):
            told = run.at(cursor.state_after(taken)).stats()
            steps = np.array(left[:taken], dtype=int)
            here = dataset.reshape(60, size)[steps]
            for number, each in enumerate(names):
                assert told[f"{each}/sequences"] == (here == number).sum()


@pytest.mark.parametrize("name", BALANCES)
@pytest.mark.parametrize("batch_size", [1, 3, 9])
def test_the_order_stays_up_to_the_first_end_at_other_sizes(parts, name, batch_size):
    weights = {"small": 0.3, "large": 0.7}
    made = loader(parts, weights, BALANCES[name], max_steps=50)
    run = made.view().run
    whole, saved = delivered(made), run.at(run.beginning(0)).state_after(20)
    other = loader(parts, weights, BALANCES[name], max_steps=50, batch_size=batch_size)
    resumed = other.view().run.accept(saved)
    assert resumed.parts["cuts"][:1] == saved.parts["cuts"] == (len(whole),)
    rest = delivered(other, resumed)[: len(whole) - saved.position]
    assert rest.tolist() == whole[saved.position :][: len(rest)].tolist()
    assert len(rest) == min(30 * 4, 30 * batch_size) * 8
