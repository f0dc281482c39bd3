"""The benchmark's measure of a shuffle, compared with a count of all pairs."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loaders.quality import meetings, repeated


def by_counting(batches, groups):
    everyone = list(combinations(range(len(groups)), 2))
    chance = np.mean([groups[a] == groups[b] for a, b in everyone])
    pairs = [pair for batch in batches for pair in combinations(batch, 2)]
    return np.mean([groups[a] == groups[b] for a, b in pairs]) / chance


@given(st.data())
def test_meetings_are_those_of_all_pairs(data):
    groups = np.sort(data.draw(st.lists(st.integers(0, 3), min_size=5, max_size=20)))
    order = data.draw(st.permutations(range(len(groups))))
    size = data.draw(st.integers(2, len(groups)))
    batches = np.array(order[: len(order) // size * size]).reshape(-1, size)
    if len(set(groups)) == len(groups):
        groups[0] = groups[1]
    np.testing.assert_allclose(
        meetings(batches, groups.astype(np.int64)), by_counting(batches, groups)
    )


def test_file_order_is_far_from_random_and_a_permutation_is_near():
    groups = np.arange(40_000) // 16
    in_order = np.arange(40_000).reshape(-1, 64)
    mixed = np.random.default_rng(1).permutation(40_000).reshape(-1, 64)
    assert meetings(in_order, groups) > 100
    assert 0.8 < meetings(mixed, groups) < 1.2


def test_repeated_is_the_share_seen_before():
    assert repeated(np.array([[0, 1], [2, 3]])) == 0
    assert repeated(np.array([[0, 1], [1, 0]])) == 0.5
