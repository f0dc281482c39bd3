"""Progress as bars on stderr: those of tqdm if it is installed, else plain lines."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, NamedTuple, TextIO

from pagefeed.core._base.extras import require
from pagefeed.core._base.terminal import printable
from pagefeed.errors import MissingDependencyError

__all__ = ["Bars", "Progress"]

DELAY_SECONDS = 0.5
"""Work that takes less is not shown."""


class Progress(NamedTuple):
    """The state of some work, for callbacks of :func:`show_progress`."""

    what: str
    """What is done, such as ``"lengths of rows"``."""
    done: int
    """How much of it is."""
    total: int
    """How much there is to do."""
    unit: str
    """What ``done`` and ``total`` count, such as ``"rows"``."""
    finished: bool = False
    """Whether this is the last report: the work is done, or an error ended it."""


class Bars:
    """A callback that draws a bar for each work that goes on."""

    def __init__(self) -> None:
        self._bars: dict[tuple[int, str], Any] = {}
        self._stream = sys.stderr

    def __call__(self, progress: Progress) -> None:
        """Draw the bar of this work, or take it away when that is finished."""
        key = threading.get_ident(), progress.what
        bar = self._bars.get(key)
        if bar is None:
            bar = self._bars[key] = _new_bar(progress, self._stream)
        bar.total = progress.total
        bar.update(progress.done - bar.n)
        if progress.finished:
            bar.close()
            del self._bars[key]


def _new_bar(progress: Progress, stream: TextIO) -> Any:
    what = printable(progress.what)
    try:
        tqdm = require("tqdm", extra="demo", purpose="a bar").tqdm
    except MissingDependencyError:
        return _Line(what, progress.unit, stream)
    # Without tqdm's thread that watches for idle bars: processes fork beside it.
    bar = type("Bar", (tqdm,), {"monitor_interval": 0})
    return bar(
        desc=what,
        total=progress.total,
        unit=f" {progress.unit}",
        unit_scale=True,
        leave=False,
        delay=DELAY_SECONDS,
        mininterval=0,
        miniters=0,
        file=stream,
    )


class _Line:
    """The little of tqdm's bar that is needed, as a line that is written over."""

    def __init__(self, what: str, unit: str, stream: TextIO) -> None:
        self._what, self._unit, self._stream = what, unit, stream
        self.total = 0
        self._begin = time.monotonic()
        self._width = 0
        self.n = 0

    def update(self, amount: int) -> None:
        """Show that some more is done."""
        self.n += amount
        seconds = time.monotonic() - self._begin
        if seconds >= DELAY_SECONDS:
            share = self.n / max(1, self.total)
            text = f"{self._what}: {share:.0%} of {self.total:,} {self._unit}"
            if self.n:
                left = seconds * (self.total - self.n) / self.n
                text += f", {self.n / seconds:,.0f}/s, {left:,.0f} s left"
            self._write(text)

    def close(self) -> None:
        """Take the line away."""
        if self._width:
            self._write("")
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text:{self._width}}")
        self._stream.flush()
        self._width = len(text)
