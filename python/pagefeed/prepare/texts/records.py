"""Records of any input: which columns to read, and which records were rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pagefeed.core._base import format_bytes, require
from pagefeed.errors import CorruptFileError, FileAccessError, PagefeedError

MOST_SHOWN = 16
"""Most names of columns that an error lists."""
RECORD_BYTES = 64 << 20
"""Default for the bytes of the largest record."""

Table = Any
"""A ``pyarrow.Table``; pyarrow has no types."""


def arrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, or a module of it."""
    return require(module, extra="pyarrow", purpose="tokenizing files")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns to read of every record."""

    source: str
    """The column of texts or messages."""
    kept: Mapping[str, Any]
    """Further columns and the types in which they are written."""
    given: frozenset[str] = frozenset()
    """Columns whose types the caller gave; a value that does not fit is null there."""
    is_chat: bool = False
    """Whether the source may hold messages, or any other objects."""
    folders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values of columns that folders name (``lang=en/``), by folder and column."""
    objects: frozenset[str] = frozenset()
    """Columns of objects or lists, which some formats give as JSON."""
    batch_bytes: int = 8 << 20
    """Approximate bytes of a batch."""
    record_bytes: int = RECORD_BYTES
    """Bytes of the largest record."""

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return [self.source, *self.kept]


class FileRange(NamedTuple):
    """Consecutive records of a file."""

    file: str
    begin: int
    """Begin of the range: a byte, row group or record batch, by format."""
    end: int | None
    """End of the range; None for the end of the file."""
    weight: int
    """Approximate uncompressed bytes."""
    format: str = ""
    """Name of the format."""


class Rejected(NamedTuple):
    """A record, or several, that cannot be tokenized."""

    file: str
    position: str
    """Position of the record in its file, such as ``line 7``."""
    error: str
    num_records: int | None = 1
    """Number of records; None if unknown, 0 if only a kept column is left out."""


class Batch(NamedTuple):
    """Consecutive records as a table."""

    table: Table
    """The wanted columns in order; their types are not checked yet."""
    position_of: Callable[[int], str]
    """Returns where a row of the table is in its file, such as ``line 7``."""
    rejected: Sequence[Rejected] = ()
    """Records that could not be read."""


def shown(names: Sequence[str]) -> str:
    """Return names of columns for an error."""
    return f"{list(names)[:MOST_SHOWN]}" + ", ..." * (len(names) > MOST_SHOWN)


def too_long(most: int) -> str:
    """Return the reason for rejecting a long record."""
    return (
        f"it is longer than max_record={format_bytes(most)!r}: divide it, or give a "
        "larger max_record"
    )


def rejection(rejected: Rejected, wanted: Wanted) -> Batch:
    """Return a batch without rows that has a rejected record."""
    kinds = {wanted.source: arrow().binary(), **wanted.kept}
    return Batch(arrow().schema(kinds).empty_table(), str, (rejected,))


@contextmanager
def translated(file: str) -> Iterator[None]:
    """Turn errors of libraries about a file into errors of pagefeed.

    Raises:
        FileAccessError: If the system refuses to read.
        CorruptFileError: If the contents are invalid.
    """
    try:
        yield
    except (PagefeedError, GeneratorExit):  # A reader may be closed by Python's end.
        raise
    except OSError as problem:
        if problem.errno is not None:
            error = FileAccessError(f"{file}: cannot be read: {problem}")
            raise error.at(file=file) from problem
        # Without a number it is pyarrow's: a stream that does not decompress.
        raise CorruptFileError(f"{file}: {problem}").at(file=file) from problem
    except (arrow().ArrowException, ValueError, EOFError) as problem:
        raise CorruptFileError(f"{file}: {problem}").at(file=file) from problem
