"""Writers whose output appears complete or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from pagefeed.errors import FileAccessError

__all__ = ["WholeWriter", "write_errors"]


class WholeWriter(ABC):
    """A context manager that publishes its output, unless an error ends it.

    Example:
        >>> class Words(WholeWriter):
        ...     def commit(self): print("published")
        ...     def abandon(self): print("cleared")
        >>> with Words():
        ...     pass
        published
        cleared
    """

    @abstractmethod
    def commit(self) -> None:
        """Make the output visible."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove what is not published; called after :meth:`commit` too."""

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Publish the output, or remove it after an error."""
        try:
            if kind is None:
                self.commit()
        finally:
            self.abandon()


@contextmanager
def write_errors(
    path: object, kind: type[FileAccessError] = FileAccessError
) -> Iterator[None]:
    """Raise what the system says of a file that is written as an error of pagefeed."""
    try:
        yield
    except OSError as problem:
        error = kind(f"{path}: cannot be written: {problem}")
        raise error.at(file=str(path)) from problem
