"""One engine per process, started when it is first needed."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pagefeed._core import Engine
from pagefeed.errors import ReloadWarning

__all__ = ["ProcessEngine", "ReloadWatch"]

MIN_RELOADS = 256
"""Fewer are not worth a word."""

RELOAD_SHARE = 0.1
"""Share of all reads from which on there is a warning."""


class ProcessEngine:
    """The engine of whichever process asks: threads do not survive a fork.

    Args:
        start: Starts one.
    """

    def __init__(self, start: Callable[[], Engine]) -> None:
        self._start = start
        self._started: tuple[int, Engine, threading.Lock] | None = None

    def get(self) -> Engine:
        """Return this process's engine."""
        return self._here()[1]

    @contextmanager
    def alone(self) -> Iterator[Engine]:
        """Have this process's engine to one thread, for a plan and its batches."""
        _, engine, lock = self._here()
        with lock:
            yield engine

    def _here(self) -> tuple[int, Engine, threading.Lock]:
        # The lock, too: a fork does not take along the thread that may hold it.
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start(), threading.Lock()
        return self._started


class ReloadWatch:
    """Warns, once, if memory is so short that many pages are read again.

    Args:
        memory: Bytes the engine may hold.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._has_warned = False

    def look(self, stats: Mapping[str, float], stacklevel: int) -> None:
        """Look at the engine's counters."""
        again, loads = stats["pages_reloaded"], stats["pages_loaded"]
        if self._has_warned or again < max(MIN_RELOADS, RELOAD_SHARE * loads):
            return
        self._has_warned = True
        warnings.warn(
            f"{again:.0f} of {loads:.0f} reads of pages so far were of pages given up "
            f"for lack of memory: memory={self._memory} bytes is too little for this "
            "order; give more, or shuffle with a smaller window (`pagefeed plan` says "
            "how much is needed, and how often pages are read)",
            ReloadWarning,
            stacklevel=stacklevel + 1,
        )
