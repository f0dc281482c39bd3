"""Compute the metrics of a run from counters.

Names consist of letters, slashes and underscores, which Weights & Biases, TensorBoard
and MLflow all accept. Fractions lie in 0..1, sizes are in bytes, times in seconds. A
number whose name ends in ``_total`` only rises.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from threading import Lock
from typing import Any

import numpy as np

from pagefeed.contract import AnyView, RunView
from pagefeed.core._base import check_flag, check_number
from pagefeed.core.batches import Waits
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import gather_from
from pagefeed.metrics.by_file import reads_by_file, slowest_files
from pagefeed.metrics.gpu import gpu_numbers

OF_ALL_RANKS: dict[str, Callable[[Iterable[float]], float]] = {
    "data/tokens_per_second": sum,
    "data/wait_fraction": max,
    "data/wait_seconds_total": max,
    "data/memory_bytes": max,
    "data/prefetch_ready": min,
    "data/padding_fraction": max,
    "data/pages_loaded_total": sum,
    "data/pages_reloaded_total": sum,
    "data/wait_p50_seconds": max,
    "data/wait_p99_seconds": max,
    "data/wait_longest_seconds": max,
    "data/run_tokens_per_second": sum,
    "data/mfu": fmean,
    "gpu/utilisation_fraction": min,
    "gpu/memory_bytes": max,
    "gpu/memory_fraction": max,
}
"""Reductions over ranks: the slowest rank sets the step time."""
MOST_RANKS = 64
"""Ranks whose costs are compared, at most."""
COUNTED = ("tokens", "padding_tokens", "wait_seconds", "batches", "batches_ready")
"""Counters whose growth since the last reading makes rates."""


class RunNumbers(dict[str, float]):
    """The metrics of a run, with the waits of its rank for a histogram.

    Args:
        numbers: The metrics by name.
        waits: The waits of the loader.
    """

    def __init__(self, numbers: Mapping[str, float], waits: Waits) -> None:
        super().__init__(numbers)
        self.waits = waits


class Meter:
    """Computes rates from counters, over the time since the last reading.

    Args:
        begin: Time on the clock when counting began.
        clock: Function that returns seconds.

    Example:
        >>> seconds = iter([0.0, 2.0])
        >>> meter = Meter(next(seconds), lambda: next(seconds))
        >>> now = {"tokens": 600, "padding_tokens": 0, "wait_seconds": 0.5,
        ...        "batches": 3, "batches_ready": 2, "peak_bytes": 10,
        ...        "pages_loaded": 1, "pages_reloaded": 0}
        >>> meter.read(now)["data/tokens_per_second"]
        300.0
    """

    def __init__(
        self, begin: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = Lock()
        self._last: tuple[float, Mapping[str, float]] = begin, {}

    def of(
        self,
        view: AnyView,
        group: Any,
        *,
        flops_per_token: float | None = None,
        peak_flops: float | None = None,
        gpu: bool = False,
        by_file: bool = False,
    ) -> RunNumbers:
        """Return the numbers of a loader's run, or of a group of ranks together."""
        flops = check_flops(flops_per_token, peak_flops)
        stats = view.stats()
        numbers = self.read(stats) | dict(view.progress())
        waits = view.waits.look().items()
        numbers |= {f"data/wait_{name}_seconds": value for name, value in waits}
        if flops is not None:
            begun = view.waits.begun
            seconds = math.inf if begun is None else time.monotonic() - begun
            rate = (stats["tokens"] - stats["padding_tokens"]) / max(seconds, 1e-9)
            numbers["data/run_tokens_per_second"] = rate
            # Peers that share a rank's sequences each do a part of the work.
            numbers["data/mfu"] = rate * flops / view.share[1]
        if check_flag(gpu, "gpu"):
            numbers |= gpu_numbers()
        if check_flag(by_file, "by_file"):
            numbers |= _by_file(slowest_files())
        if isinstance(view, RunView):
            numbers |= slowest_rank(view)
        if group is not None:
            numbers = over_ranks(gather_from(group)(numbers))
        return RunNumbers(numbers, view.waits)

    def reads_by_file(self) -> dict[str, dict[str, float]]:
        """Return the reads of each file of this process."""
        return reads_by_file()

    def read(self, stats: Mapping[str, float]) -> dict[str, float]:
        """Return the numbers of this rank.

        Args:
            stats: Counters, as ``Loader.stats()`` names them.
        """
        with self._lock:
            then, before = self._last
            self._last = now, stats = self._clock(), dict(stats)
        seconds = max(now - then, 1e-9)
        grown = {name: stats[name] - before.get(name, 0) for name in COUNTED}
        batches = grown["batches"]
        numbers = {
            "data/batches_total": stats["batches"],
            "data/tokens_per_second": (grown["tokens"] - grown["padding_tokens"])
            / seconds,
            "data/wait_seconds_total": stats["wait_seconds"],
            "data/wait_fraction": min(1.0, grown["wait_seconds"] / seconds),
            "data/prefetch_ready": 1
            - _fraction(batches - grown["batches_ready"], batches),
            "data/padding_fraction": _fraction(
                stats["padding_tokens"], stats["tokens"]
            ),
            "data/memory_bytes": stats["peak_bytes"],
            "data/pages_loaded_total": stats["pages_loaded"],
            "data/pages_reloaded_total": stats["pages_reloaded"],
        }
        return numbers | _mixture(stats)


def check_flops(
    flops_per_token: float | None, peak_flops: float | None
) -> float | None:
    """Return the share of a second's operations that a token takes, if it is known.

    Raises:
        InvalidArgumentError: If a number is not positive, or one is given alone.
    """
    if flops_per_token is None and peak_flops is None:
        return None
    if flops_per_token is None or peak_flops is None:
        raise InvalidArgumentError(
            f"flops_per_token={flops_per_token!r:.40} and peak_flops={peak_flops!r:.40}"
            " go together: give both"
        )
    each = check_number(flops_per_token, "flops_per_token", above=0)
    return each / check_number(peak_flops, "peak_flops", above=0)


def _mixture(stats: Mapping[str, float]) -> dict[str, float]:
    """Return share and tokens of each dataset in what was delivered."""
    kinds = {name.rpartition("/")[2] for name in stats if "/" in name}
    unit = "tokens" if "tokens" in kinds else "sequences"
    amounts = {
        name.removesuffix(f"/{unit}"): amount
        for name, amount in stats.items()
        if name.endswith(f"/{unit}")
    }
    whole = sum(amounts.values())
    numbers = {}
    for name, amount in amounts.items():
        safe = _safe_name(name)
        numbers[f"data/mix/{safe}_share"] = _fraction(amount, whole)
        if unit == "tokens":
            numbers[f"data/mix/{safe}_tokens_total"] = amount
    return numbers


def _by_file(files: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the reads of files as metrics; counts have names that end in total."""
    return {
        f"data/file/{_safe_name(file)}_{name}{'_total' * ('_' not in name)}": number
        for file, reads in files.items()
        for name, number in reads.items()
    }


def _safe_name(name: str) -> str:
    """Return the name of a dataset for trackers; a changed one ends in a digest."""
    safe = re.sub(r"[^0-9A-Za-z_.\-/]", "_", name)
    if safe == name:
        return name
    made_of = name.encode("utf-8", "replace")
    return f"{safe}_{hashlib.blake2b(made_of, digest_size=4).hexdigest()}"


def _fraction(amount: float, whole: float) -> float:
    return amount / whole if whole else 0.0


def over_ranks(all_numbers: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of a run from those of its ranks.

    Example:
        >>> over_ranks([{"data/wait_fraction": 0.1}, {"data/wait_fraction": 0.4}])
        {'data/wait_fraction': 0.4}
    """
    first = dict(all_numbers[0])
    for name, reduce in OF_ALL_RANKS.items():
        if name in first:
            first[name] = reduce(numbers[name] for numbers in all_numbers)
    return first


def slowest_rank(view: RunView) -> dict[str, float]:
    """Return the cost of the slowest rank in the last step, divided by the mean cost.

    With very many ranks, it compares evenly spaced ones.
    """
    settings = view.settings
    if settings.balance is None:
        return {}
    running = view.position.running
    if running is None or not running.cursor.num_taken:
        return {}
    cursor = running.cursor
    apart = -(-settings.world_size // MOST_RANKS)
    ranks = cursor.last_sequences(range(0, settings.world_size, apart))
    costs = [cursor.run.costs(sequences[sequences >= 0]).sum() for sequences in ranks]
    return {"data/slowest_rank": float(max(costs) / max(np.mean(costs), 1e-300))}
