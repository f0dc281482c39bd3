"""Datasets of a mixture run out after just so many epochs."""

import atexit
import functools
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from models.courses import lanes, part, real_lanes, schedule, weight_lists
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import (
    Chain,
    Course,
    CourseInOrder,
)
from pagefeed.mixture.chain import MAX_TURN, ONE
from scaled import scaled

sizes = st.lists(st.integers(1, 120), min_size=1, max_size=5)


@given(sizes, st.data(), lanes, st.sampled_from([Course, CourseInOrder]))
@settings(max_examples=scaled(60))
def test_with_caps_every_sequence_is_delivered_so_often(sizes, data, lanes, make):
    one = st.floats(1e-3, 1)
    weights = data.draw(st.lists(one, min_size=len(sizes), max_size=len(sizes)))
    caps = data.draw(
        st.lists(st.integers(1, 3), min_size=len(sizes), max_size=len(sizes))
    )
    parts = tuple(
        part(number, size, cap)
        for number, (size, cap) in enumerate(zip(sizes, caps, strict=True))
    )
    plan = replace(schedule(weights), components=parts)
    course = make(plan, num_lanes=lanes, seed=1)
    totals = [size * cap for size, cap in zip(sizes, caps, strict=True)]
    end = course.natural_end
    assert end is not None
    assert end == sum(totals)
    dataset, local = course.at(np.arange(end))
    seen = Counter(zip(dataset.tolist(), local.tolist(), strict=True))
    wanted = {(n, place) for n, total in enumerate(totals) for place in range(total)}
    assert set(seen) == wanted
    assert set(seen.values()) == {1}
    assert course.counts(end).tolist() == totals
    for number, total in enumerate(totals):
        mine = np.flatnonzero(dataset == number)
        assert course.positions(number, local[mine]).tolist() == mine.tolist()
        assert course.positions(number, np.array([total])).tolist() == [-1]
        assert course.delivered(number, caps[number]) == mine[-1] + 1


@given(st.lists(st.integers(1, 120), min_size=2, max_size=5), st.data(), real_lanes)
@settings(max_examples=scaled(60))
def test_a_change_leaves_what_was_before_it_also_when_datasets_run_out(
    sizes, data, lanes
):
    one = st.floats(0.05, 1)
    weights, later = (
        data.draw(st.lists(one, min_size=len(sizes) + 1, max_size=len(sizes) + 1))
        for _ in range(2)
    )
    # The last never runs out.
    parts = [part(number, size * 4, 1) for number, size in enumerate(sizes)]
    plan = replace(schedule(weights), components=(*parts, part(len(sizes))))
    position = data.draw(st.integers(0, 3000))
    before = Course(plan, num_lanes=lanes, seed=1)
    after = Course(plan.changed(position, 0, later), num_lanes=lanes, seed=1)
    past = np.arange(position)
    for old, new in zip(before.at(past), after.at(past), strict=True):
        assert old.tolist() == new.tolist()


def test_a_hundred_datasets_run_out_one_by_one():
    rng = np.random.default_rng(4)
    sizes = (10 ** rng.uniform(1, 3.5, 100)).astype(int).tolist()
    parts = tuple(part(number, size, 2) for number, size in enumerate(sizes))
    plan = replace(schedule([size**0.3 for size in sizes]), components=parts)
    course = Course(plan, num_lanes=12, seed=1)
    end = 2 * sum(sizes)
    assert course.natural_end == end
    assert course.counts(end).tolist() == [2 * size for size in sizes]
    dataset, local = course.at(np.arange(end))
    for number, size in enumerate(sizes):
        assert np.array_equal(np.sort(local[dataset == number]), np.arange(2 * size))
        last = course.delivered(number, 2)
        assert last == np.flatnonzero(dataset == number)[-1] + 1


@given(
    st.lists(st.floats(1e-4, 1), min_size=2, max_size=9),
    st.data(),
)
def test_the_first_dataset_to_run_out_is_found(weights, data):
    chain = Chain(weights, range(len(weights)))
    some = st.lists(st.integers(1, 40), min_size=len(weights), max_size=len(weights))
    left = np.array(data.draw(st.lists(some, min_size=3, max_size=3)))
    phase = st.lists(st.integers(0, ONE - 1), min_size=3, max_size=3)
    phases = np.array([data.draw(phase) for _ in weights[1:]]).T
    lanes = np.arange(3)
    ends = [
        chain.turns_of(member, left[:, member] - 1, phases, lanes) + 1
        for member in range(len(weights))
    ]
    found = chain.first_end(left, range(len(weights)), phases)
    assert found.tolist() == np.min(ends, axis=0).tolist()


def test_the_others_take_over_when_a_dataset_runs_out():
    parts = (part(0, 100, 2), part(1), part(2))
    plan = replace(schedule([0.5, 0.3, 0.2]), components=parts)
    course = Course(plan, num_lanes=8, seed=1)
    assert course.natural_end is None
    end = course.delivered(0, 2)
    assert end is not None
    assert 380 <= end <= 420
    later = course.counts(end + 10_000) - course.counts(end)
    assert later[0] == 0
    assert np.abs(later[1:] - [6000, 4000]).max() <= 8


def test_a_dataset_without_weight_is_never_delivered():
    course = Course(schedule([1.0, 0.0]), num_lanes=4, seed=1)
    assert course.delivered(1, 1) is None
    assert course.positions(1, np.arange(9)).tolist() == [-1] * 9


@given(weight_lists, st.integers(0, 1 << 39), st.data())
@settings(max_examples=scaled(30))
def test_a_chain_counts_what_it_deals(weights, start, data):
    chain = Chain(weights, range(len(weights)))
    one = st.integers(0, ONE - 1)
    count = max(1, len(weights) - 1)
    phases = np.array(data.draw(st.lists(one, min_size=count, max_size=count)))
    phases = np.stack([phases, phases[::-1]])
    rows = np.tile([0, 1], 100)
    turns = np.arange(start, start + 200)
    dataset, number = chain.deal(turns, phases, rows)
    counts = chain.counts(turns, phases[rows])
    assert counts.sum(axis=1).tolist() == turns.tolist()
    assert counts[np.arange(200), dataset].tolist() == number.tolist()
    for member in np.unique(dataset).tolist():
        mine = dataset == member
        found = chain.turns_of(member, number[mine], phases, rows[mine])
        assert found.tolist() == turns[mine].tolist()


def test_turns_that_are_never_reached_are_said_to_be():
    chain = Chain([1.0, 1e-12], [0, 1])
    far = chain.turns_of(
        1, np.array([0, 5, 10**9]), np.full((1, 1), ONE // 2), np.zeros(3, int)
    )
    assert far[0] < MAX_TURN
    assert far[2] >= MAX_TURN


@given(st.data(), st.lists(st.integers(1, 6), min_size=2, max_size=2))
@settings(max_examples=scaled(25), deadline=None)
def test_a_mixture_that_runs_out_before_a_stage_is_refused_when_made(data, steps):
    """A loader that was made has a length, and delivers as many batches."""
    folder = two_datasets()
    names = ("a", "b")
    parts = {
        n: (pf.parquet(folder / f"{n}.parquet", column="input_ids"), 1.0) for n in names
    }
    first, second = data.draw(st.sampled_from([(1, 0), (1, 1), (0, 1)])), (1, 1)
    mixture = pf.mix(
        {n: (part[0], w) for (n, part), w in zip(parts.items(), first, strict=True)},
        stages=[
            pf.Stage(
                start_step=steps[0], weights=dict(zip(names, second, strict=True))
            ),
            pf.Stage(start_step=sum(steps), weights={"a": 1}),
        ],
        max_epochs=data.draw(
            st.fixed_dictionaries({}, optional=dict.fromkeys(names, st.integers(1, 3)))
        ),
        max_steps=20,
    )
    try:
        loader = pf.Loader(
            mixture, sequences=pf.Windows(4), batch_size=2, num_threads=1
        )
    except InvalidArgumentError as error:
        assert "begin the next stage earlier" in str(error)  # noqa: PT017
        return
    assert len(list(loader)) == len(loader)


@functools.cache
def two_datasets() -> Path:
    path = tempfile.TemporaryDirectory(prefix="pagefeed-ends-")
    atexit.register(path.cleanup)
    for name in ("a", "b"):
        rows = [[n] * 4 for n in range(6)]
        pq.write_table(pa.table({"input_ids": rows}), f"{path.name}/{name}.parquet")
    return Path(path.name)
