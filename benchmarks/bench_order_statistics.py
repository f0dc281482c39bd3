"""What orders of small data and of balanced ranks give, each figure beside chance.

    python benchmarks/bench_order_statistics.py [--seeds 200] [--only mates ...]

Documents of log-normal lengths (sigma 0.8), of which the lengths alone are there.
Nothing is decoded: orders are functions of the index, a seed and an epoch.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import pagefeed as pf
from bench_balance import write_lengths
from pagefeed.balance import SequenceCosts
from pagefeed.core._base import finished
from pagefeed.core.batches import make_run
from pagefeed.core.run import gathered

Array = np.ndarray[Any, Any]
DOCUMENTS = pf.Documents([], max_length=8192)
EXACT = pf.Balance(attention=1, exact=True)
EXACT_TOKENS = pf.Balance(tokens=1, bucket=64, stretch=2048, exact=True)
RNG = np.random.default_rng(3)


BALANCED: list[tuple[int, int, int, Any]] = [
    (2000, 1, 16, "tokens"),
    (10_000, 1, 16, "tokens"),
    (10_000, 8, 16, "tokens"),
    (10_000, 8, 16, EXACT_TOKENS),
    (2000, 1, 16, "attention"),
    (16_000, 8, 8, "attention"),
    (16_000, 8, 8, EXACT),
    (4000, 16, 4, EXACT),
]
"""Documents, ranks, rows of a rank, and what balances them."""
PACKED: dict[str, Any] = {"sequences": pf.Packed(4096)}
PLACED: list[tuple[int, dict[str, Any]]] = [
    *((n, {"batch_tokens": 32_768}) for n in (3500, 7000, 14_000, 28_000, 52_000)),
    *((n, PACKED) for n in (45_000, 2400)),
]
"""Documents, and how they become sequences."""


class Data:
    """Documents of some lengths, and loaders of them under any seed."""

    def __init__(self, folder: Path, count: int, mean: float = 6) -> None:
        (made := folder / f"{count}-{mean}").mkdir(exist_ok=True)
        self.lengths = RNG.lognormal(mean, 0.8, count).astype(int) + 1
        self.dataset = write_lengths(made, self.lengths)
        self.settings: dict[str, Any] = {}

    def steps(self, seed: int, epoch: int, **options: Any) -> Array:
        """Sequences of the whole steps of an epoch: [steps, rows of a rank, ranks]."""
        if (key := repr(options)) not in self.settings:
            given = {"rank": 0, "world_size": 1, "sequences": DOCUMENTS, **options}
            given.setdefault("batch_size", None if "batch_tokens" in given else 1)
            loader = pf.Loader(given.pop("data", self.dataset), **given)
            self.settings[key] = loader.view().settings
        self.run = run = make_run(replace(self.settings[key], seed=seed))
        cursor = run.at(run.beginning(epoch))
        end, begin, size = cursor.end or 0, cursor.start, run.step_sequences
        whole = range(begin, begin + (end - begin) // size * size)
        found = finished(gathered(cursor.at(whole))).numbers
        return found.reshape(-1, run.batch_size, run.world_size)


def met_again(first: Array, second: Array) -> float:
    """Share of the pairs of a step that share a step in another epoch."""
    step = np.full(1 + max(first.max(), second.max()), -1)
    step[second.reshape(len(second), -1)] = np.arange(len(second))[:, None]
    mates = step[first.reshape(len(first), -1)]
    met = sum(
        len(row) and (np.bincount(row) ** 2.0).sum() - len(row)
        for row in (each[each >= 0] for each in mates)
    )
    return float(met / (mates.size * (mates.shape[1] - 1)))


def mates(folder: Path, seeds: int) -> None:
    """Print how often mates of a step meet again, and the padding of buckets."""
    for count, ranks, rows, balance in BALANCED:
        data, again, padding = Data(folder, count), [], []
        for seed in range(max(2, seeds // 50)):
            options = {"batch_size": rows, "world_size": ranks, "balance": balance}
            both = [data.steps(seed, epoch, **options) for epoch in (0, 1)]
            again.append(met_again(*both))
            batches = np.minimum(data.lengths, 8192)[both[0]]
            padding.append(1 - batches.mean() / batches.max(axis=1).mean())
        chance = (ranks * rows - 1) / (count - 1)
        padded = (
            f", padding {np.mean(padding):.3f}"
            if "tokens=1.0" in repr(pf.Balance.parse(balance))
            else ""
        )
        print(
            f"mates, {count} x {ranks} ranks x {rows}, {balance}: "
            f"{np.mean(again):.4f}{padded}; random {chance:.4f}"
        )


def cheapest(folder: Path, seeds: int) -> None:
    """Print how often a rank is the cheapest, in sigmas from its share."""
    for count, ranks, rows in [
        (16_000, 8, 8),
        (4000, 16, 4),
        (16_000, 8, 1),
        (8000, 4, 4),
        (16_000, 32, 2),
        (4000, 2, 8),
    ]:
        data, counts = Data(folder, count), np.zeros(ranks)
        for seed in range(max(4, seeds // 25)):
            found = data.steps(
                seed, 0, batch_size=rows, world_size=ranks, balance=EXACT
            )
            costs = SequenceCosts(data.run.index).squares(found.ravel())
            sums = costs.reshape(found.shape).sum(axis=1)
            lots = RNG.random(sums.shape)  # Of ranks that cost the same any counts.
            first = np.lexsort((lots, sums), axis=1)[:, 0]
            counts += np.bincount(first, minlength=ranks)
        sigma = np.sqrt(counts.sum() / ranks * (1 - 1 / ranks))
        off = np.abs(counts - counts.mean()).max() / sigma
        normal = np.abs(RNG.standard_normal((4000, ranks))).max(axis=1).mean()
        print(
            f"cheapest rank, {count} x {ranks} x {rows}: the worst is {off:.1f} "
            f"sigma off; of random ones {normal:.1f}"
        )


def z_of(counts: Array, expected: Array) -> float:
    """Standard deviations of a chi-square from its mean, rows and columns given."""
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    squares = ((counts - expected) ** 2 / expected).sum()
    return float((squares - freedom) / np.sqrt(2 * freedom))


def of_first_step(firsts: Array, count: int) -> str:
    """Membership of the first step: z of a tenth of the seeds each, and all chances."""
    found = []
    for some in np.array_split(firsts, 10):
        share = some.size / len(some) / count
        members = np.bincount(some.ravel(), minlength=count)
        both = np.stack([members, len(some) - members], axis=1)
        found.append(z_of(both, len(some) * np.array([share, 1 - share])))
    times = np.bincount(firsts.ravel(), minlength=count) / firsts.size * count
    return (
        f"z {np.mean(found):+.1f} ({min(found):.1f} to {max(found):.1f}), "
        f"{times.min():.2f}x to {times.max():.2f}x"
    )


def members(folder: Path, seeds: int) -> None:
    """Print how evenly ranks and first steps take sequences, over 3 times the seeds."""
    seeds *= 3
    data, ranks = Data(folder, 1024), 4
    for balance in (EXACT, "attention", "tokens", EXACT_TOKENS):
        options = {"world_size": ranks, "batch_size": 16, "balance": balance}
        of_rank, firsts = np.zeros((1024, ranks)), []
        for seed in range(seeds):
            found = data.steps(seed, 0, **options)
            of_rank[found, np.arange(ranks)] += 1
            firsts.append(found[0].ravel())
        z = z_of(of_rank, np.full((1, 1), seeds * found.size / 1024 / ranks))
        first = of_first_step(np.array(firsts), 1024)
        print(f"members, {balance}: ranks z {z:.1f}; first step {first}")
    cost, rng = np.argsort(data.lengths), np.random.default_rng(7)

    def bucket() -> Array:
        """One of the buckets of like cost, as whoever cuts them anew has it."""
        return rng.choice(np.roll(cost, rng.integers(64)).reshape(-1, 64))

    plain = [rng.permutation(1024)[:64] for _ in range(seeds)]
    buckets = [bucket() for _ in range(seeds)]
    for name, chance in (("sequences", plain), ("buckets of like cost", buckets)):
        first = of_first_step(np.array(chance), 1024)
        print(f"members, random {name}: first step {first}")


def correlation(one: Array, other: Array) -> float:
    """Rank correlation of where each is in two epochs."""
    return float(np.corrcoef(np.argsort(one.ravel()), np.argsort(other.ravel()))[0, 1])


def quantiles(values: list[float]) -> str:
    """Mean, and how far from 0 half, 95 % and all of them lie at most."""
    half, most, all_ = np.quantile(np.abs(values), [0.5, 0.95, 1])
    return f"{np.mean(values):+.3f} ({half:.3f}, {most:.3f}, {all_:.3f})"


def places(folder: Path, seeds: int) -> None:
    """Print correlations of places in two epochs: mean, then parts of all below."""
    for count, options in PLACED:
        data, found = Data(folder, count), []
        for seed in range(seeds):
            both = [data.steps(seed, epoch, **options) for epoch in (0, 1)]
            found.append(correlation(*both))
        size = both[0].size
        by_chance = [
            correlation(RNG.permutation(size), RNG.permutation(size))
            for _ in range(seeds)
        ]
        what = "batches" if "batch_tokens" in options else "packed sequences"
        print(
            f"places, {size} {what}, {seeds} seeds: {quantiles(found)}; "
            f"random {quantiles(by_chance)}"
        )
    packed = {**PACKED, "batch_size": 16}
    firsts = [data.steps(seed, 0, **packed)[0].ravel() for seed in range(seeds)]
    size = data.run.index.num_sequences
    plain = [RNG.permutation(size)[:16] for _ in range(seeds)]
    for name, given in (("packed", firsts), ("random", plain)):
        print(f"first step of {size} {name}: {of_first_step(np.array(given), size)}")


def mixtures(folder: Path, seeds: int) -> None:
    """Print distinct draws and shares of 1,000 documents of weight 0.3."""
    small, large = Data(folder, 1000), Data(folder, 20_000, 6.5)
    parts = {"small": (small.dataset, 0.3), "large": (large.dataset, 0.7)}
    for balance in ("attention", "tokens", EXACT, EXACT_TOKENS):
        shares, repeated = [], 0
        for seed in range(max(2, seeds // 40)):
            mixed = pf.mix(parts, unit="sequences", max_steps=100)
            found = small.steps(
                seed, 0, data=mixed, batch_size=4, world_size=8, balance=balance
            ).ravel()
            is_small = small.run.index.dataset_of(found) == small.run.names.index(
                "small"
            )
            shares.append(float(is_small.mean()))
            repeated += int(is_small.sum()) - len(np.unique(found[is_small]))
        print(
            f"mixture, {balance}: shares {min(shares):.4f} to {max(shares):.4f}, "
            f"{repeated} of {is_small.sum()} drawn twice"
        )


PARTS: dict[str, Callable[[Path, int], None]] = {
    "mates": mates,
    "cheapest": cheapest,
    "members": members,
    "places": places,
    "mixtures": mixtures,
}


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=[*PARTS], default=[*PARTS])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            PARTS[name](Path(folder), arguments.seeds)


if __name__ == "__main__":
    main()
