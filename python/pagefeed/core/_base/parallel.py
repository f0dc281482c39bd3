"""Runs work on threads and yields results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

__all__ = ["in_order", "num_processors"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_processors() -> int:
    """Return the number of processors that this process may use.

    macOS has no affinity of processes: there it is the number of the machine's.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    taken: Callable[[Item], object] | None = None,
    num_threads: int | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in their order, by a thread per CPU.

    At most twice as many results as threads wait, so that memory is bounded for any
    number of items. If no thread can be started, the caller's thread does the work.

    Args:
        function: Spends its time outside the GIL: reading, decoding, NumPy.
        items: Its arguments.
        taken: Called with each item after its result was used, for progress.
        num_threads: Threads; a thread per CPU by default.

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
