"""The tests of an order, each against the values of a random order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from order_statistics.deliveries import NEVER, Seen
from order_statistics.findings import Finding, Float64Array, exceeds
from pagefeed.core._base import Int64Array

__all__ = ["Limits", "findings"]

PARTS = 8
"""Stretches of an epoch that are compared."""
CORRELATION, AGAIN, CELL, MATES, SOURCES, SHARE = 0.05, 1.05, 0.05, 1.2, 1.2, 0.003
DATASETS = 1.2
"""Ratio to a random order up to which a difference is allowed."""

Numbers = npt.NDArray[np.integer]
Limits: TypeAlias = Mapping[str, float | None]
"""Allowed multiple of chance by name of the test; None allows anything."""


def findings(seen: Seen, limits: Limits) -> Iterator[Finding]:
    """Run all tests.

    Args:
        seen: What was delivered.
        limits: Limits that replace the defaults, by the name of the test.
    """
    yield _once(seen)
    yield from _shares(seen)
    yield from _datasets(seen, limits)
    yield from _members(seen, limits)
    yield from _independent(seen)
    yield from _mates(seen, limits)
    yield from _neighbours(seen, limits)
    yield from _ties(seen)
    yield from _cheapest(seen)


def _finding(
    name: str,
    what: str,
    values: Float64Array,
    *,
    random: float,
    allowed: float | None,
) -> Finding:
    """Return a finding: whether the mean of values, one for each draw, is allowed."""
    p = 1.0 if allowed is None else exceeds(values[:, None] - allowed)[0]
    return Finding(
        test=name,
        what=what,
        measured=float(values.mean()),
        random=random,
        allowed=allowed,
        p=float(p),
    )


def _worst(
    name: str, what: str, values: Float64Array, *, allowed: float, floor: Any = 0.0
) -> Finding:
    """Return a finding about the cell whose mean differs most from 0, on either side.

    Args:
        name: Name of the test.
        what: What was measured, with a place for the row and the column of the cell.
        values: What was found: [draws, rows, columns].
        allowed: How far from 0 the mean of a cell may be.
        floor: Standard deviation of a cell at least.
    """
    columns = values.shape[2]
    values = values.reshape(len(values), -1)
    p = np.minimum(exceeds(values - allowed, floor), exceeds(-values - allowed, floor))
    worst = int(p.argmin())
    return Finding(
        test=name,
        what=what.format(*divmod(worst, columns)),
        measured=float(values[:, worst].mean()),
        random=0.0,
        allowed=allowed,
        p=min(1.0, 2 * len(p) * float(p[worst])),
    )


def _once(seen: Seen) -> Finding:
    """Count units that are repeated before all others of their dataset, or missing.

    Of a mixture no epoch is whole, and so none is missed.
    """
    dataset, wrong = seen.units.datasets, []
    sizes = np.bincount(dataset)
    for epoch in seen.epochs:
        order = np.argsort(dataset[epoch.unit], kind="stable")
        borders = np.cumsum(np.bincount(dataset[epoch.unit], minlength=len(sizes)))[:-1]
        both = zip(np.split(epoch.unit[order], borders), sizes.tolist(), strict=True)
        firsts = [mine[: max(0, size - seen.units.overlap)] for mine, size in both]
        wrong.append(sum(len(first) - len(np.unique(first)) for first in firsts))
        if seen.units.dataset is None:
            left = seen.units.num_units - len(np.unique(epoch.unit))
            wrong[-1] += max(0, left - int(np.bincount(epoch.step).max()) + 1)
    return _finding(
        "once",
        "units come again before their dataset is through, or never",
        np.array(wrong, dtype=np.float64),
        random=0.0,
        allowed=0.0,
    )


def _shares(seen: Seen) -> Iterator[Finding]:
    """Shares of a mixture's datasets at prefixes of the run."""
    if (shares := seen.units.shares) is None:
        return
    of_epochs = []
    for epoch in seen.epochs:
        parts, width = _parts(seen, epoch.step), min(PARTS, seen.num_steps)
        counts = _table(seen.units.datasets[epoch.unit], parts, len(shares), width)
        before = np.cumsum(counts, axis=1)
        units = np.maximum(1, before.sum(axis=0))
        off = before - shares[:, None] * units
        # Up to a unit is the rounding of each count.
        of_epochs.append(np.sign(off) * np.maximum(np.abs(off) - 1, 0) / units)
    what = "more than its share is of dataset {} up to the end of part {} of the run"
    yield _worst("shares", what, np.array(of_epochs), allowed=SHARE)


def _datasets(seen: Seen, limits: Limits) -> Iterator[Finding]:
    """Test the shares of a mixture's datasets on single ranks, within each run.

    A deviation that differs between seeds does not show in a mean over them.
    """
    if seen.units.dataset is None or seen.num_ranks == 1:
        return
    values, num_datasets = [], int(seen.units.dataset.max()) + 1
    for epoch in seen.epochs:
        dataset = seen.units.dataset[epoch.unit]
        table = _table(dataset, epoch.rank, num_datasets, seen.num_ranks)
        counts = table.astype(np.float64)
        counts = counts[counts.any(axis=1)]
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        squares = ((counts - expected) ** 2 / expected).sum()
        freedom = (len(counts) - 1) * (seen.num_ranks - 1)
        values.append(squares / max(1, freedom))
    yield _finding(
        "datasets by rank",
        "times the variance by chance have the shares of datasets on single ranks",
        np.array(values),
        random=1.0,
        allowed=limits.get("datasets by rank", DATASETS),
    )


def _parts(seen: Seen, step: Numbers) -> Int64Array:
    """Return the stretch of the epoch of each step."""
    return step.astype(np.int64) * min(PARTS, seen.num_steps) // seen.num_steps


def _table(rows: Numbers, columns: Numbers, height: int, width: int) -> Int64Array:
    """Count pairs of numbers: int64 [height, width]."""
    counts = np.bincount(rows.astype(np.int64) * width + columns, None, height * width)
    return counts.reshape(height, width)


def _members(seen: Seen, limits: Limits) -> Iterator[Finding]:
    """Every unit's chance to be in some steps, and on some rank.

    Half of the seeds say where a unit was, and the others whether it comes there again.
    """
    step, rank = seen.step[:, 0], seen.rank[:, 0]
    last = np.where(step == NEVER, 0, np.where(step == seen.num_steps - 1, 0, NEVER))
    grids = {
        "first step": np.where(step == 0, 0, NEVER),
        "last step": last,
        "parts": np.where(step == NEVER, NEVER, _parts(seen, step)),
        "ranks": rank,
    }
    for name, bins in grids.items():
        if len(np.unique(bins)) == 1:
            continue
        values = _again(bins, seen.units.datasets)
        if len(values):
            what = (
                "times as often as by chance a unit is where it was under other seeds"
            )
            allowed = limits.get(name, AGAIN)
            yield _finding(name, what, values, random=1.0, allowed=allowed)


def _again(bins: Numbers, dataset: Int64Array) -> Float64Array:
    """Return how often units are in the same bin again, over the rate by chance."""
    half, units = len(bins) // 2, np.arange(bins.shape[1])
    before = np.zeros((bins.max() + 1, len(units)), dtype=np.float32)
    for bin_of in bins[:half]:
        there = np.flatnonzero(bin_of >= 0)
        before[bin_of[there], there] += 1
    sizes = np.bincount(dataset)
    chance = np.stack([np.bincount(dataset, counts) / sizes for counts in before])
    values = []
    for bin_of in bins[half:]:
        there = np.flatnonzero(bin_of >= 0)
        there = there[chance[bin_of[there], dataset[there]] > 0]
        if len(there):
            ratio = before[bin_of[there], there] / chance[bin_of[there], dataset[there]]
            values.append(ratio.mean())
    return np.array(values, dtype=np.float64)


def _independent(seen: Seen) -> Iterator[Finding]:
    """Test that positions in two epochs, or under two seeds, are independent."""
    dataset, step = seen.units.datasets, seen.step
    pairs = {
        "epochs": [(epochs[0], epochs[1]) for epochs in step],
        "seeds": [(a[0], b[0]) for a, b in pairwise(step)][::2],
    }
    for name, both in pairs.items():
        values = np.array([[[_correlation(a, b, dataset)]] for a, b in both])
        floor = 1 / np.sqrt(seen.units.num_units)
        what = f"correlation of a unit's steps in two {name}"
        yield _worst(name, what, values, allowed=CORRELATION, floor=floor)


def _correlation(a: Numbers, b: Numbers, dataset: Int64Array) -> float:
    there = (a >= 0) & (b >= 0)
    dataset, sizes = dataset[there], np.maximum(np.bincount(dataset[there]), 1)
    x, y = (
        steps[there] - (np.bincount(dataset, steps[there]) / sizes)[dataset]
        for steps in (a, b)
    )
    return float((x * y).sum() / max(np.sqrt((x * x).sum() * (y * y).sum()), 1e-30))


def _mates(seen: Seen, limits: Limits) -> Iterator[Finding]:
    """Units that share a batch and share one again."""
    whole = seen.step
    own = np.where(whole == NEVER, NEVER, whole * seen.num_ranks + seen.rank)
    pairs = {
        "mates": [(epochs[0], epochs[1]) for epochs in whole],
        "mates of a rank": [(epochs[0], epochs[1]) for epochs in own],
        "mates under two seeds": [(a[0], b[0]) for a, b in pairwise(whole)][::2],
    }
    if seen.num_ranks == 1:
        del pairs["mates of a rank"]
    for name, both in pairs.items():
        meetings = np.array([_met_again(seen, a, b) for a, b in both])
        if not meetings[:, 1].any():
            continue
        random = float(meetings[:, 1].mean())
        times = limits.get(name, limits.get("mates", MATES))
        allowed = None if times is None else random * times
        what = "of the pairs that share a batch share one again"
        yield _finding(name, what, meetings[:, 0], random=random, allowed=allowed)


def _met_again(seen: Seen, a: Numbers, b: Numbers) -> tuple[float, float]:
    """Return the share of pairs that meet in two epochs, measured and by chance.

    Pairs of one page are counted apart: these are read together in every epoch.
    """
    there = np.flatnonzero((a >= 0) & (b >= 0))
    dataset = seen.units.datasets[there]
    page = np.arange(len(there)) if seen.units.page is None else seen.units.page[there]
    a, b = a[there], b[there]

    def pairs(*keys: Numbers) -> Float64Array:
        """Count pairs of each dataset with equal keys, of one page and of two."""
        every, paged = _pairs(dataset, *keys), _pairs(dataset, *keys, page)
        return np.stack([paged, every - paged])

    first = pairs(a)
    by_chance = first * pairs(b) / np.maximum(pairs(), 1)
    met = max(1.0, first.sum())
    return pairs(a, b).sum() / met, by_chance.sum() / met


def _key(*numbers: Numbers) -> Int64Array:
    """One number for several."""
    key = numbers[0].astype(np.int64)
    for more in numbers[1:]:
        key = key * (int(more.max(initial=0)) + 1) + more
    return key


def _pairs(dataset: Int64Array, *keys: Numbers) -> Float64Array:
    """Return the pairs of units with equal keys, by dataset: float64 [datasets]."""
    _, first, counts = np.unique(
        _key(*keys, dataset) if keys else dataset, return_index=True, return_counts=True
    )
    num_pairs = np.bincount(dataset[first], counts * (counts - 1.0) / 2)
    return num_pairs.astype(np.float64)


def _neighbours(seen: Seen, limits: Limits) -> Iterator[Finding]:
    """Units of one page, and of one file, in a batch of a rank."""
    page, source = seen.units.page, seen.units.source
    groups = {"pages": page} if page is not None else {}
    groups |= {"sources": source} if source is not None else {}
    for name, group in groups.items():
        shares = []
        for epoch in seen.epochs:
            batch = _key(epoch.step, epoch.rank)
            mine, whole = group[epoch.unit], np.zeros_like(batch)
            same, possible = _pairs(whole, batch, mine), _pairs(whole, batch)
            by_chance = _pairs(whole, mine) / np.maximum(_pairs(whole), 1)
            if name == "sources" and page is not None:
                read = page[epoch.unit]
                same = same - _pairs(whole, batch, mine, read)
                by_chance -= _pairs(whole, mine, read) / np.maximum(_pairs(whole), 1)
            shares.append((same / np.maximum(possible, 1), by_chance))
        values = np.array(shares)[..., 0]
        random = float(values[:, 1].mean())
        if not random:
            continue
        times = limits.get(name, SOURCES if name == "sources" else None)
        allowed = None if times is None else random * times
        what = f"of the pairs of a rank's batch are of one of the {name}"
        yield _finding(name, what, values[:, 0], random=random, allowed=allowed)


def _ties(seen: Seen) -> Iterator[Finding]:
    """Test that ranks and stretches of an epoch get equal shares of sources."""
    for name, group in seen.units.groups.items():
        num_groups = int(group.max()) + 1
        for where, width in (("rank", seen.num_ranks), ("part", PARTS)):
            if width == 1 or seen.num_steps == 1:
                continue
            tables = []
            for epoch in seen.epochs:
                bins = epoch.rank if where == "rank" else _parts(seen, epoch.step)
                tables.append(_table(group[epoch.unit], bins, num_groups, width))
            counts = np.array(tables, dtype=np.float64)
            expected = counts.sum(axis=2, keepdims=True) * counts.sum(
                axis=1, keepdims=True
            )
            expected /= counts.sum(axis=(1, 2), keepdims=True)
            mean = np.maximum(expected.mean(axis=0), 1e-9)
            values = (counts - expected) / mean
            # All bins vary alike, also where a bucket of like units came to none.
            varied = values.var(axis=0, ddof=1).mean(axis=1, keepdims=True)
            floor = np.sqrt(np.maximum(varied, 1 / mean)).ravel()
            what = f"times more than its share of {name} {{}} has {where} {{}}"
            test = f"{name} by {where}"
            yield _worst(test, what, values, allowed=CELL, floor=floor)


def _cheapest(seen: Seen) -> Iterator[Finding]:
    """Test that no rank is the cheapest or dearest of its step too often."""
    ranks, steps = seen.num_ranks, seen.num_steps
    if ranks == 1:
        return
    for name, cost in seen.units.costs.items():
        shares = []
        for epoch in seen.epochs:
            batch = epoch.step.astype(np.int64) * ranks + epoch.rank
            sums = np.bincount(batch, cost[epoch.unit], steps * ranks)
            given = np.bincount(batch, None, steps * ranks).reshape(steps, ranks)
            sums = sums.reshape(steps, ranks)[(given == given[0]).all(axis=1)]
            both = (sums == best[:, None] for best in (sums.min(1), sums.max(1)))
            # Ranks that cost the same share the place.
            shares.append([(e / e.sum(1, keepdims=True)).mean(0) for e in both])
        values = np.array(shares) - 1 / ranks
        floor = np.sqrt((1 - 1 / ranks) / ranks / steps)
        what = (
            "more of its share of steps (0: is cheapest, 1: is dearest: {}) has rank {}"
        )
        test = f"cheapest rank by {name}"
        yield _worst(test, what, values, allowed=0.02, floor=floor)
