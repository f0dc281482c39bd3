"""Courses of mixtures that tests draw."""

import math
from typing import Any

from hypothesis import strategies as st

from pagefeed.mixture import (
    LEAST_LANES,
    Component,
    Schedule,
    WeightChange,
    rounded,
)

MANY = 10**12

lanes = st.sampled_from([1, 2, 3, 4, 5, 8, 12, 48, 96])
# Those that a mixture can have: divisors of 48, or with a number of ranks.
real_lanes = st.builds(
    math.lcm,
    st.sampled_from([n for n in range(LEAST_LANES, 49) if 48 % n == 0]),
    st.sampled_from([1, 1, 1, 5, 7, 100]),
)
tiny = st.integers(-6, 0).map(lambda exponent: 10.0**exponent)
weight_lists = st.one_of(
    st.lists(st.floats(1e-6, 1), min_size=1, max_size=9),
    st.lists(tiny, min_size=1, max_size=9),
    st.integers(1, 40).map(lambda count: [1.0] * count),
    st.integers(1, 40).map(lambda count: [0.9, *[0.1 / count] * count]),
    # Steep ones, under which roundings of a tree add up most.
    st.integers(5, 12).flatmap(
        lambda count: st.floats(0.12, 0.8).map(
            lambda fall: [max(fall**n, 1e-6) for n in range(count)]
        )
    ),
)


def part(
    number: int, num_sequences: int = MANY, max_epochs: int | None = None
) -> Component:
    return Component(
        name=f"d{number}",
        data="",
        num_sequences=num_sequences,
        num_tokens=num_sequences,
        max_epochs=max_epochs,
    )


def schedule(weights: list[float], *later: tuple[int, int, list[float]]) -> Schedule:
    changes = [WeightChange(0, 0, rounded(weights))]
    changes += [
        WeightChange(start, anneal, rounded(after)) for start, anneal, after in later
    ]
    parts = tuple(part(number) for number in range(len(weights)))
    return Schedule(components=parts, changes=tuple(changes), digest="")


@st.composite
def staged(draw: Any, num_positions: int) -> Schedule:
    """Weights that change a few times, with and without an anneal."""
    size = draw(st.integers(1, 12))
    one = st.one_of(st.just(0.0), st.floats(1e-6, 1), tiny)
    several = st.lists(one, min_size=size, max_size=size).filter(any)
    early = st.integers(1, min(num_positions, 300))
    start = st.one_of(early, st.integers(1, num_positions))
    starts = draw(st.sets(start, max_size=5))
    anneal = st.sampled_from([0, 0, 1, 50, 700])
    later = [(start, draw(anneal), draw(several)) for start in sorted(starts)]
    return schedule(draw(several), *later)
