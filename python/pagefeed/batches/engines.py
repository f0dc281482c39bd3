"""One engine per process, started when it is first needed."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakSet

from pagefeed._core import Engine
from pagefeed.errors import CancelledError, ReloadWarning

__all__ = ["ProcessEngine", "ProcessLock", "ReloadWatch"]

MIN_RELOADS = 256
"""Fewer are not worth a word."""

RELOAD_SHARE = 0.1
"""Share of all reads from which on there is a warning."""


_running: WeakSet[Engine] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all engines while their threads can still call Python."""
    for engine in list(_running):
        engine.close()


class ProcessLock:
    """A reentrant lock; a fork does not take along the thread that may hold it."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    def __enter__(self) -> None:
        process = os.getpid()
        lock = self._locks.get(process)
        if lock is None:
            lock = self._locks.setdefault(process, threading.RLock())
        lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._locks[os.getpid()].release()


class ProcessEngine:
    """The engine of whichever process asks: threads do not survive a fork.

    Args:
        start: Starts one.
    """

    def __init__(self, start: Callable[[], Engine]) -> None:
        self._start = start
        self._started: tuple[int, Engine] | None = None
        self._is_closed = False
        self._lock = ProcessLock()

    def get(self) -> Engine:
        """Return this process's engine.

        Raises:
            CancelledError: If it was closed before it ever ran.
        """
        started = self._started
        if started is None or started[0] != os.getpid():
            with self._lock:
                return self._here()
        return started[1]

    def close(self) -> None:
        """Close this process's engine, and start no other."""
        self._is_closed = True
        if self._started is not None:
            self._started[1].close()

    @contextmanager
    def alone(self) -> Iterator[Engine]:
        """Have this process's engine to one thread, for a plan and its batches."""
        with self._lock:
            yield self._here()

    def _here(self) -> Engine:
        if self._started is None or self._started[0] != os.getpid():
            if self._is_closed:
                raise CancelledError("the loader was closed: make another one to go on")
            self._started = os.getpid(), self._start()
            _running.add(self._started[1])
        return self._started[1]


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
