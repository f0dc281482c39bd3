"""What was added in an epoch is mixed in evenly, and the rest keeps its order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.order import EpochOrder, Shuffle, derive_key
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.growth import GrownOrder


def shuffled(size, name):
    return EpochOrder(
        ExplicitBlocks([0, size]),
        seed=1,
        epoch=0,
        name=name,
        shuffle=Shuffle(block="row"),
        num_lanes=1,
        window=0,
    )


def grown(old, new, position, group, key=b"key"):
    return GrownOrder(
        shuffled(old, "old"),
        shuffled(new, "new"),
        sizes=(old, new),
        position=position,
        group=group,
        key=key,
    )


@given(
    st.integers(1, 600),
    st.integers(1, 600),
    st.floats(0, 1),
    st.sampled_from([1, 2, 3, 8, 48]),
    st.data(),
)
def test_both_keep_their_order_and_every_place_is_found(old, new, share, group, data):
    position = int(share * old)
    order = grown(old, new, position, group)
    size = old + new
    found = order.at(range(size))
    assert sorted(found) == list(range(size))
    assert order.positions(found).tolist() == list(range(size))
    before, added = (shuffled(*each) for each in ((old, "old"), (new, "new")))
    assert found[found < old].tolist() == before.at(range(old)).tolist()
    assert (found[found >= old] - old).tolist() == added.at(range(new)).tolist()
    assert (found[:position] < old).all()
    some = data.draw(st.lists(st.integers(0, size - 1), max_size=9))
    assert order.at(np.array(some, np.int64)).tolist() == found[some].tolist()
    # As many as by their share, up to a block of groups.
    groups = (old - position) // group + new // group
    news = (found[position : position + groups * group] >= old).cumsum()
    even = np.arange(1, len(news) + 1) * (new // group) / max(1, groups)
    assert abs(news - even).max(initial=0) <= 16 * group


@pytest.mark.parametrize(("old", "new"), [(1000, 1000), (1200, 400), (980, 20)])
def test_no_rank_and_no_part_gets_more_of_what_is_new(old, new):
    """Under some seeds a rank has more, as by chance, and under others less."""
    ranks, seeds, steps = 4, 60, 16
    of_ranks = np.zeros((seeds, ranks))
    of_parts = np.zeros((seeds, 8))
    spread = []
    for seed in range(seeds):
        order = grown(old, new, 0, 1, derive_key(seed, "tested"))
        is_new = order.at(range(old + new)) >= old
        of_ranks[seed] = (
            is_new[: len(is_new) // ranks * ranks].reshape(-1, ranks).sum(0)
        )
        places = np.flatnonzero(is_new)
        of_parts[seed] = np.bincount(places * 8 // len(is_new), minlength=8)
        by_step = is_new[: len(is_new) // steps * steps].reshape(-1, steps).sum(axis=1)
        share = new / (old + new)
        spread.append(by_step.var() / (steps * share * (1 - share)))
    error = of_ranks.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert (abs(of_ranks.mean(axis=0) - new / ranks) < 5 * error + 1e-9).all()
    # Up to the rounding at both ends of a part.
    assert abs(of_parts.mean(axis=0) - new / 8).max() < 2
    # Not one rank in every seed, and no more than by chance in one of them.
    assert of_ranks.std(axis=0).max() < 1.3 * np.sqrt(new / ranks)
    assert np.mean(spread) < 1.1
