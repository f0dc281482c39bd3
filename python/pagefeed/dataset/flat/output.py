"""What writes documents as files of one format; what it writes appears whole."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset.flat.flat_file import fitting
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.storage import LocalStorage

__all__ = ["Output", "TokenRows"]


class TokenRows(NamedTuple):
    """Some consecutive documents."""

    tokens: npt.NDArray[Any]
    """Their tokens, joined, in the column's own type."""
    offsets: Int64Array
    """Where each begins, and the end: int64 [documents + 1]."""

    def each(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the tokens of each document."""
        borders = self.offsets.tolist()
        for begin, end in itertools.pairwise(borders):
            yield self.tokens[begin:end]


class Output(ABC):
    """Writes documents as files of one format.

    It checks what it can when it is made, and opens files in :meth:`begin`.

    Args:
        path: Where: a folder, a prefix or a file, as the format has it.
        dtype: Type of the tokens.
        column: What they are called, where the format has names.
        shard_bytes: Bytes of tokens from which on another shard begins.
        num_tokens: Tokens that will be written.

    Raises:
        InvalidArgumentError: If the format cannot hold the type, or files of it are
            there already.
    """

    signs: ClassVar[tuple[str, ...]]
    """How names of its files end; those of a folder are found by it."""
    wide: ClassVar[str] = "uint32"
    """Type of tokens that need more than 16 bits, if nobody chooses one."""

    def __init__(
        self,
        path: str,
        dtype: np.dtype[Any],
        *,
        column: str,
        shard_bytes: int,
        num_tokens: int,
    ) -> None:
        self.path = path
        self.dtype = dtype
        self.column = column
        self.shard_bytes = shard_bytes
        self.num_tokens = num_tokens
        self.files: list[str] = []
        """What was written, as it can be opened again."""
        self.num_left_out = 0
        """Documents that the format cannot hold."""
        self.stack = ExitStack()
        """Publishes what is open, or clears it; of what fails whole shards stay."""
        self.check()

    @property
    def places(self) -> tuple[str, ...]:
        """The files, or the folder, that will be written."""
        return (self.path,)

    def check(self) -> None:
        """Refuse what cannot be written: nothing is open yet."""
        for place in self.places:
            with suppress(MissingFileError):
                found = LocalStorage().list_files(place, self.signs)
                raise InvalidArgumentError(
                    f"{found[0]} is there already, and would be replaced or read with "
                    "what is written: choose another output, or remove it"
                )

    def begin(self) -> None:  # noqa: B027 - some open files only later
        """Open what is written."""

    def write(self, rows: TokenRows) -> None:
        """Write documents.

        Raises:
            TokenRangeError: If a token does not fit the type.
        """
        tokens = fitting(rows.tokens, self.dtype, self.column)
        self.put(TokenRows(tokens.astype(self.dtype, copy=False), rows.offsets))

    @abstractmethod
    def put(self, rows: TokenRows) -> None:
        """Write documents whose tokens are of the type."""

    def finish(self) -> None:  # noqa: B027 - of some files nothing comes last
        """Write what comes last, once all went well."""
