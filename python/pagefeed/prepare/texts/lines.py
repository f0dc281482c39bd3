"""Files of lines, which can be read from any place; and plain texts."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

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
from pagefeed.storage import Storage

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
        borders = [size * number // count for number in range(count + 1)]
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
    """Plain text with a document in each line."""

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
        return batch_of(texts, wanted, file, lambda number: f"line {first() + number}")


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
    """Yield blocks of lines, each with a function that returns its first line number.

    The block of a line that is too long is None. Lines are counted when the function is
    called. Compressed files cannot be read again, so their lines are counted at once.
    """
    count = 0
    before = _LinesBefore(storage, piece.file)
    is_counted = codec_of(piece.file) is not None
    with opened(storage, piece.file) as stream:
        for at, block in line_blocks(stream, piece.begin, piece.end, size, most):

            def first(at: int = at, known: int = count) -> int:
                return 1 + (known if is_counted else before(at))

            yield block, first
            if is_counted:
                count += 1 if block is None else block.count(b"\n")


class _LinesBefore:
    """Counts the lines that end before rising places of a file."""

    def __init__(self, storage: Storage, file: str) -> None:
        self._storage = storage
        self._file = file
        self._at = self._count = 0

    def __call__(self, end: int) -> int:
        if end < self._at:
            self._at = self._count = 0
        parts = self._storage.parts(self._file, self._at, end, _COUNTED_BYTES)
        self._count += sum(part.count(b"\n") for part in parts)
        self._at = end
        return self._count
