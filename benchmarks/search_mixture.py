"""Search for weights under which a mixture is furthest off its proportions.

    python benchmarks/search_mixture.py [--lanes 8 12 48] [--seconds 60] [--seed 0]

Hill climbing over the number of datasets (2 to 12), their weights (down to a
millionth), up to 25 changes of weights with and without anneals, and seeds. A sequence
per lane is what a mixture promises; printed is the largest distance of a count from
what the weights come to, before any of the first positions, in sequences per lane, with
constant weights and over changes. From time to time it begins again elsewhere.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from pagefeed.mixture import Component, Course, Schedule, WeightChange, rounded

TURNS = 120
MOST_DATASETS = 12
MOST_CHANGES = 25
MANY = 10**12
PATIENCE = 150
"""Changes without a gain after which it begins again."""


@dataclass(frozen=True)
class Try:
    """Weights by span, where changes start, over how much they anneal, and a seed."""

    weights: np.ndarray
    starts: tuple[int, ...]
    anneals: tuple[int, ...]
    seed: int


def new_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    """Steep, even and sparse ones; at least one is above 0."""
    kinds = [
        lambda: 10 ** rng.uniform(-6, 0, count),
        lambda: rng.permutation(rng.uniform(0.15, 0.8) ** np.arange(count)),
        lambda: rng.random(count) ** rng.uniform(1, 6),
        lambda: np.ones(count),
    ]
    weights: np.ndarray = np.maximum(kinds[rng.integers(len(kinds))](), 1e-6)
    weights[rng.random(count) < rng.choice([0, 0, 0.3])] = 0
    if not weights.any():
        weights[rng.integers(count)] = 1
    return weights


def new_try(rng: np.random.Generator, num_lanes: int, *, changes: bool) -> Try:
    """Begin anywhere."""
    count = int(rng.integers(2, MOST_DATASETS + 1))
    starts: list[int] = [0]
    if changes:
        most = int(rng.integers(1, MOST_CHANGES + 1))
        last = num_lanes * int(rng.integers(2, TURNS))
        starts = [0, *sorted({int(s) for s in rng.integers(1, last, most)})]
    return Try(
        np.stack([new_weights(rng, count) for _ in starts]),
        tuple(starts),
        tuple(int(rng.choice([0, 0, 0, 30, 400])) for _ in starts),
        int(rng.integers(1 << 20)),
    )


def varied(rng: np.random.Generator, old: Try, num_lanes: int) -> Try:
    """Change one thing of a try."""
    weights, starts, anneals = old.weights.copy(), list(old.starts), list(old.anneals)
    span = int(rng.integers(len(starts)))
    kind = rng.integers(6)
    if kind == 0:
        weights[span] = new_weights(rng, weights.shape[1])
    elif kind == 1 and span > 0:
        moved = starts[span] + int(rng.integers(-num_lanes, num_lanes + 1))
        before = starts[span - 1] + 1
        after = starts[span + 1] if span + 1 < len(starts) else TURNS * num_lanes
        starts[span] = int(np.clip(moved, before, max(before, after - 1)))
    elif kind == 2:
        return Try(weights, old.starts, old.anneals, int(rng.integers(1 << 20)))
    elif kind == 3 and span > 0:
        anneals[span] = int(rng.choice([0, 1, 30, 400]))
    else:
        number = int(rng.integers(weights.shape[1]))
        factor = np.exp(rng.normal() * rng.choice([0.05, 0.5, 3]))
        weights[span, number] = np.clip(weights[span, number] * factor, 0, 1)
        if not weights[span].any():
            return old
    return Try(weights, tuple(starts), tuple(anneals), old.seed)


def error(tried: Try, num_lanes: int) -> float:
    """Largest distance from the weights at any prefix, in sequences per lane."""
    parts = tuple(
        Component(name=f"d{n}", data="", num_sequences=MANY, num_tokens=MANY)
        for n in range(tried.weights.shape[1])
    )
    changes = [
        WeightChange(start, anneal if start else 0, rounded(weights.tolist()))
        for start, anneal, weights in zip(
            tried.starts, tried.anneals, tried.weights, strict=True
        )
    ]
    schedule = Schedule(components=parts, changes=tuple(changes), digest="")
    course = Course(schedule, num_lanes=num_lanes, seed=tried.seed)
    total = TURNS * num_lanes
    dataset, _ = course.at(np.arange(total))
    counts = (dataset[:, None] == np.arange(len(parts))).cumsum(axis=0)
    ideal = np.zeros((total, len(parts)))
    for start, stop, weights in schedule.intervals():
        ideal[start : total if stop is None else stop] = np.array(weights)
    ideal /= ideal.sum(axis=1, keepdims=True)
    return float(np.abs(counts - ideal.cumsum(axis=0)).max()) / num_lanes


def search(num_lanes: int, seconds: float, seed: int, *, changes: bool) -> float:
    """Climb for so long; return the largest error that was met."""
    rng = np.random.default_rng([seed, num_lanes, changes])
    most, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        at = new_try(rng, num_lanes, changes=changes)
        height, idle = error(at, num_lanes), 0
        while idle < PATIENCE and time.monotonic() < end:
            near = varied(rng, at, num_lanes)
            found = error(near, num_lanes)
            idle = 0 if found > height else idle + 1
            if found >= height:
                at, height = near, found
        most = max(most, height)
    return most


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 12, 48])
    parser.add_argument("--seconds", type=float, default=60, help="for each figure")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'lanes':>6} {'constant':>9} {'changes':>8}   sequences per lane")
    for num_lanes in options.lanes:
        found = [
            search(num_lanes, options.seconds, options.seed, changes=changes)
            for changes in (False, True)
        ]
        print(f"{num_lanes:>6} {found[0]:>9.2f} {found[1]:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
