"""Files as streams, decompressed, and cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagefeed.prepare.texts.records import arrow
from pagefeed.storage import Storage

__all__ = [
    "COMPRESSED",
    "COMPRESSION",
    "codec_of",
    "line_blocks",
    "opened",
    "with_compressed",
]

COMPRESSED = (".gz", ".zst", ".zstd")
"""Suffixes of files that are decompressed as they are read."""
COMPRESSION = 4
"""How much smaller texts are when they are compressed, about."""
READ_BYTES = 16 << 10
"""Of a compressed file at a time: as much before damage may be lost with it."""
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
    stream = storage.arrow_filesystem().open_input_file(file)
    codec = codec_of(file)
    return stream if codec is None else arrow().CompressedInputStream(stream, codec)


def line_blocks(
    stream: Any,  # noqa: ANN401
    begin: int,
    end: int | None,
    size: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in ``[begin, end)``, many at a time.

    Yields:
        Where the block begins, and whole lines of about ``size`` bytes together.
    """
    at, left = 0, b""
    # What decompresses before damage is not lost with it.
    step = READ_BYTES if isinstance(stream, arrow().CompressedInputStream) else size
    if begin:
        # The line at this place is of the piece before, unless one ended just there.
        at = begin - 1
        stream.seek(at)
        while (found := left.find(b"\n")) < 0:
            at += len(left)
            left = stream.read(size)
            if not left:
                return
        at, left = at + found + 1, left[found + 1 :]
    while end is None or at < end:
        found = -1
        if end is None or at + len(left) < end:
            found = left.rfind(b"\n") if len(left) >= size else -1
        else:
            found = left.find(b"\n", end - 1 - at)
        if found < 0:
            more, problem = _read(stream, max(size, len(left)), step)
            left += more
            if problem is not None:  # What came whole is not lost with the rest.
                yield at, left[: left.rfind(b"\n") + 1]
                raise problem
            if not more:
                if left:
                    yield at, left
                return
            continue
        yield at, left[: found + 1]
        at, left = at + found + 1, left[found + 1 :]


def _read(stream: Any, size: int, step: int) -> tuple[bytes, OSError | None]:  # noqa: ANN401
    """Read some bytes, and return what ended that too early."""
    parts, left = [], size
    try:
        while left > 0 and (part := stream.read(min(left, step))):
            parts.append(part)
            left -= len(part)
    except OSError as problem:
        return b"".join(parts), problem
    return b"".join(parts), None
