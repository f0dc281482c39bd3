"""Files as streams, decompressed, and cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagefeed.prepare.texts.records import Piece, arrow
from pagefeed.storage import Storage

__all__ = [
    "COMPRESSED",
    "Whole",
    "codec_of",
    "line_blocks",
    "opened",
    "read_some",
    "with_compressed",
]

COMPRESSED = (".gz", ".zst", ".zstd")
"""Suffixes of files that are decompressed as they are read."""
COMPRESSION = 4
"""How much smaller texts are when they are compressed, about."""
READ_BYTES = 16 << 10
"""Of a compressed file at a time: as much before damage may be lost with it."""
STEP_BYTES = 8 << 20
"""Of any other file at a time: memory is taken for so much before it is read."""
_CODECS = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def with_compressed(*suffixes: str) -> tuple[str, ...]:
    """Return suffixes, and the same of compressed files."""
    ends = ("", *COMPRESSED)
    return tuple(suffix + end for suffix in suffixes for end in ends)


def codec_of(file: str) -> str | None:
    """Return how a file is compressed, by its name."""
    return next((codec for end, codec in _CODECS.items() if file.endswith(end)), None)


def opened(storage: Storage, file: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Open a file of any storage as a ``pyarrow.NativeFile``, decompressed."""
    stream = storage.open_arrow(file)
    codec = codec_of(file)
    return stream if codec is None else arrow().CompressedInputStream(stream, codec)


class Whole:
    """A format whose files are read from the begin to the end."""

    def pieces(self, storage: Storage, file: str, most: int) -> Iterator[Piece]:
        """Return the file as one."""
        del most
        times = 1 if codec_of(file) is None else COMPRESSION
        yield Piece(file, 0, None, storage.size(file) * times)


def line_blocks(
    stream: Any,  # noqa: ANN401
    begin: int,
    end: int | None,
    size: int,
    most: int,
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that begin in ``[begin, end)``, many at a time.

    Yields:
        Where the block begins, and whole lines of about ``size`` bytes together; of a
        line of more than ``most`` bytes None.
    """
    # The line at this place is of the piece before, unless one ended just there.
    at, left, is_passed = max(0, begin - 1), b"", begin > 0
    if at:
        stream.seek(at)
    while end is None or at < end:
        if is_passed:
            found = left.find(b"\n")
            passed = found + 1 if found >= 0 else len(left)
            at, left, is_passed = at + passed, left[passed:], found < 0
            if not is_passed:
                continue
        found = -1 if is_passed else _last_end(left, at, end, size, most)
        if found >= 0:
            yield from _not_too_long(at, left[: found + 1], most)
            at, left = at + found + 1, left[found + 1 :]
            continue
        if len(left) > most:
            yield at, None
            is_passed = True
            continue
        # More each time: a long line is not looked through again for every block.
        more, problem = read_some(
            stream, min(max(size, len(left)), most + size - len(left))
        )
        left += more
        if more and problem is None:
            continue
        if not is_passed:  # What came whole is not lost with the rest.
            whole = len(left) if problem is None else left.rfind(b"\n") + 1
            yield from _not_too_long(at, left[:whole], most)
        if problem is not None:
            raise problem
        return


def _last_end(left: bytes, at: int, end: int | None, size: int, most: int) -> int:
    """Where the last line ends that is taken of a buffer; negative if none is yet."""
    is_long = len(left) > most
    if end is None or at + len(left) < end:
        return left.rfind(b"\n") if is_long or len(left) >= size else -1
    found = left.find(b"\n", max(0, end - 1 - at))
    return left.rfind(b"\n") if is_long and found < 0 else found


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


def read_some(
    stream: Any,  # noqa: ANN401
    size: int,
) -> tuple[bytes, OSError | None]:
    """Read some bytes, fewer at the end, and return what ended that too early."""
    # What decompresses before damage is not lost with it.
    is_compressed = isinstance(stream, arrow().CompressedInputStream)
    step = READ_BYTES if is_compressed else STEP_BYTES
    parts, left = [], size
    try:
        while left > 0 and (part := stream.read(min(left, step))):
            parts.append(part)
            left -= len(part)
    except OSError as problem:
        return b"".join(parts), problem
    return b"".join(parts), None
