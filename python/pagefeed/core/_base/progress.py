"""Progress of long work, reported to a callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Self, TypeAlias, TypeVar

from pagefeed.core._base.bars import Bars, Progress
from pagefeed.core._base.parallel import in_order
from pagefeed.errors import InvalidArgumentError

__all__ = ["Progress", "ProgressCallback", "Work", "show_progress"]

SECONDS_BETWEEN = 0.1
"""Least seconds between two reports of one work, except the first and last."""


Item = TypeVar("Item")
Result = TypeVar("Result")
ProgressCallback: TypeAlias = Callable[[Progress], object]

_callback: ProgressCallback | None = None
# It belongs to the process, not to a context: notebooks run each cell in a context of
# its own, and threads begin with an empty one.


def _show(callback: ProgressCallback | None) -> None:
    global _callback  # noqa: PLW0603 - there is one per process
    _callback = callback


def show_progress(
    show: ProgressCallback | bool = True,  # noqa: FBT001, FBT002 - as it is read
) -> AbstractContextManager[object]:
    """Show the progress of all that may take seconds, or hand it to a callback.

    That is: building an index, reading the lengths of rows, scanning for predicates,
    tiers and tokens of selected rows, counting sequences of ``Packed(split="never")``,
    and :func:`pagefeed.verify`. It holds for this process from now on; as a context
    manager, until its end.

    Args:
        show: True for bars on stderr, by tqdm if that is installed; False for nothing,
            as at the start; or what is called with a :class:`Progress`, at most ten
            times a second, by the thread that does the work. What it raises ends the
            work.

    Raises:
        InvalidArgumentError: If it is anything else.

    Example:
        >>> with show_progress(lambda progress: print(*progress)):
        ...     len(web.where("quality >= 0.5"))
        quality >= 0.5 0 400 rows False
        quality >= 0.5 400 400 rows True
        200
    """
    if not isinstance(show, bool) and not callable(show):
        raise InvalidArgumentError(
            f"show_progress({show!r:.60}): expected True, False or a function of one "
            "argument, a pagefeed.Progress"
        )
    shown = ExitStack()
    shown.callback(_show, _callback)
    _show((Bars() if show else None) if isinstance(show, bool) else show)
    return shown


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

    def each(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        amount: Callable[[Item], int] = lambda _: 1,
    ) -> Iterator[Result]:
        """Yield what a function makes of items, as :func:`in_order`, as all the work.

        Args:
            function: Makes a result.
            items: Its arguments.
            amount: How much of the work an item is.

        Example:
            >>> list(Work("lengths", total=2, unit="words").each(len, ["a", "bb"]))
            [1, 2]
        """
        with self:
            yield from in_order(
                function, items, taken=lambda item: self.advance(amount(item))
            )

    def expect(self, total: int) -> None:
        """Set how much there is to do, if that was unknown at first."""
        self._progress = self._progress._replace(total=total)

    def _report(self) -> None:
        if self._callback is not None:
            self._next = time.monotonic() + SECONDS_BETWEEN
            self._callback(self._progress)
