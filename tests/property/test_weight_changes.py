"""Changes of weights: recorded in little room, read back exactly, laid out once."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.courses import part, schedule, staged
from pagefeed.core.run import MAX_STATE_BYTES
from pagefeed.errors import StateMismatchError
from pagefeed.mixture import Component, Course, Schedule, WeightChange, rounded
from scaled import scaled

weight = st.one_of(st.just(0.0), st.floats(1e-8, 1), st.floats(1e-300, 1e300))


def weights(size):
    return st.lists(weight, min_size=size, max_size=size).filter(any)


@st.composite
def changed(draw):
    """A schedule with some changes, by stages and during the run."""
    size = draw(st.integers(1, 5))
    made = schedule(draw(weights(size)))
    starts = draw(st.sets(st.integers(1, 10**15), max_size=12))
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


def many_changes(rng, size, count):
    """Changes that nothing in common makes smaller."""
    starts = np.cumsum(rng.integers(1, 10**6, count))
    made = schedule(rng.random(size).tolist())
    parts = [
        (f"dataset-{number:02}", f"parquet {rng.bytes(16).hex()} 12 files")
        for number in range(size)
    ]
    changes = [made.changes[0]]
    for start in starts.tolist()[1:]:
        new = (10.0 ** rng.uniform(-7, 0, size)).tolist()
        changes.append(WeightChange(start, 1000, rounded(new, 4)))
    components = tuple(
        Component(name=name, data=data, num_sequences=10**7, num_tokens=10**12)
        for name, data in parts
    )
    return Schedule(components=components, changes=tuple(changes), digest="0" * 16)


@pytest.mark.parametrize(("size", "count"), [(5, 1600), (10, 900), (32, 320)])
def test_many_changes_fit(size, count):
    made = many_changes(np.random.default_rng(0), size, count)
    text = json.dumps(made.to_dict())
    assert len(text) <= MAX_STATE_BYTES
    assert Schedule.from_dict(json.loads(text)) == made


@pytest.mark.parametrize("version", [1, 3, None, "2"])
def test_a_state_of_another_order_is_refused(version):
    state = schedule([1.0, 2.0]).to_dict() | {"mixture_version": version}
    with pytest.raises(StateMismatchError, match=r"mixture_version .* reads 2"):
        Schedule.from_dict(state)


@settings(max_examples=scaled(40))
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
