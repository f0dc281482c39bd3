"""Records of any input: what is wanted of them, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tarfile import TarError
from typing import Any, NamedTuple, Protocol

from pagefeed._base import format_bytes, require
from pagefeed.errors import CorruptFileError, FileAccessError, PagefeedError
from pagefeed.storage import Storage

__all__ = [
    "RECORD_BYTES",
    "Batch",
    "Piece",
    "Reader",
    "Rejected",
    "Wanted",
    "arrow",
    "rejection",
    "shown",
    "too_long",
    "translated",
]

MOST_SHOWN = 16
"""Names of columns that an error lists."""
RECORD_BYTES = 64 << 20
"""Of the largest record, unless another limit is given."""

Table = Any
"""A ``pyarrow.Table``; pyarrow has no types."""


def arrow(module: str = "pyarrow") -> Any:  # noqa: ANN401 - pyarrow has no types
    """Import pyarrow, or a module of it."""
    return require(module, extra="pyarrow", purpose="tokenizing files")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is read of every record."""

    source: str
    """The column of texts or messages."""
    kept: Mapping[str, Any]
    """Further columns and their types, as they are written."""
    given: frozenset[str] = frozenset()
    """Those of them whose types were given: others become wider if values need it."""
    is_chat: bool = False
    """Whether the source may hold messages, or any other objects."""
    objects: frozenset[str] = frozenset()
    """Columns that hold objects or lists; some formats give JSON of these."""
    batch_bytes: int = 8 << 20
    """Bytes of a batch, about."""
    record_bytes: int = RECORD_BYTES
    """Bytes of the largest record."""

    @property
    def columns(self) -> list[str]:
        """Names of all."""
        return [self.source, *self.kept]


class Piece(NamedTuple):
    """Some consecutive records of a file."""

    file: str
    begin: int
    """Where it begins: a byte, row group or record batch, as the format has it."""
    end: int | None
    """Where it ends; None for the end of the file."""
    weight: int
    """Bytes of it, about, if they were not compressed."""
    format: str = ""
    """Name of the format; whoever asked for the piece knows it."""


class Rejected(NamedTuple):
    """A record, or several, of which no tokens can be made."""

    file: str
    place: str
    """Where in the file, such as ``line 7``."""
    error: str
    record: bytes | None = None
    """What lies there, if it is known."""
    num_records: int | None = 1
    """How many; None if nobody knows, 0 if only a further column is left out."""


class Batch(NamedTuple):
    """Some consecutive records."""

    table: Table
    """The columns wanted, in their order; types are not checked yet."""
    place: Callable[[int], str]
    """Where in the file a row of the table lies."""
    rejected: Sequence[Rejected] = ()
    """Records among these that could not be read."""


class Reader(Protocol):
    """How files of one format are read."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """How names of such files end."""

    def pieces(self, storage: Storage, file: str, most: int) -> Iterator[Piece]:
        """Divide a file into pieces of ``most`` bytes, as far as that can be done."""

    def types(self, storage: Storage, file: str) -> dict[str, Any] | None:
        """Return the columns of a file and their types; None if any may be asked for.

        What begins of records say, where the format itself does not.
        """

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the records of a piece, in order, the same each time."""


def shown(names: Sequence[str]) -> str:
    """Name columns for an error."""
    return f"{list(names)[:MOST_SHOWN]}" + ", ..." * (len(names) > MOST_SHOWN)


def too_long(most: int) -> str:
    """Say why a record is not read."""
    return (
        f"it is longer than max_record={format_bytes(most)!r}: divide it, or give a "
        "larger max_record"
    )


def rejection(found: Rejected, wanted: Wanted) -> Batch:
    """Return a batch without rows that says what was rejected."""
    kinds = {wanted.source: arrow().binary(), **wanted.kept}
    return Batch(arrow().schema(kinds).empty_table(), str, (found,))


@contextmanager
def translated(file: str) -> Iterator[None]:
    """Tell what libraries say of a file as errors of pagefeed.

    Raises:
        FileAccessError: If the system refused to read.
        CorruptFileError: If what was read makes no sense.
    """
    try:
        yield
    except PagefeedError:
        raise
    except OSError as problem:
        if problem.errno is not None:
            error = FileAccessError(f"{file}: cannot be read: {problem}")
            raise error.at(file=file) from problem
        # Without a number it is pyarrow's: a stream that does not decompress.
        raise CorruptFileError(f"{file}: {problem}").at(file=file) from problem
    except (arrow().ArrowException, TarError, ValueError, EOFError) as problem:
        raise CorruptFileError(f"{file}: {problem}").at(file=file) from problem
