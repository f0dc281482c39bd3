"""One engine per process, started at its first use."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

from pagefeed.errors import CancelledError

__all__ = ["ProcessEngine", "ProcessLock"]


class Closing(Protocol):
    """What has threads, or other processes."""

    def close(self) -> None:
        """End them."""


EngineT = TypeVar("EngineT", bound=Closing)
_running: WeakSet[Closing] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all engines while their threads can still call Python."""
    for engine in list(_running):
        engine.close()


class ProcessLock:
    """A reentrant lock of each process: a fork leaves the holding thread behind."""

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


class ProcessEngine(Generic[EngineT]):
    """The engine of the calling process: threads do not survive a fork.

    Args:
        start: Starts an engine.
    """

    def __init__(self, start: Callable[[], EngineT]) -> None:
        self._start = start
        self._started: tuple[int, EngineT] | None = None
        self._is_closed = False
        self._lock = ProcessLock()

    def get(self) -> EngineT:
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
        if self._started is not None and self._started[0] == os.getpid():
            self._started[1].close()

    @contextmanager
    def alone(self) -> Iterator[EngineT]:
        """Give one thread this process's engine, for a plan and its batches."""
        with self._lock:
            yield self._here()

    def _here(self) -> EngineT:
        if self._started is None or self._started[0] != os.getpid():
            if self._is_closed:
                raise CancelledError("the loader was closed: make another one to go on")
            self._started = os.getpid(), self._start()
            _running.add(self._started[1])
        return self._started[1]
