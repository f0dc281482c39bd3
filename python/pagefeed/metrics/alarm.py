"""An alarm for batches that do not come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pagefeed.checks import tell_wait, waits
from pagefeed.core._base import check_callable, check_number


class WaitAlarm:
    """Calls back while a batch of this process does not come.

    It hears of every batch that does not come for some seconds, and again after twice,
    four times and so on.

    Args:
        seconds: Seconds that a batch does not come.
        call: Function that another thread calls with the seconds waited so far; by
            default the log says what the batch waits for. An error that it raises is
            logged.

    Example:
        >>> with WaitAlarm(seconds=10, call=print):
        ...     pass  # train
    """

    def __init__(
        self, *, seconds: float, call: Callable[[float], object] | None = None
    ) -> None:
        after = check_number(seconds, "seconds", "seconds", above=0, most=1e9)
        heard = check_callable(call, "call")
        told = tell_wait if heard is None else lambda seconds, _: heard(seconds)
        waits.listen(self, after, told)

    def close(self) -> None:
        """Stop the alarm: its function is not called again."""
        waits.leave(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
