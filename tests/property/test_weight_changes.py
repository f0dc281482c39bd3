"""Changes of weights: recorded in little room, read back exactly, laid out once."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.courses import part, schedule, staged
from pagefeed.core.run import MAX_STATE_BYTES
from pagefeed.errors import StateMismatchError
from pagefeed.mixture import Component, Course, Schedule, WeightChange
from pagefeed.mixture.packed_changes import (
    PRECISE_CHANGES,
    coarse,
    pack_changes,
    rounded,
)

weight = st.one_of(st.just(0.0), st.floats(1e-8, 1), st.floats(1e-300, 1e300))


def weights(size):
    return st.lists(weight, min_size=size, max_size=size).filter(any)


@given(st.integers(1, 40).flatmap(weights))
def test_coarse_weights_are_near_and_stay_as_they_are(given_weights):
    found, exact = np.array(coarse(given_weights)), np.array(given_weights)
    assert coarse(found.tolist()) == tuple(found.tolist())
    assert ((found > 0) == (exact > 0)).all()
    shown = exact > exact.max() * 2.0**-31
    relative = (found / found.max())[shown] / (exact / exact.max())[shown]
    assert np.abs(relative - 1).max() < 1 / 128 + 1e-6


@st.composite
def changed(draw):
    """A schedule with more changes than are listed; some of these are precise."""
    size = draw(st.integers(1, 5))
    made = schedule(draw(weights(size)))
    starts = draw(st.sets(st.integers(1, 10**15), max_size=PRECISE_CHANGES + 12))
    for start in sorted(starts):
        anneal = draw(st.sampled_from([0, 0, 3, 10**12]))
        given_weights = draw(weights(size))
        if draw(st.integers(0, 4)):
            made = made.reweighted(start, anneal, given_weights)
        else:  # As a stage does.
            made = made.changed(start, anneal, given_weights)
    return made


@given(changed(), st.integers(0, 2))
def test_what_a_state_records_is_read_back(made, num_added):
    made = made.with_components([part(100 + number) for number in range(num_added)])
    assert Schedule.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_all_changes_but_the_first_ones_are_packed():
    """Coarse weights are recorded as they are: rounded once more, some would not be."""
    rng = np.random.default_rng(0)
    made = schedule(rng.random(8).tolist())
    for start in range(1, 60):
        made = made.reweighted(start, 0, (10.0 ** rng.uniform(-3, 0, 8)).tolist())
    listed, packed = pack_changes(made.changes)
    assert len(listed) == PRECISE_CHANGES
    assert packed is not None
    assert packed["count"] == 60 - PRECISE_CHANGES


def many_changes(rng, size=32, count=2000):
    """Changes that nothing in common makes smaller."""
    starts = np.cumsum(rng.integers(1, 10**6, count))
    made = schedule(rng.random(size).tolist())
    parts = [
        (f"dataset-{number:02}", f"parquet {rng.bytes(16).hex()} 12 files")
        for number in range(size)
    ]
    changes = [made.changes[0]]
    for number, start in enumerate(starts.tolist()[1:], 1):
        new = (10.0 ** rng.uniform(-7, 0, size)).tolist()
        kept = rounded(new) if number < PRECISE_CHANGES else coarse(new)
        changes.append(WeightChange(start, int(rng.integers(0, 2)) * 1000, kept))
    components = tuple(
        Component(name=name, data=data, num_sequences=10**7, num_tokens=10**12)
        for name, data in parts
    )
    return Schedule(components=components, changes=tuple(changes), digest="0" * 16)


def test_two_thousand_changes_of_32_datasets_fit():
    made = many_changes(np.random.default_rng(0))
    assert len(made.changes) == 2000
    text = json.dumps(made.to_dict())
    assert len(text) <= MAX_STATE_BYTES
    assert Schedule.from_dict(json.loads(text)) == made


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 2),
        ("count", 1999),
        ("count", -1),
        ("count", 1 << 40),
        ("count", "all"),
        ("checksum", 0),
        ("text", "abc"),
        ("text", "\x00"),
        ("text", None),
    ],
)
def test_damaged_changes_are_refused(key, value):
    state = many_changes(np.random.default_rng(1), size=3, count=60).to_dict()
    assert state["changes"][key] != value
    with pytest.raises(StateMismatchError, match="not the mixture"):
        Schedule.from_dict(state | {"changes": state["changes"] | {key: value}})


def test_few_changes_are_listed_as_ever():
    made = schedule(
        [1, 2], *((start, 0, [float(start), 3.0]) for start in range(1, 16))
    )
    assert pack_changes(made.changes) == ([*made.changes], None)


@settings(max_examples=40)
@given(
    staged(2000),
    st.data(),
    st.sampled_from([1, 8, 12]),
)
def test_a_course_goes_on_from_the_one_before(made, data, num_lanes):
    """What was laid out is used again, and nothing is other than if laid out anew."""
    course = Course(made, num_lanes=num_lanes, seed=3)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, 2500))
        new = data.draw(weights(len(made.components)))
        made = made.changed(position, data.draw(st.sampled_from([0, 90])), new)
        course = Course(made, num_lanes=num_lanes, seed=3, before=course)
    whole = Course(made, num_lanes=num_lanes, seed=3)
    positions = np.arange(4000)
    for found, expected in zip(course.at(positions), whole.at(positions), strict=True):
        assert (found == expected).all()
    dataset, local = whole.at(positions)
    for number in range(len(made.components)):
        here = dataset == number
        assert (course.positions(number, local[here]) == positions[here]).all()
