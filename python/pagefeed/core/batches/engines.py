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


class Closing(Protocol):
    """Objects with threads or processes that must be stopped."""

    def close(self) -> None:
        """End them."""


EngineT = TypeVar("EngineT", bound=Closing)
_running: WeakSet[Closing] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all engines while their threads can still call Python."""
    for engine in list(_running):
        engine.close()


class Locked:
    """An object with a reentrant lock, which is replaced after a fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held by the thread that changes this."""
        _locked.add(self)


_locked: WeakSet[Locked] = WeakSet()


def _unlock_all() -> None:
    for feed in list(_locked):
        feed.lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock_all)


class ProcessEngine(Locked, Generic[EngineT]):
    """The engine of the calling process: threads do not survive a fork.

    Args:
        start: Starts an engine.
    """

    def __init__(self, start: Callable[[], EngineT]) -> None:
        super().__init__()
        self._start = start
        self._started: tuple[int, EngineT] | None = None
        self._is_closed = False

    def get(self) -> EngineT:
        """Return this process's engine.

        Raises:
            CancelledError: If it was closed before it started in this process.
        """
        started = self._started
        if started is None or started[0] != os.getpid():
            with self.lock:
                return self._here()
        return started[1]

    @property
    def started(self) -> EngineT | None:
        """This process's engine, if it was started."""
        started = self._started
        return started[1] if started and started[0] == os.getpid() else None

    def close(self) -> None:
        """Close the engine of this process, and start no new one."""
        self._is_closed = True
        if self._started is not None and self._started[0] == os.getpid():
            self._started[1].close()

    @contextmanager
    def alone(self) -> Iterator[EngineT]:
        """Give one thread this process's engine, for a plan and its batches."""
        with self.lock:
            yield self._here()

    def _here(self) -> EngineT:
        if self._started is None or self._started[0] != os.getpid():
            if self._is_closed:
                raise CancelledError("the loader was closed: make another to continue")
            self._started = os.getpid(), self._start()
            _running.add(self._started[1])
        return self._started[1]
