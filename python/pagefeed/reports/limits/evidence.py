"""What is measured of a loader while batches are taken."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pagefeed.batches import Batch
from pagefeed.loader import Loader, session_of
from pagefeed.reports.limits.threads import ThreadSampler

__all__ = ["Evidence", "Recording", "recording", "wait_for_device"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Some steps of a loader, in seconds and counts."""

    steps: int
    """Batches taken."""
    tokens: int
    """Tokens in them, without padding."""
    seconds: float
    """Time from begin to end, the consumer's own included."""
    wait_seconds: float
    """Of it, time in which the consumer waited for a batch."""
    transform_seconds: float
    """Of it, time in the loader's transform."""
    busy_threads: float | None
    """Mean number of the engine's threads that ran or waited for a processor."""
    num_threads: int
    """How many there are."""
    pages_loaded: int
    """Pages read."""
    pages_reloaded: int
    """Of these, those read again for lack of memory."""
    bytes_read: int
    """Bytes of these pages."""
    start_seconds: float = 0.0
    """Time to the first batches of iterations that began meanwhile, as far as seen."""

    @property
    def step_seconds(self) -> float:
        """Time of a step."""
        return self.seconds / max(1, self.steps)

    @property
    def tokens_per_second(self) -> float:
        """Rate."""
        return self.tokens / max(1e-9, self.seconds)

    @property
    def reload_share(self) -> float:
        """Share of the reads that were for lack of memory."""
        return self.pages_reloaded / max(1, self.pages_loaded)


class Recording:
    """What :func:`recording` gives; :attr:`evidence` when it is over."""

    evidence: Evidence


@contextmanager
def recording(loader: Loader) -> Iterator[Recording]:
    """Measure what happens to a loader in a block."""
    session, timed = session_of(loader), _Timed(loader.transform)
    made = Recording()
    before = loader.stats()
    if loader.transform is not None:
        session.settings = replace(session.settings, transform=timed)
    begin = time.perf_counter()
    try:
        with ThreadSampler() as sampler:
            yield made
        wait_for_device()
    finally:
        seconds = time.perf_counter() - begin
        session.settings = replace(session.settings, transform=timed.inner)
        after = loader.stats()
        count = {key: int(after[key] - before[key]) for key in COUNTS}
        made.evidence = Evidence(
            steps=count["batches"],
            tokens=count["tokens"] - count["padding_tokens"],
            seconds=seconds,
            wait_seconds=after["wait_seconds"] - before["wait_seconds"],
            transform_seconds=timed.seconds,
            busy_threads=sampler.mean_busy,
            num_threads=loader.num_threads,
            pages_loaded=count["pages_loaded"],
            pages_reloaded=count["pages_reloaded"],
            bytes_read=count["bytes_read"],
        )


def wait_for_device() -> None:
    """Wait for what torch has given a CUDA device to do: steps return before that."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


COUNTS = (
    *("batches", "tokens", "padding_tokens"),
    *("pages_loaded", "pages_reloaded", "bytes_read"),
)


class _Timed:
    """A transform that counts its seconds."""

    def __init__(self, inner: Callable[[Batch], Any] | None) -> None:
        self.inner = inner
        self.seconds = 0.0

    def __call__(self, batch: Batch) -> Any:  # noqa: ANN401 - what the inner returns
        begin = time.perf_counter()
        try:
            return batch if self.inner is None else self.inner(batch)
        finally:
            self.seconds += time.perf_counter() - begin
