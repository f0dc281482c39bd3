"""Batches with a budget of tokens hold each document once, and as many as fit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefeed.documents.budgets import batches_of_lengths
from scaled import scaled

LENGTHS = st.lists(st.integers(0, 40), max_size=200)


def expected(lengths: list[int], budget: int) -> list[list[int]]:
    """From the longest on, each batch takes the next documents while they fit."""
    counted = [max(1, length) for length in lengths]
    left = sorted(range(len(lengths)), key=lambda number: -counted[number])
    batches = []
    while left:
        batch = [left.pop(0)]
        while left and counted[batch[0]] * (len(batch) + 1) <= budget:
            batch.append(left.pop(0))
        batches.append(batch)
    return batches


def as_lists(batches) -> list[list[int]]:
    return [part.tolist() for part in np.split(*batches)][1:-1]


@given(LENGTHS, st.integers(40, 400))
def test_padded_batches_are_those_of_the_model(lengths, budget):
    found = as_lists(batches_of_lengths(lengths, budget, is_padded=True))
    assert sorted(found) == sorted(expected(lengths, budget))


@given(LENGTHS, st.integers(40, 400))
def test_joined_batches_are_full_and_hold_each_document_once(lengths, budget):
    found = as_lists(batches_of_lengths(lengths, budget, is_padded=False))
    assert sorted(itertools.chain(*found)) == list(range(len(lengths)))
    sizes = [sum(max(1, lengths[number]) for number in batch) for batch in found]
    assert all(0 < size <= budget for size in sizes)
    # First fit, of which best fit is one, leaves at most one batch half empty.
    assert sum(2 * size <= budget for size in sizes) <= 1


@settings(max_examples=scaled(20))
@given(st.integers(0, 99))
def test_little_of_the_budget_is_wasted(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(300), 1.2, 20_000).astype(int).clip(1, 1024)
    for is_padded, most in ((True, 0.02), (False, 0.002)):
        batches = batches_of_lengths(lengths, 65_536, is_padded=is_padded)
        waste = 1 - lengths.sum() / ((len(batches.first) - 1) * 65_536)
        # The last one holds what is left.
        assert waste < most + 65_536 / lengths.sum()


@pytest.mark.parametrize("is_padded", [True, False])
def test_neighbours_are_of_unlike_lengths(is_padded):
    lengths = np.repeat(np.arange(1, 65), 64)
    batches = batches_of_lengths(lengths, 1024, is_padded=is_padded)
    means = [lengths[batch].mean() for batch in as_lists(batches)]
    eighths = [np.mean(part) for part in np.array_split(means, 8)]
    assert np.ptp(eighths) < 0.4 * np.mean(eighths)


def places_by_length(lengths):
    """Where batches stand, from that of the longest document on."""
    batches = as_lists(batches_of_lengths(lengths, 1024, is_padded=True))
    ranked = sorted(batches, key=lambda batch: (-lengths[batch[0]], batch[0]))
    return np.array([batches.index(batch) for batch in ranked])


def test_lengths_do_not_tell_where_batches_stand():
    rng = np.random.default_rng(1)
    orders = [places_by_length(rng.integers(1, 65, 2000)) for _ in range(60)]
    # The longest batch does not come first, as it does by multiples of a golden ratio.
    first = [order[0] / len(order) for order in orders]
    assert np.mean(first) == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / len(first)))
    # And blocks are not ordered alike: lanes that start together differ.
    for one, other in itertools.pairwise(orders):
        both = min(len(one), len(other))
        alike = np.corrcoef(one[:both], other[:both])[0, 1]
        assert abs(alike) < 5 / np.sqrt(both)
