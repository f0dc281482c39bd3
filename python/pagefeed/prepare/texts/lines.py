"""Files of lines, which can be read from any position, and plain texts."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from pagefeed.core.storage import Storage
from pagefeed.prepare.texts.kept import Sample, batch_of
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    rejection,
    too_long,
)
from pagefeed.prepare.texts.streams import (
    Reader,
    codec_of,
    line_blocks,
    opened,
    read_some,
    with_compressed,
)

__all__ = ["Lines", "PlainText", "TextLines"]

_COUNTED_BYTES = 8 << 20


class Lines(Reader):
    """Files that can be divided at the ends of lines, unless they are compressed."""

    most_bytes = 1 << 31
    """Most bytes of a block of lines."""

    def pieces(self, storage: Storage, file: str, most: int) -> Iterator[Piece]:
        """Divide a file."""
        if codec_of(file) is not None:
            yield from super().pieces(storage, file, most)
            return
        size = storage.size(file)
        count = max(1, -(-size // most))
        borders = [size * piece // count for piece in range(count + 1)]
        for begin, end in itertools.pairwise(borders):
            if begin < end or count == 1:
                yield Piece(file, begin, end, end - begin)

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the records of a piece."""
        size = min(self.most_bytes, wanted.batch_bytes)
        for block, first in _numbered(storage, piece, size, wanted.record_bytes):
            if block is not None:
                yield self.batch(block, first, piece.file, wanted)
                continue
            error = too_long(wanted.record_bytes)
            yield rejection(Rejected(piece.file, f"line {first()}", error), wanted)

    @abstractmethod
    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> Batch:
        """Return the records of some lines."""


class TextLines(Lines):
    """Reads plain text in which each line is a document."""

    suffixes = with_compressed(".txt", ".text")

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the only column."""
        del storage, file
        return {"text": arrow().string()}

    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> Batch:
        """Return the lines."""
        lines = enumerate(block.removesuffix(b"\n").split(b"\n"))
        texts = (
            Sample(n, {wanted.source: line.removesuffix(b"\r")}) for n, line in lines
        )
        return batch_of(
            texts, wanted, file, lambda line_in_block: f"line {first() + line_in_block}"
        )


class PlainText(Reader):
    """Plain text with one document in a file."""

    suffixes = TextLines.suffixes

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the two columns."""
        del storage, file
        return {"text": arrow().string(), "file": arrow().string()}

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the document."""
        with opened(storage, piece.file) as stream:
            text, problem = read_some(stream, wanted.record_bytes + 1)
        if problem is not None:
            raise problem
        if len(text) > wanted.record_bytes:
            error = too_long(wanted.record_bytes)
            yield rejection(Rejected(piece.file, "the file", error), wanted)
            return
        sample = Sample("the file", {"file": piece.file, wanted.source: text})
        yield batch_of([sample], wanted, piece.file, str)


def _numbered(
    storage: Storage, piece: Piece, size: int, most: int
) -> Iterator[tuple[bytes | None, Callable[[], int]]]:
    """Yield blocks of lines. Each has a function that returns its first line number.

    The block of a line that is too long is None. Lines of the pieces before are counted
    when the function is called.
    """
    count = 0

    @cache
    def before() -> int:
        if not piece.begin:
            return 0
        # The line end at its begin, or the next one, is the last before its first line.
        parts = storage.parts(piece.file, 0, piece.begin - 1, _COUNTED_BYTES)
        return 1 + sum(map(_num_ends, parts))

    with opened(storage, piece.file) as stream:
        for _, block in line_blocks(stream, piece.begin, piece.end, size, most):

            def first(counted: int = count) -> int:
                return 1 + before() + counted

            yield block, first
            count += 1 if block is None else _num_ends(block)


def _num_ends(block: bytes) -> int:
    """Return the number of line ends, a few times as fast as ``bytes.count``."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
