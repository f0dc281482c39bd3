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
    FileRange,
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

_COUNTED_BYTES = 8 << 20


class LineReader(Reader):
    """Files that can be divided at the ends of lines, unless they are compressed."""

    most_bytes = 1 << 31
    """Most bytes of a block of lines."""

    def ranges(self, storage: Storage, file: str, most: int) -> Iterator[FileRange]:
        """Divide a file."""
        if codec_of(file) is not None:
            yield from super().ranges(storage, file, most)
            return
        size = storage.size(file)
        count = max(1, -(-size // most))
        borders = [size * index // count for index in range(count + 1)]
        for begin, end in itertools.pairwise(borders):
            if begin < end or count == 1:
                yield FileRange(file, begin, end, end - begin)

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the records of a range.

        Lines of the ranges before are counted when a position is asked for.
        """
        size = min(self.most_bytes, wanted.batch_bytes)
        before = cache(lambda: _num_before(storage, file_range))
        count = 0
        with opened(storage, file_range.file) as stream:
            for _, block in line_blocks(
                stream, file_range.begin, file_range.end, size, wanted.record_bytes
            ):

                def first(counted: int = count) -> int:
                    return 1 + before() + counted

                if block is None:
                    error = too_long(wanted.record_bytes)
                    rejected = Rejected(file_range.file, f"line {first()}", error)
                    yield rejection(rejected, wanted)
                    count += 1
                    continue
                batch, num_lines = self.batch(block, first, file_range.file, wanted)
                yield batch
                count += num_lines

    @abstractmethod
    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> tuple[Batch, int]:
        """Return the records of some lines, and the number of these lines.

        ``first`` returns the number of the first line in its file.
        """


class TextLines(LineReader):
    """Reads plain text in which each line is a document."""

    suffixes = with_compressed(".txt", ".text")

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the only column."""
        del storage, file
        return {"text": arrow().string()}

    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> tuple[Batch, int]:
        """Return the lines."""
        lines = block.removesuffix(b"\n").split(b"\n")
        texts = (
            Sample(n, {wanted.source: line.removesuffix(b"\r")})
            for n, line in enumerate(lines)
        )
        batch = batch_of(
            texts, wanted, file, lambda line_in_block: f"line {first() + line_in_block}"
        )
        return batch, len(lines)


class PlainText(Reader):
    """Plain text with one document in a file."""

    suffixes = TextLines.suffixes

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the two columns."""
        del storage, file
        return {"text": arrow().string(), "file": arrow().string()}

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the document."""
        with opened(storage, file_range.file) as stream:
            text, problem = read_some(stream, wanted.record_bytes + 1)
        if problem is not None:
            raise problem
        if len(text) > wanted.record_bytes:
            error = too_long(wanted.record_bytes)
            yield rejection(Rejected(file_range.file, "the file", error), wanted)
            return
        sample = Sample("the file", {"file": file_range.file, wanted.source: text})
        yield batch_of([sample], wanted, file_range.file, str)


def _num_before(storage: Storage, file_range: FileRange) -> int:
    """Return the number of lines before a range."""
    if not file_range.begin:
        return 0
    # The line end at its begin, or the next one, is the last before its first line.
    parts = storage.parts(file_range.file, 0, file_range.begin - 1, _COUNTED_BYTES)
    return 1 + sum(map(num_ends, parts))


def num_ends(block: bytes) -> int:
    """Return the number of line ends, a few times as fast as ``bytes.count``."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
