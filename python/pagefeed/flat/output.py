"""Writers of documents; their files appear complete or not at all."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.flat.flat_file import check_fitting
from pagefeed.remote import OutputFolder


class TokenRows(NamedTuple):
    """Consecutive documents and their tokens."""

    tokens: npt.NDArray[Any]
    """Their tokens, joined, in the column's own type."""
    offsets: Int64Array
    """Start of each document, and the end of the last: int64 [documents + 1]."""

    def some(self, first: int, stop: int) -> TokenRows:
        """Return the documents ``[first, stop)``."""
        offsets = self.offsets[first : stop + 1]
        tokens = self.tokens[offsets[0] : offsets[-1]]
        return TokenRows(tokens, offsets - offsets[0])

    def filled(self, first: int, room: int) -> int:
        """Return the end of documents from ``first`` on that fill ``room`` tokens."""
        ends = self.offsets[first + 1 : -1]
        return first + 1 + int(np.searchsorted(ends, self.offsets[first] + room))

    def documents(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the tokens of one document after the other."""
        borders = self.offsets.tolist()
        for begin, end in itertools.pairwise(borders):
            yield self.tokens[begin:end]


@dataclass(eq=False)
class Output(ABC):
    """Writes documents as files of one format.

    The constructor checks all arguments; :meth:`begin` opens files.

    Args:
        folder: Where to write: a folder, a prefix or a file, as the format needs.
        dtype: Type of the tokens.
        column: Name of the tokens, where the format has names.
        shard_bytes: Bytes of tokens after which a new shard begins.
        num_tokens: Number of tokens that will be written.
        source: What a job records of the input: dataset and separator.

    Raises:
        InvalidArgumentError: If the format cannot hold the type, or files of the format
            exist there.
    """

    signs: ClassVar[tuple[str, ...]]
    """Suffixes of its files, by which files in a folder are recognised."""
    wide: ClassVar[str] = "uint32"
    """Default type of tokens that need more than 16 bits."""
    widest: ClassVar[str] = "int64"
    """Default type of tokens that are stored in 64 bits."""

    folder: OutputFolder
    dtype: np.dtype[Any]
    _: KW_ONLY
    column: str
    shard_bytes: int
    num_tokens: int
    source: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.path = self.folder.path
        self.files: list[str] = []
        """The files, folders or prefixes that were written."""
        self.num_done = 0
        """Documents that a killed run of the job wrote; known after :meth:`begin`."""
        self.shard_tokens = max(1, self.shard_bytes // self.dtype.itemsize)
        """Tokens that fill a shard."""
        self.num_left_out = 0
        """Documents that the format cannot hold."""
        self.stack = ExitStack()
        """Publishes open files, or removes them after an error. Whole shards stay."""
        self.check()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, or the folder, that will be written."""
        return (self.path,)

    def check(self) -> None:
        """Check the output before anything is opened."""
        for path in self.paths:
            with suppress(MissingFileError):
                existing = self.folder.storage.list_files(path, self.signs)
                raise InvalidArgumentError(
                    f"{existing[0]} is there already, and would be replaced or read "
                    "with what is written: choose another output, or remove it"
                )

    def begin(self) -> None:  # noqa: B027 - some open files only later
        """Open the files."""

    def write(self, rows: TokenRows) -> None:
        """Write documents.

        Raises:
            TokenRangeError: If a token does not fit the type.
        """
        tokens = check_fitting(rows.tokens, self.dtype, self.column)
        self.put(TokenRows(tokens.astype(self.dtype, copy=False), rows.offsets))

    @abstractmethod
    def put(self, rows: TokenRows) -> None:
        """Write documents whose tokens have the type."""

    def finish(self) -> None:  # noqa: B027 - of some files nothing comes last
        """Write the end of the file, after all documents."""
