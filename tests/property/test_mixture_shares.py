"""Any prefix of a mixture has its proportions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.courses import lanes, real_lanes, schedule, staged, weight_lists
from pagefeed.mixture import (
    Course,
    Schedule,
)
from scaled import scaled


def ideal_counts(plan: Schedule, num_positions: int) -> np.ndarray:
    """What weights alone would give each dataset before every position."""
    shares = np.zeros((num_positions + 1, len(plan.components)))
    for start, stop, weights in plan.intervals():
        end = num_positions if stop is None else min(stop, num_positions)
        shares[start + 1 : end + 1] = np.array(weights) / sum(weights)
    return shares.cumsum(axis=0)


def real_counts(course: Course, num_positions: int) -> np.ndarray:
    dataset, _ = course.at(np.arange(num_positions))
    counts = np.zeros((num_positions + 1, len(course.schedule.components)))
    counts[np.arange(1, num_positions + 1), dataset] = 1
    return counts.cumsum(axis=0)


def error_in_lanes(course: Course, num_positions: int) -> float:
    """Largest distance of a dataset's count from its weight, in sequences per lane."""
    ideal = ideal_counts(course.schedule, num_positions)
    difference = np.abs(real_counts(course, num_positions) - ideal)
    return float(difference.max()) / course.num_lanes


def bound_of(weights):
    """Sequences per lane that a count can be off: see `pagefeed.mixture.chain`."""
    heavy = sorted(weights, reverse=True)
    left = np.cumsum(heavy[::-1])[::-1]
    parts = [
        sum(weight / left[1 : min(place + 1, len(heavy) - 1)])
        for place, weight in enumerate(heavy)
    ]
    return (1 + max(parts)) / 2


@given(weight_lists, lanes, st.integers(0, 5))
@settings(max_examples=scaled(60))
def test_every_prefix_is_within_a_sequence_per_lane_of_the_weights(
    weights, lanes, seed
):
    course = Course(schedule(weights), num_lanes=lanes, seed=seed)
    bound = bound_of(course.schedule.changes[0].weights)
    error = error_in_lanes(course, 3000)
    assert error < bound + 1e-6
    # One lane has no others to even out what a deep tree rounds.
    assert error < 1 or (lanes == 1 and bound > 1)


@given(weight_lists, real_lanes)
@settings(max_examples=scaled(30))
def test_lanes_leave_room_below_the_bound(weights, lanes):
    assert (
        error_in_lanes(Course(schedule(weights), num_lanes=lanes, seed=0), 3000) < 0.75
    )


@given(staged(3000), real_lanes, st.integers(0, 5))
@settings(max_examples=scaled(60))
def test_every_prefix_is_within_a_sequence_per_lane_over_stages(plan, lanes, seed):
    assert error_in_lanes(Course(plan, num_lanes=lanes, seed=seed), 3000) < 1


@given(staged(1000), st.integers(1, 5))
@settings(max_examples=scaled(30))
def test_errors_of_few_lanes_do_not_add_up(plan, lanes):
    # Fewer than a mixture has: roundings have no others to even them out.
    assert error_in_lanes(Course(plan, num_lanes=lanes, seed=1), 1000) < 3


def test_changes_that_a_search_found_to_be_hard():
    # 1.17 where every lane makes up for what itself lacks, instead of by trading.
    plan = schedule(
        [1.3e-05, 3.1e-05, 1.0, 1.5e-05, 0.75, 0.34, 0.053],
        (8, 0, [1.0, 0.0, 0.0, 1.5e-05, 3.4e-06, 0.34, 0.0]),
        (59, 0, [1.0, 0.084, 0.32, 0.16, 0.065, 0.73, 0.27]),
        (74, 0, [0.0, 0.0, 0.0, 4.2e-06, 0.0, 1.0, 0.0]),
        (85, 0, [1.0, 0.0023, 7.9e-06, 3.2e-05, 3.3e-06, 0.1, 0.26]),
    )
    assert error_in_lanes(Course(plan, num_lanes=8, seed=31), 200) < 0.5


@pytest.mark.parametrize("seed", [136, 468])
def test_a_large_dataset_does_not_pay_for_many_small_ones(seed):
    # Up to 0.64 where small datasets are given at once what they lack.
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.choice(np.arange(1, 120), 8, replace=False)).tolist()
    later = [(start, 0, (10 ** rng.uniform(-6, 0, 12)).tolist()) for start in starts]
    course = Course(schedule([1] * 12, *later), num_lanes=8, seed=seed)
    assert error_in_lanes(course, 240) < 0.45


def test_changes_at_every_position_even_out_over_lanes():
    # Lanes without a turn between two changes take part in the trade of phases.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        later = [(start, 0, (rng.random(5) ** 4).tolist()) for start in range(1, 400)]
        course = Course(schedule([1] * 5, *later), num_lanes=48, seed=seed)
        assert error_in_lanes(course, 500) < 0.2


def test_many_stages_add_no_errors():
    rng = np.random.default_rng(2)
    for apart in (1, 7, 50):
        starts = range(apart, 200 * apart, apart)
        later = [(start, 0, rng.random(5).tolist()) for start in starts]
        course = Course(schedule([1] * 5, *later), num_lanes=8, seed=1)
        assert error_in_lanes(course, 250 * apart) < 1


@pytest.mark.parametrize("temperature", [1, 3, 1e9])
def test_very_many_datasets_keep_their_shares(temperature):
    sizes = np.random.default_rng(3).pareto(0.5, 1500) + 1
    weights = (sizes ** (1 / temperature)).tolist()
    course = Course(schedule(weights), num_lanes=48, seed=1)
    assert error_in_lanes(course, 20_000) < 0.5


@pytest.mark.parametrize("far", [0, 1 << 22, 1 << 30, 1 << 37])
def test_weights_of_a_millionth_hold_far_out(far):
    weights = [0.9, 0.1 - 3e-6, 2e-6, 1e-6]
    course = Course(schedule(weights), num_lanes=48, seed=1)
    counts = course.counts(far * 48 + 31)
    shares = np.array(course.schedule.changes[0].weights)
    ideal = shares / shares.sum() * (far * 48 + 31)
    # A share is kept to 2**-40: half a sequence per lane at the last turn there can be.
    assert np.abs(counts - ideal).max() < 48 * (1 + far / 2**39)
    dataset, local = course.at(np.arange(far * 48, far * 48 + 100))
    for number in range(4):
        mine = np.flatnonzero(dataset == number)
        found = course.positions(number, local[mine])
        assert found.tolist() == (mine + far * 48).tolist()


def test_a_rare_dataset_does_not_come_in_clumps():
    course = Course(schedule([0.7, 0.3 - 1e-4, 1e-4]), num_lanes=48, seed=3)
    dataset, _ = course.at(np.arange(1_000_000))
    gaps = np.diff(np.flatnonzero(dataset == 2))
    assert 90 <= len(gaps) <= 110
    assert gaps.min() > 2_000
    assert gaps.max() < 25_000
    by_lane = np.bincount(np.flatnonzero(dataset == 2) % 48, minlength=48)
    assert by_lane.max() - by_lane.min() <= 1
