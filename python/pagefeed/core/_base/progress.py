"""Long work: on several threads, in order, its progress reported to a callback."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, Self, TypeAlias, TypeVar

from pagefeed.core.wiring import container_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_processors() -> int:
    """Return the number of processors that this process may use.

    A container may allow fewer than its processors, by a quota, which is rounded up.
    On macOS, which has no processor affinity, this is the number of all processors.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    number = len(os.sched_getaffinity(0))
    return min(number, math.ceil(container_limits()[0] or number))


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    taken: Callable[[Item], object] | None = None,
    num_threads: int | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item in order, computed by a thread per CPU.

    At most twice as many results as there are threads wait to be taken, so that memory
    is bounded for any number of items. If no thread can be started, the caller's thread
    does the work.

    Args:
        function: Function that spends its time outside the GIL: reading, decoding,
            NumPy.
        items: Its arguments.
        taken: Called with each item after its result was used, for progress.
        num_threads: Number of threads. By default one per CPU.

    Example:
        >>> list(in_order(len, ["a", "bb"]))
        [1, 2]
    """
    num_threads = num_threads or num_processors()
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="pagefeed")

    def results(most: int) -> Iterator[Result]:
        while len(waiting) > most:
            item, future = waiting.popleft()
            yield future.result()
            if taken is not None:
                taken(item)

    try:
        for item in items:
            waiting.append((item, _submit(pool, function, item)))
            yield from results(2 * num_threads)
        yield from results(0)
    finally:
        pool.shutdown(cancel_futures=True)


def _submit(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], item: Item
) -> Future[Result]:
    with suppress(RuntimeError):  # A limit of threads, or of memory.
        return pool.submit(function, item)
    done: Future[Result] = Future()
    done.set_result(function(item))
    return done


SECONDS_BETWEEN = 0.1
"""Least seconds between two reports of one work, except the first and last."""


ProgressCallback: TypeAlias = Callable[["Progress"], object]

_callback: ProgressCallback | None = None
# It belongs to the process, not to a context: notebooks run each cell in a new context,
# and threads begin with an empty one.


def report_to(callback: ProgressCallback | None) -> ProgressCallback | None:
    """Hand all progress of this process to a callback; return the previous callback."""
    global _callback
    before, _callback = _callback, callback
    return before


class Progress(NamedTuple):
    """The state of some work, for callbacks of :func:`show_progress`."""

    what: str
    """Name of the work, such as ``"lengths of rows"``."""
    done: int
    """Units that are done."""
    total: int
    """Units in all."""
    unit: str
    """The unit, such as ``"rows"``."""
    finished: bool = False
    """Whether this is the last report: the work is done, or an error ended it."""


class Work:
    """Reports the progress of some work, as a context manager.

    Args:
        what: Description of the work, shown to people.
        total: Amount of work, in units.
        unit: Name of the units.

    Example:
        >>> with Work("adding", total=2, unit="numbers") as work:
        ...     work.advance()
        ...     work.advance()
    """

    def __init__(self, what: str, *, total: int, unit: str) -> None:
        self._progress = Progress(what, 0, total, unit)
        self._callback = _callback
        self._next = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        self._report()
        return self

    def __exit__(self, *_: object) -> None:
        """Report for the last time."""
        self._progress = self._progress._replace(finished=True)
        self._report()

    def advance(self, amount: int = 1) -> None:
        """Report that more is done."""
        self._progress = self._progress._replace(done=self._progress.done + amount)
        if self._callback is not None and time.monotonic() >= self._next:
            self._report()

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        amount: Callable[[Item], int] = lambda _: 1,
    ) -> Iterator[Result]:
        """Yield the results of a function for items in order, and report progress.

        Args:
            function: Makes a result.
            items: Its arguments.
            amount: Returns the units of work in an item.

        Example:
            >>> list(Work("lengths", total=2, unit="words").map(len, ["a", "bb"]))
            [1, 2]
        """
        with self:
            yield from in_order(
                function, items, taken=lambda item: self.advance(amount(item))
            )

    def expect(self, total: int) -> None:
        """Set the number of units, if it was unknown at first."""
        self._progress = self._progress._replace(total=total)

    def _report(self) -> None:
        if self._callback is not None:
            self._next = time.monotonic() + SECONDS_BETWEEN
            self._callback(self._progress)
