"""Readers of files, and files as decompressed streams and lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from pagefeed.core.storage import Storage
from pagefeed.prepare.texts.records import Batch, FileRange, Wanted, arrow

COMPRESSED = (".gz", ".zst", ".zstd")
"""Suffixes of files that are decompressed as they are read."""
COMPRESSION = 4
"""Approximate ratio by which texts compress."""
READ_BYTES = 16 << 10
"""Bytes of a compressed file read at once; up to as many before damage are lost."""
STEP_BYTES = 8 << 20
"""Bytes of any other file read at once, for which memory is allocated."""
_CODECS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def with_compressed(*suffixes: str) -> tuple[str, ...]:
    """Return suffixes, and these with the suffixes of compressed files."""
    ends = ("", *COMPRESSED)
    return tuple(suffix + end for suffix in suffixes for end in ends)


def codec_of(file: str) -> str | None:
    """Return the codec of a file by its name; None if it is not compressed."""
    return next((codec for end, codec in _CODECS.items() if file.endswith(end)), None)


def opened(storage: Storage, file: str) -> Any:
    """Open a file of any storage as a ``pyarrow.NativeFile``, decompressed."""
    stream = storage.open_arrow(file)
    codec = codec_of(file)
    return stream if codec is None else arrow().CompressedInputStream(stream, codec)


class Reader(ABC):
    """Reads files of one format."""

    suffixes: ClassVar[tuple[str, ...]]
    """Suffixes of the names of such files."""

    def ranges(self, storage: Storage, file: str, most: int) -> Iterator[FileRange]:
        """Divide a file into ranges of about ``most`` bytes; here it is one range."""
        del most
        times = 1 if codec_of(file) is None else COMPRESSION
        yield FileRange(file, 0, None, storage.size(file) * times)

    @abstractmethod
    def types(self, storage: Storage, file: str) -> dict[str, Any] | None:
        """Return the types of a file's columns by name; None if it may have any.

        Formats without types infer them from the first records.
        """

    @abstractmethod
    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the records of a range, always in the same order."""


def line_blocks(
    stream: Any, begin: int, end: int | None, size: int, most: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that begin in ``[begin, end)``, many at a time.

    Yields:
        The place of a block, and whole lines of about ``size`` bytes; None for a line
        of more than ``most`` bytes.
    """
    # The line at ``begin`` belongs to the range before, unless one ends there.
    at, left, is_passed = max(0, begin - 1), b"", begin > 0
    if at:
        stream.seek(at)
    while end is None or at < end:
        if is_passed:
            stop = left.find(b"\n") + 1
            is_passed, passed = not stop, stop or len(left)
            at, left = at + passed, left[passed:]
            if stop:
                continue
        elif stop := _end_of_lines(left, at, end, size, most):
            yield from _not_too_long(at, left[:stop], most)
            at, left = at + stop, left[stop:]
            continue
        elif len(left) > most:
            yield at, None
            is_passed = True
            continue
        # Read more each time, so that a long line is not searched for every block.
        wanted = min(max(size, len(left)), most + size - len(left))
        more, problem = read_some(stream, wanted)
        left += more
        if more and problem is None:
            continue
        if not is_passed:  # The last lines; if there is damage, those before it.
            whole = len(left) if problem is None else left.rfind(b"\n") + 1
            yield from _not_too_long(at, left[:whole], most)
        if problem is not None:
            raise problem
        return


def _end_of_lines(left: bytes, at: int, end: int | None, size: int, most: int) -> int:
    """Return the end of the last whole line in a buffer; 0 if no line ends."""
    is_long = len(left) > most
    if end is None or at + len(left) < end:
        return left.rfind(b"\n") + 1 if is_long or len(left) >= size else 0
    stop = left.find(b"\n", max(0, end - 1 - at)) + 1
    return left.rfind(b"\n") + 1 if is_long and not stop else stop


def _not_too_long(
    at: int, block: bytes, most: int
) -> Iterator[tuple[int, bytes | None]]:
    if len(block) <= most:
        if block:
            yield at, block
        return
    begin = 0
    while begin < len(block):
        end = block.find(b"\n", begin) + 1 or len(block)
        yield at + begin, block[begin:end] if end - begin <= most else None
        begin = end


def read_some(stream: Any, size: int) -> tuple[bytes, OSError | None]:
    """Read bytes, fewer at the end of the file; return also the error that ended it."""
    # Small steps keep what decompresses before damage.
    is_compressed = isinstance(stream, arrow().CompressedInputStream)
    step = READ_BYTES if is_compressed else STEP_BYTES
    parts, left = [], size
    try:
        while left > 0 and (chunk := stream.read(min(left, step))):
            parts.append(chunk)
            left -= len(chunk)
    except OSError as problem:
        return b"".join(parts), problem
    return b"".join(parts), None
