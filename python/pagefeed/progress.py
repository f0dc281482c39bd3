"""Progress of long work, shown as bars on a terminal, which data must not steer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from typing import Any, TextIO, cast

from pagefeed.core._base import Progress, ProgressCallback, report_to, require
from pagefeed.errors import InvalidArgumentError, printable

__all__ = ["Progress", "printable_output", "show_progress"]

DELAY_SECONDS = 0.5
"""Work that takes less is not shown."""


def show_progress(
    show: ProgressCallback | bool = True,  # noqa: FBT001, FBT002 - as it is read
) -> AbstractContextManager[object]:
    """Show the progress of operations that may take seconds, or pass it to a function.

    These are: building an index, reading the lengths of rows, scanning for predicates,
    tiers and tokens of selected rows, counting sequences of ``Packed(split="never")``,
    and :func:`pagefeed.verify`. The setting applies to this process from now on; as a
    context manager, until the block ends.

    Args:
        show: True shows bars on stderr, by tqdm. False shows
            nothing, as at the start. A function is called with a :class:`Progress`, at
            most ten times a second, by the thread that does the work. An error that it
            raises ends the work.

    Raises:
        InvalidArgumentError: If it is anything else.
        MissingDependencyError: If it is True, and tqdm is not installed.

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
    before = report_to((Bars() if show else None) if isinstance(show, bool) else show)
    shown = ExitStack()
    shown.callback(report_to, before)
    return shown


class Bars:
    """A progress callback that draws a bar for each task."""

    def __init__(self) -> None:
        tqdm = require("tqdm", extra="demo", purpose="show_progress(True)").tqdm
        # Without tqdm's thread that watches for idle bars: processes fork while it
        # runs.
        self._bar = type("Bar", (tqdm,), {"monitor_interval": 0})
        self._bars: dict[tuple[int, str], Any] = {}
        self._stream = sys.stderr

    def __call__(self, progress: Progress) -> None:
        """Draw the bar of this work, or take it away when that is finished."""
        key = threading.get_ident(), progress.what
        bar = self._bars.get(key)
        if bar is None:
            bar = self._bars[key] = self._bar(
                desc=printable(progress.what),
                total=progress.total,
                unit=f" {progress.unit}",
                unit_scale=True,
                leave=False,
                delay=DELAY_SECONDS,
                mininterval=0,
                miniters=0,
                file=self._stream,
            )
        bar.total = progress.total
        bar.update(progress.done - bar.n)
        if progress.finished:
            bar.close()
            del self._bars[key]


class _Printable:
    """A stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))


@contextmanager
def printable_output(stdout: TextIO, stderr: TextIO) -> Iterator[None]:
    """Escape control characters of everything that is printed."""
    out, err = cast("list[TextIO]", [_Printable(stdout), _Printable(stderr)])
    with redirect_stdout(out), redirect_stderr(err):
        yield
