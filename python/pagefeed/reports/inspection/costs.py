"""Cost of training on a dataset, for each way to shuffle it."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass

from pagefeed.core.dataset import Dataset
from pagefeed.core.loader import Loader
from pagefeed.core.order import FINAL_KINDS
from pagefeed.core.sequences import Cut
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.forecasts import forecast
from pagefeed.reports.soundness import Damage, sound_batches

MEASURED_SECONDS = 0.5
MEASURED_BATCHES = 256
BATCH_SIZE = 8


@dataclass(frozen=True, kw_only=True)
class ShuffleCost:
    """An epoch with one way to shuffle."""

    shuffle: str
    """The kind of shuffle; ``"none"`` is file order."""
    reads: int
    """Pages read, over all ranks."""
    bytes_read: int
    """Bytes read, estimated from the pages of a short run."""
    cpu_seconds: float
    """CPU time of reading, decoding and cutting, by that of a short run."""
    needed_bytes: int
    """Memory in which no page is read twice."""
    same_file_pairs: float
    """Pairs of sequences of one file in a batch, against batches at random."""


def shuffle_costs(
    dataset: Dataset,
    sequences: Cut,
    *,
    memory: int | str,
    damage: list[Damage],
) -> list[ShuffleCost]:
    """Return the cost of each shuffle: reads from the plan, bytes and CPU measured."""
    costs: list[ShuffleCost] = []
    seconds, size = 0.0, 0.0
    for shuffle in FINAL_KINDS:
        loader = Loader(
            dataset,
            sequences=sequences,
            batch_size=BATCH_SIZE,
            shuffle=shuffle,
            memory=memory,
            drop_last=False,
            rank=0,
            world_size=1,
            num_threads=1,
        )
        plan = forecast(loader)
        if not costs:
            seconds, size = _of_a_page(loader, damage)
        reads = round(plan.loads_per_page * plan.pages)
        costs.append(
            ShuffleCost(
                shuffle=shuffle or "none",
                reads=reads,
                bytes_read=round(reads * size),
                cpu_seconds=reads * seconds,
                needed_bytes=plan.needed_bytes,
                same_file_pairs=plan.same_file_pairs
                / max(1e-9, plan.same_file_pairs_random),
            )
        )
    return costs


def _of_a_page(loader: Loader, damage: list[Damage]) -> tuple[float, float]:
    """CPU seconds and bytes of reading a page, by a short run."""
    started, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(action="ignore"), suppress(InvalidArgumentError):
        # The contents of batches do not matter here; InvalidArgumentError: there is
        # more damage than a state can skip.
        for _ in sound_batches(loader, damage, most=MEASURED_BATCHES):
            if time.perf_counter() - started > MEASURED_SECONDS:
                break
    stats = loader.stats()
    loads = max(1.0, stats["pages_loaded"])
    return (time.process_time() - cpu) / loads, stats["bytes_read"] / loads
