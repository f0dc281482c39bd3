"""An alarm for training that waits for its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from pagefeed.checks import tell_wait, waits
from pagefeed.core._base import (
    check_callable,
    check_number,
    check_positive,
    check_seconds,
    warn_user,
)
from pagefeed.errors import InvalidArgumentError, WaitWarning


def _warn(fraction: float) -> None:
    warn_user(
        f"training waits for data {fraction:.0%} of the time: give the loader more "
        "num_threads or memory, or a faster disk; `pagefeed plan` says what it reads",
        WaitWarning,
    )


class WaitAlarm:
    """Calls back when training waits for data: for long, or much of the time.

    With ``seconds`` it hears of every batch of this process that does not come for so
    long, while it does not come, and again after twice, four times and so on. With
    ``threshold`` it is given readings, and calls back when training waits more than a
    fraction of the time. Given ``loader.metrics(group)``, every rank watches the
    slowest rank.

    Args:
        threshold: Fraction of the time, in 0..1; 0.1 if ``seconds`` is not given.
        times: Number of readings in a row that must lie above it.
        seconds: Seconds that a batch does not come, in place of a threshold.
        call: Function that is called with the fraction: once, and again only after a
            reading below the threshold. By default a warning is given. With ``seconds``
            another thread calls it with the seconds waited so far; by default the log
            says what the batch waits for. An error that it raises is logged.

    Raises:
        InvalidArgumentError: If the threshold is not a fraction, or both are given.

    Example:
        >>> heard = []
        >>> alarm = WaitAlarm(threshold=0.05, times=2, call=heard.append)
        >>> for fraction in (0.2, 0.01, 0.3, 0.4, 0.5):
        ...     alarm.look({"data/wait_fraction": fraction})
        >>> heard
        [0.4]
        >>> with WaitAlarm(seconds=10, call=print):
        ...     pass  # train
    """

    def __init__(
        self,
        *,
        threshold: float | None = None,
        times: int = 3,
        seconds: float | None = None,
        call: Callable[[float], object] | None = None,
    ) -> None:
        self._seconds = check_seconds(seconds, "seconds")
        if seconds is not None and threshold is not None:
            raise InvalidArgumentError(
                f"threshold={threshold!r:.60} is of readings, and seconds="
                f"{seconds!r:.60} of a batch that does not come: make an alarm for each"
            )
        self._threshold = check_number(
            0.1 if threshold is None else threshold,
            "threshold",
            "a fraction",
            above=0,
            below=1,
        )
        self._times = check_positive(times, "times")
        self._call = check_callable(call, "call") or _warn
        self._num_above = 0
        if self._seconds is not None:
            told = tell_wait if call is None else lambda seconds, _: call(seconds)
            waits.listen(self, self._seconds, told)

    def look(self, metrics: Mapping[str, float]) -> None:
        """Take a reading of ``loader.metrics()``; with ``seconds`` it needs none."""
        if self._seconds is not None:
            return
        fraction = metrics["data/wait_fraction"]
        self._num_above = self._num_above + 1 if fraction > self._threshold else 0
        if self._num_above == self._times:
            self._call(fraction)

    def close(self) -> None:
        """Hear of no more waits; until then an alarm with ``seconds`` does."""
        waits.leave(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
