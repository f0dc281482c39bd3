"""Sums over the blocks of an epoch, made in steps."""

from typing import Any

import numpy as np
import pytest

from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.core.order import starts as starts_module
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.errors import InternalError


def make_order(blocks, *, begins=True, **options):
    settings: dict[str, Any] = {
        "seed": 1,
        "epoch": 0,
        "name": "web",
        "shuffle": Shuffle(),
    }
    options = {"num_lanes": 3, "window": 20} | options
    order = EpochOrder(blocks, **(settings | options))
    for _ in order.begin() if begins else ():
        pass
    return order


def random_blocks(num_blocks, seed=0):
    sizes = np.random.default_rng(seed).integers(0, 6, num_blocks)
    return ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)]))


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch):
    monkeypatch.setattr(starts_module, "PIECE", 640)


def test_sums_are_made_in_steps_ahead_of_their_use():
    blocks = random_blocks(5000)
    sequences = make_order(blocks).at(range(blocks.num_sequences))
    for num_steps in (0, 3, 1000):  # what is left is made when it is needed
        order = make_order(blocks, begins=False)
        steps = sum(1 for _, _ in zip(range(num_steps), order.begin(), strict=False))
        assert steps == min(num_steps, 9)
        assert np.array_equal(order.at(range(blocks.num_sequences)), sequences)


def test_blocks_that_change_are_found_out():
    sizes = np.random.default_rng(0).permutation(np.arange(5000) % 7)
    blocks = ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)]))
    order = make_order(blocks)
    blocks.__dict__.update(
        vars(ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes[::-1])])))
    )
    with pytest.raises(InternalError, match="the blocks changed"):
        order.at(range(blocks.num_sequences))


@pytest.mark.parametrize("num_steps", [0, 1, 4, 8])
def test_an_interrupted_pass_begins_again(monkeypatch, num_steps):
    blocks = random_blocks(5000)
    sequences = make_order(blocks).at(range(blocks.num_sequences))
    make = starts_module.sum_sizes

    def interrupted(items):
        for step, sums in enumerate(make(items)):
            if step == num_steps:
                raise KeyboardInterrupt
            yield sums

    monkeypatch.setattr(starts_module, "sum_sizes", interrupted)
    order = make_order(blocks, begins=False)
    for begin in (lambda: list(order.begin()), lambda: order.at([0])):
        with pytest.raises(KeyboardInterrupt):
            begin()
    monkeypatch.setattr(starts_module, "sum_sizes", make)
    assert np.array_equal(order.at(range(blocks.num_sequences)), sequences)
