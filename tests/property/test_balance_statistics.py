"""Balanced orders over seeds and epochs: as a random order has it, but for balance."""

from itertools import pairwise

import numpy as np
import pytest

import pagefeed as pf
from pagefeed.balance import Dealing
from pagefeed.core._base import finished
from pagefeed.core.order import derive_key
from pagefeed.core.run import Sequences

RNG = np.random.default_rng(7)
TOKENS = pf.Balance.parse("tokens")
ATTENTION = pf.Balance(attention=1)
EXACT = pf.Balance(attention=1, exact=True)
EXACT_TOKENS = pf.Balance(tokens=1, bucket=64, stretch=2048, exact=True)


class Drawn:
    """A random order of so many sequences."""

    def __init__(self, size, key):
        self.permutation = pf.Permutation(size, key)

    def reading(self, positions):
        yield
        return Sequences(self.permutation[positions])


def lengths(count):
    """Lengths of documents, as they are."""
    return RNG.lognormal(6, 0.8, count).astype(int) + 1.0


def steps(costs, balance, ranks, batch_size, epoch):
    """Sequences of an epoch's steps: [steps, batch_size, ranks]."""
    key, size = derive_key(epoch, "tested"), len(costs)
    dealing = Dealing(
        Drawn(size, derive_key(key, "order")).reading,
        balance=balance,
        key=key,
        costs=lambda sequences: costs[sequences],
        ranks=ranks,
        divisions=size,
    )
    found = finished(dealing.reading(np.arange(size))).numbers
    whole = size // (ranks * batch_size) * ranks * batch_size
    return found[:whole].reshape(-1, batch_size, ranks)


def met_again(first, second):
    """Share of the pairs of the steps of one epoch that share a step in another."""
    num_steps = len(first)
    step_of = np.full(max(first.max(), second.max()) + 1, -1)
    step_of[second.reshape(num_steps, -1)] = np.arange(num_steps)[:, None]
    mates = first.reshape(num_steps, -1)
    now = step_of[mates]
    pairs = np.arange(num_steps)[:, None] * (num_steps + 1) + now
    counts = np.unique(pairs[now >= 0], return_counts=True)[1]
    return (counts * (counts - 1)).sum() / mates.size / (mates.shape[1] - 1)


def deviation(counts, expected):
    """Standard deviations of a chi-square from its mean."""
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    squares = ((counts - expected) ** 2 / expected).sum()
    return (squares - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize(
    ("balance", "size", "ranks", "batch_size", "most"),
    [
        (ATTENTION, 2000, 1, 16, 3 * 15 / 1999),
        (ATTENTION, 16_000, 8, 8, 3 * 63 / 15_999),
        (EXACT, 16_000, 8, 8, 3 * 63 / 15_999),
        (EXACT, 4000, 16, 4, 3 * 63 / 3999),
        (TOKENS, 2000, 1, 16, 0.12),
        (TOKENS, 10_000, 1, 16, 0.07),
        (TOKENS, 10_000, 8, 16, 0.15),
        (EXACT_TOKENS, 10_000, 8, 16, 0.15),
    ],
)
def test_batch_mates_rarely_meet_again(balance, size, ranks, batch_size, most):
    costs = lengths(size) ** (2 if balance.attention else 1)
    epochs = [steps(costs, balance, ranks, batch_size, epoch) for epoch in range(4)]
    found = [met_again(*two) for two in pairwise(epochs)]
    assert np.mean(found) < most


@pytest.mark.parametrize(("balance", "most"), [(TOKENS, 0.16), (EXACT_TOKENS, 0.18)])
def test_batches_of_like_length_are_hardly_padded(balance, most):
    for size, ranks in ((2000, 1), (10_000, 8)):
        costs = lengths(size)
        batches = costs[steps(costs, balance, ranks, 16, 0)]
        assert 1 - batches.mean() / batches.max(axis=1).mean() < most


@pytest.mark.parametrize(("ranks", "batch_size"), [(8, 8), (16, 4)])
def test_no_rank_is_the_cheapest_one(ranks, batch_size):
    costs = lengths(8000) ** 2
    cheapest = [
        costs[steps(costs, EXACT, ranks, batch_size, epoch)].sum(axis=1).argmin(axis=1)
        for epoch in range(8)
    ]
    counts = np.bincount(np.concatenate(cheapest), minlength=ranks)
    expected = counts.mean()
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()


def attention_costs(length, count):
    """Squares of documents in windows of so many tokens, by log-normal lengths."""
    rng = np.random.default_rng(0)
    documents = rng.lognormal(np.log(600), 1.3, count * length // 1000)
    borders = np.cumsum(documents.astype(int) + 1)
    assert borders[-1] > count * length
    windows = np.arange(1, count + 1) * length
    borders = np.union1d(borders[borders < windows[-1]], windows)
    squares = np.square(np.diff(borders, prepend=0).astype(float))
    return np.bincount((borders - 1) // length, squares)


@pytest.mark.parametrize(
    ("length", "ranks", "batch_size", "figure"),
    [
        (4096, 8, 1, 1.06),
        (4096, 8, 4, 1.03),
        (4096, 64, 1, 1.07),
        (4096, 64, 8, 1.04),
        (32_768, 8, 1, 1.07),
        (32_768, 8, 4, 1.07),
        (32_768, 64, 1, 1.09),
        (32_768, 64, 8, 1.07),
    ],
)
def test_the_slowest_rank_is_as_slow_as_it_was(length, ranks, batch_size, figure):
    """By figures that were measured of packed sequences; 1.4 to 5.2 without balance."""
    costs = attention_costs(length, ranks * 1024)
    of_ranks = costs[steps(costs, ATTENTION, ranks, batch_size, 1)].sum(axis=1)
    slowest = (of_ranks.max(axis=1) / of_ranks.mean(axis=1)).mean()
    assert slowest < figure + 0.02


@pytest.mark.parametrize("balance", [EXACT, EXACT_TOKENS, ATTENTION, TOKENS])
def test_every_rank_and_step_is_as_likely_for_every_sequence(balance):
    size, ranks, seeds = 1024, 4, 600
    costs = lengths(size)
    of_rank = np.zeros((size, ranks))
    is_first = np.zeros((size, 2))
    for seed in range(seeds):
        found = steps(costs, balance, ranks, 16, seed)
        of_rank[found, np.arange(ranks)] += 1
        is_first[found[0], 0] += 1
    is_first[:, 1] = seeds - is_first[:, 0]
    assert abs(deviation(of_rank, seeds / ranks)) < 4
    share = 64 / size
    assert abs(deviation(is_first, seeds * np.array([share, 1 - share]))) < 4
