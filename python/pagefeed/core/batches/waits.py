"""Durations of a consumer's waits, and the start of the current wait."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Self

import numpy as np

from pagefeed.core.batches.engines import Locked

EDGES = np.array([*np.outer(10.0 ** np.arange(-4, 2), [1, 2, 5]).ravel(), 100.0])
"""Upper bounds of the histogram's classes, in seconds; a further class has no bound."""
SORTED_AT_ONCE = 1 << 12
"""Waits that are noted before they are sorted into the histogram."""
MOST_KEPT = 1 << 15
"""Latest waits of which percentiles are made."""


class Waits(Locked):
    """Waits of one consumer, in seconds from asking for a batch to having it.

    The iterator of a loader notes ``since`` and ``new`` itself, since each call costs
    every batch. Others wait in a ``with`` block.

    Example:
        >>> waits = Waits()
        >>> with waits:
        ...     pass
        >>> waits.look()["longest"] < 1, int(waits.counts.sum())
        (True, 1)
    """

    begun: float | None = None
    """When the first batch was asked for, on the clock ``time.monotonic``."""
    since: float | None = None
    """When the batch that does not come was asked for; None if none is awaited."""
    thread: int | None = None
    """Thread that waits in a ``with`` block."""
    room = SORTED_AT_ONCE
    """Waits that may still be noted before the next call of :meth:`sort`."""

    def __init__(self) -> None:
        super().__init__()
        self.new = deque[float]()
        """Waits that are not sorted yet."""
        self.counts = np.zeros(len(EDGES) + 1, dtype=np.int64)
        """Waits so far in each class of the histogram: int64."""
        self.seconds = 0.0
        """Sum of all waits."""
        self._latest = np.zeros(0)
        self._longest = 0.0

    def begin(self) -> None:
        """Note that the first batch may be asked for."""
        self.begun = self.begun or time.monotonic()

    def sort(self) -> None:
        """Sort the new waits into the histogram."""
        with self.lock:
            self.room = SORTED_AT_ONCE
            # Pop one by one: another thread may append waits meanwhile.
            new = np.array([self.new.popleft() for _ in range(len(self.new))])
            classes = np.searchsorted(EDGES, new)
            self.counts += np.bincount(classes, minlength=len(self.counts))
            self.seconds += float(new.sum())
            self._latest = np.concatenate([self._latest, new])[-MOST_KEPT:]
            self._longest = max(self._longest, float(new.max(initial=0)))

    def look(self) -> dict[str, float]:
        """Return ``p50``, ``p99`` and ``longest`` of the waits since the last look.

        A wait that lasts counts for the longest. Without any wait all are 0.
        """
        with self.lock:
            self.sort()
            latest, longest = self._latest, self._longest
            self._latest, self._longest = np.zeros(0), 0.0
        since = self.since
        if since is not None:
            longest = max(longest, time.monotonic() - since)
        p50, p99 = np.quantile(latest, [0.5, 0.99]) if len(latest) else (0.0, 0.0)
        return {"p50": float(p50), "p99": float(p99), "longest": longest}

    def __enter__(self) -> Self:
        """Begin a wait."""
        self.begin()
        self.thread, self.since = threading.get_ident(), time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it; a wait that an error ended is not counted."""
        since, self.since, self.thread = self.since, None, None
        if kind is None and since is not None:
            self.new.append(time.monotonic() - since)
            self.room -= 1
            if self.room <= 0:
                self.sort()
