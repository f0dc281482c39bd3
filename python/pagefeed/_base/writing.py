"""Writers whose output appears complete or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["WholeWriter"]


class WholeWriter(ABC):
    """A context manager that publishes its output, unless an error ends it.

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
        """Make the output visible."""

    @abstractmethod
    def _clear(self) -> None:
        """Remove unpublished output; also called after :meth:`_publish`."""

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Publish the output, or remove it after an error."""
        try:
            if kind is None:
                self._publish()
        finally:
            self._clear()
