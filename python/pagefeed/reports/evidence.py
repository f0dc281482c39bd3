"""Measurements of a loader while batches are taken."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.core.order import Draw

SECONDS_BETWEEN_SAMPLES = 0.005
TASKS = "/proc/self/task"
READS = ("pages_loaded", "pages_reloaded", "bytes_read")
COUNTS = ("batches", "tokens", "padding_tokens", "wait_seconds", *READS)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Measurements while batches were taken, in seconds and counts."""

    steps: int
    """Batches taken."""
    tokens: int
    """Tokens in these batches, without padding."""
    seconds: float
    """Time from the begin to the end, the consumer's own time included."""
    wait_seconds: float
    """Time in which the consumer waited for a batch."""
    transform_seconds: float
    """Time in the loader's transform."""
    busy_threads: float | None
    """Mean number of the engine's threads that ran or waited for a processor; None
    where the system does not tell (only Linux does)."""
    num_threads: int
    """Threads of the engine."""
    pages_loaded: int
    """Pages read."""
    pages_reloaded: int
    """Pages read again for lack of memory, counted in ``pages_loaded`` too."""
    bytes_read: int
    """Bytes read."""
    start_seconds: float = 0.0
    """Seconds to the first batches of iterations that began meanwhile."""

    @property
    def step_seconds(self) -> float:
        """Mean time of a step."""
        return self.seconds / max(1, self.steps)

    @property
    def tokens_per_second(self) -> float:
        """Tokens taken in a second."""
        return self.tokens / max(1e-9, self.seconds)


@contextmanager
def recording(loader: Loader, records: list[Evidence]) -> Iterator[None]:
    """Measure a loader while the block runs, and add the evidence at its end."""
    session = loader.view()
    _ = session.run  # Texts without counts are refused.
    inner = session.transform
    transform_seconds, busy, stop = 0.0, list[int](), threading.Event()

    def timed(batch: Batch, draw: Draw) -> Any:
        nonlocal transform_seconds
        begin = time.perf_counter()
        try:
            return inner(batch, draw)
        finally:
            transform_seconds += time.perf_counter() - begin

    def sample() -> None:
        while not stop.wait(SECONDS_BETWEEN_SAMPLES):
            if states := _states():
                busy.append(states.count("R"))

    sampler = threading.Thread(target=sample, daemon=True, name="sampler")
    before, begin = loader.stats(), time.perf_counter()
    try:
        if inner is not None:
            session.transform = timed
        sampler.start()
        yield
        wait_for_device()
    finally:
        seconds, after = time.perf_counter() - begin, loader.stats()
        stop.set()
        session.transform = inner
        grown = {name: after[name] - before.get(name, 0) for name in COUNTS}
        records.append(
            Evidence(
                steps=int(grown["batches"]),
                tokens=int(grown["tokens"] - grown["padding_tokens"]),
                seconds=seconds,
                wait_seconds=grown["wait_seconds"],
                transform_seconds=transform_seconds,
                busy_threads=sum(busy) / len(busy) if busy else None,
                num_threads=loader.num_threads,
                **{name: int(grown[name]) for name in READS},
            )
        )


def _states() -> list[str]:
    """Return the state of each thread of the engine, as a letter.

    A thread that runs or waits for a processor ("R") is busy; one that waits for
    storage or for work is not. Its processor time would say less, since other programs
    take some.
    """
    states = []
    with suppress(OSError):
        for task in os.listdir(TASKS):
            with suppress(OSError), open(f"{TASKS}/{task}/stat") as stat:
                # The name is in parentheses, and may contain parentheses.
                before, _, rest = stat.read().rpartition(")")
                if before.partition("(")[2].startswith("pagefeed"):
                    states.append(rest.split()[0])
    return states


def wait_for_device() -> None:
    """Wait for the CUDA work that torch has queued: steps return before it is done."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
