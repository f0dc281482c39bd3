"""The exceptions of pagefeed.

Every failure pagefeed reports is a :class:`PagefeedError`, and at the same time the
builtin that fits, so that existing ``except`` clauses keep working::

    PagefeedError
    +-- InvalidArgumentError        ValueError   an argument cannot be right
    |   +-- EmptySelectionError     no row is selected
    +-- OutOfRangeError             IndexError   there is no row of this number
    +-- MissingDependencyError      ImportError  an extra is not installed
    +-- FileAccessError             OSError      the system refused to read a file
    |   +-- MissingFileError        FileNotFoundError
    |   +-- AccessDeniedError       PermissionError
    |   +-- UnavailableError        TimeoutError  a remote storage does not answer
    +-- DataError                   ValueError   something in the data is wrong
    |   +-- CorruptFileError        bytes are not what the format promises
    |   |   +-- ChecksumError       a stored checksum does not match
    |   +-- LimitExceededError      a size or count is over a safety limit
    |   +-- UnsupportedError        valid Parquet that pagefeed does not read
    |   |   +-- EncryptedError      the file is encrypted
    |   +-- TokenRangeError         a token does not fit the type asked for
    +-- ColumnNotFoundError         KeyError     the file has no such column
    +-- StaleFileError              RuntimeError a file changed since it was indexed
    +-- UncountedError              TypeError    tokens were not counted ahead
    +-- StateMismatchError          ValueError   a state belongs to another run
    +-- CancelledError              RuntimeError the engine was closed
    +-- InternalError               RuntimeError a defect of pagefeed

Errors about data carry where it happened, as far as it is known, in the attributes
``file``, ``row_group``, ``column``, ``page`` and ``offset``. Raised by a loader, in
``steps`` those that need it: ``loader.skip(error.steps)`` passes over them.
"""

from __future__ import annotations

from typing import Self

__all__ = [
    "AccessDeniedError",
    "CacheWarning",
    "CancelledError",
    "ChecksumError",
    "ColumnNotFoundError",
    "CorruptFileError",
    "DataError",
    "EmptySelectionError",
    "EncryptedError",
    "FileAccessError",
    "InternalError",
    "InvalidArgumentError",
    "LimitExceededError",
    "MissingDependencyError",
    "MissingFileError",
    "OutOfRangeError",
    "PaddingWarning",
    "PagefeedError",
    "ReloadWarning",
    "StaleFileError",
    "StateMismatchError",
    "TokenRangeError",
    "UnavailableError",
    "UncountedError",
    "UnsupportedError",
]


class CacheWarning(RuntimeWarning):
    """A cache folder cannot be used; all is made anew by every process instead."""


class LabelWarning(UserWarning):
    """Labels say that something is not learned which one would think is."""


class PaddingWarning(UserWarning):
    """Batches hold padding that nothing in them tells from tokens."""


class ReloadWarning(RuntimeWarning):
    """Pages are read again and again for lack of memory; nothing else is wrong."""


class PagefeedError(Exception):
    """Base of all exceptions of pagefeed.

    Attributes:
        file: Path of the file, if known.
        row_group: Row group in the file, if known.
        column: Column as a dotted path, if known.
        page: Page within its column chunk, if known.
        offset: Byte offset in the file, if known.
        steps: Steps of a loader that need what cannot be read, for ``Loader.skip``.
    """

    file: str | None = None
    row_group: int | None = None
    column: str | None = None
    page: int | None = None
    offset: int | None = None
    steps: tuple[int, ...] = ()

    def at(self, **place: str | int | None) -> Self:
        """Return the error with attributes that say where it happened.

        Example:
            >>> CorruptFileError("a.parquet: no footer").at(file="a.parquet").file
            'a.parquet'
        """
        for name, value in place.items():
            setattr(self, name, value)
        return self

    def __str__(self) -> str:
        # KeyError and OSError would print the repr or the errno of their arguments.
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidArgumentError(PagefeedError, ValueError):
    """An argument cannot be right; the message says what is accepted."""


class EmptySelectionError(InvalidArgumentError):
    """No row is selected; the message says what there would be."""


class OutOfRangeError(PagefeedError, IndexError):
    """There is no row or sequence of this number; the message says how many are."""


class MissingDependencyError(PagefeedError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class FileAccessError(PagefeedError, OSError):
    """The operating system refused to read a file."""


class MissingFileError(FileAccessError, FileNotFoundError):
    """A file does not exist, or a pattern matches none."""


class AccessDeniedError(FileAccessError, PermissionError):
    """A file may not be read: permissions, or credentials of a remote storage."""


class UnavailableError(FileAccessError, TimeoutError):
    """A remote storage did not answer until the deadline; the message says why."""


class DataError(PagefeedError, ValueError):
    """Something in the data is wrong or cannot be read.

    Attributes:
        batch_row: Row of the batch, if it was found there.
    """

    batch_row: int | None = None


class CorruptFileError(DataError):
    """The bytes are not what the Parquet format promises."""


class ChecksumError(CorruptFileError):
    """A stored checksum does not match the bytes read."""


class LimitExceededError(DataError):
    """A size or count is over a limit that protects memory or time."""


class UnsupportedError(DataError):
    """Valid Parquet that pagefeed does not read."""


class EncryptedError(UnsupportedError):
    """The file or the column is encrypted."""


class TokenRangeError(DataError, OverflowError):
    """A number is no token id, or does not fit the type asked for."""


class ColumnNotFoundError(PagefeedError, KeyError):
    """A file has no such column; the message lists those it has."""


class StaleFileError(PagefeedError, RuntimeError):
    """A file is not in the state it was indexed in."""


class UncountedError(PagefeedError, TypeError):
    """It needs the number of tokens of every row; the message says how to count."""


class StateMismatchError(PagefeedError, ValueError):
    """A saved state belongs to another dataset or plan; both sides are shown."""


class CancelledError(PagefeedError, RuntimeError):
    """The work was cancelled: the engine was closed."""


class InternalError(PagefeedError, RuntimeError):
    """A defect of pagefeed itself; please report it."""
