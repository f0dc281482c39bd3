"""An alarm for training that waits for its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pagefeed.core._base import check_callable, check_number, check_positive, warn_user
from pagefeed.errors import WaitWarning


def _warn(fraction: float) -> None:
    warn_user(
        f"training waits for data {fraction:.0%} of the time: give the loader more "
        "num_threads or memory, or a faster disk; `pagefeed plan` says what it reads",
        WaitWarning,
    )


class WaitAlarm:
    """Calls back when training waits for data more than a fraction of the time.

    Given ``loader.metrics(group)``, every rank watches the slowest rank.

    Args:
        threshold: Fraction of the time, in 0..1.
        times: Number of readings in a row that must lie above it.
        call: Function that is called with the fraction: once, and again only after a
            reading below the threshold. By default a warning is given.

    Raises:
        InvalidArgumentError: If the threshold is not a fraction.

    Example:
        >>> heard = []
        >>> alarm = WaitAlarm(threshold=0.05, times=2, call=heard.append)
        >>> for fraction in (0.2, 0.01, 0.3, 0.4, 0.5):
        ...     alarm.look({"data/wait_fraction": fraction})
        >>> heard
        [0.4]
    """

    def __init__(
        self,
        *,
        threshold: float = 0.1,
        times: int = 3,
        call: Callable[[float], object] | None = None,
    ) -> None:
        self._threshold = check_number(
            threshold, "threshold", "a fraction", above=0, below=1
        )
        self._times = check_positive(times, "times")
        self._call = check_callable(call, "call") or _warn
        self._num_above = 0

    def look(self, metrics: Mapping[str, float]) -> None:
        """Take a reading of ``loader.metrics()``."""
        fraction = metrics["data/wait_fraction"]
        self._num_above = self._num_above + 1 if fraction > self._threshold else 0
        if self._num_above == self._times:
            self._call(fraction)
