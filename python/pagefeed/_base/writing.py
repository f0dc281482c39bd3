"""What is written whole or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["WholeWriter"]


class WholeWriter(ABC):
    """A writer whose block, if it ends well, publishes what it wrote.

    Example:
        >>> class Words(WholeWriter):
        ...     def _publish(self): print("published")
        ...     def _clear(self): print("cleared")
        >>> with Words():
        ...     pass
        published
        cleared
    """

    @abstractmethod
    def _publish(self) -> None:
        """Make it what others see."""

    @abstractmethod
    def _clear(self) -> None:
        """Remove what was not published; comes after :meth:`_publish` too."""

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Publish it if all went well; leave nothing of it otherwise."""
        try:
            if kind is None:
                self._publish()
        finally:
            self._clear()
