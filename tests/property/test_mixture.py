"""The course of a mixture holds its proportions, loses nothing and repeats nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.courses import MANY, lanes, real_lanes, staged
from pagefeed.mixture import (
    Course,
    CourseInOrder,
)
from scaled import scaled


@given(staged(3000), lanes)
@settings(max_examples=scaled(30))
def test_each_lane_delivers_a_prefix_of_every_dataset(plan, lanes):
    course = Course(plan, num_lanes=lanes, seed=1)
    positions = np.arange(4000)
    dataset, local = course.at(positions)
    for number in range(len(plan.components)):
        mine = np.flatnonzero(dataset == number)
        for lane in range(lanes):
            taken = local[mine[mine % lanes == lane]]
            assert taken.tolist() == list(range(lane, lane + lanes * len(taken), lanes))
        assert course.positions(number, local[mine]).tolist() == mine.tolist()


@given(staged(3000), lanes, st.lists(st.integers(0, 4000), min_size=1, max_size=20))
@settings(max_examples=scaled(30))
def test_any_position_alone_is_as_among_all(plan, lanes, positions):
    course = Course(plan, num_lanes=lanes, seed=1)
    dataset, local = course.at(np.arange(4001))
    one_by_one = [course.at(np.array([position])) for position in positions]
    assert [int(found[0][0]) for found in one_by_one] == dataset[positions].tolist()
    assert [int(found[1][0]) for found in one_by_one] == local[positions].tolist()
    for position in positions:
        counted = np.bincount(dataset[:position], minlength=len(plan.components))
        assert course.counts(position).tolist() == counted.tolist()


@given(
    staged(2000),
    st.integers(0, 2500),
    st.lists(st.floats(0, 1), min_size=12, max_size=12).filter(any),
    st.sampled_from([0, 100]),
    lanes,
)
@settings(max_examples=scaled(30))
def test_a_change_leaves_what_was_before_it(plan, position, weights, anneal, lanes):
    weights = weights[: len(plan.components)]
    weights[0] += 0.1
    before = Course(plan, num_lanes=lanes, seed=1)
    after = Course(plan.changed(position, anneal, weights), num_lanes=lanes, seed=1)
    past = np.arange(position)
    for old, new in zip(before.at(past), after.at(past), strict=True):
        assert old.tolist() == new.tolist()


@given(staged(3000), real_lanes)
@settings(max_examples=scaled(30))
def test_in_file_order_each_dataset_comes_from_front_to_back(plan, lanes):
    course = CourseInOrder(plan, num_lanes=lanes, seed=1)
    positions = np.arange(2000)
    dataset, local = course.at(positions)
    # Which dataset comes when is as in any course, and so within a sequence per lane.
    usual, _ = Course(plan, num_lanes=lanes, seed=1).at(positions)
    assert dataset.tolist() == usual.tolist()
    for number in range(len(plan.components)):
        mine = np.flatnonzero(dataset == number)
        assert local[mine].tolist() == list(range(len(mine)))
        some = local[mine][::37]
        assert course.positions(number, some).tolist() == mine[::37].tolist()
        assert course.following(2000)[number].tolist() == [len(mine)]
        if plan.changes[-1].weights[number] == 0:
            assert course.positions(number, np.array([MANY - 1])).tolist() == [-1]
    alone = [course.at(np.array([position])) for position in (0, 777, 1999)]
    assert [int(found[1][0]) for found in alone] == local[[0, 777, 1999]].tolist()
