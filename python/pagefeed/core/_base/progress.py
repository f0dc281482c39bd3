"""Progress of long work, reported to a callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self, TypeAlias, TypeVar

from pagefeed.core._base.parallel import in_order

__all__ = ["Progress", "ProgressCallback", "Work", "report_to"]

SECONDS_BETWEEN = 0.1
"""Least seconds between two reports of one work, except the first and last."""


Item = TypeVar("Item")
Result = TypeVar("Result")
ProgressCallback: TypeAlias = Callable[["Progress"], object]

_callback: ProgressCallback | None = None
# It belongs to the process, not to a context: notebooks run each cell in a context of
# its own, and threads begin with an empty one.


def report_to(callback: ProgressCallback | None) -> ProgressCallback | None:
    """Hand all progress of this process to a callback; return the one before."""
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
        what: What is done, for people.
        total: How much there is to do.
        unit: What that counts.

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
            amount: How much of the work an item is.

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
