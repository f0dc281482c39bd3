"""Deletion vectors: roaring bitmaps of deleted rows, as tables store them."""

from __future__ import annotations

import zlib

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.errors import ChecksumError, CorruptFileError

__all__ = ["rows_of_vector"]

MAGIC = 1_681_511_377
"""Of vectors in Puffin files and in files of Delta tables alike."""
WITH_RUNS, WITHOUT_RUNS = 12_347, 12_346
"""How a roaring bitmap of 32 bits begins: the cookies of its format."""
NO_OFFSETS = 4
"""A bitmap with runs and fewer containers than this stores no offsets."""
ARRAY_ROWS = 4096
"""A container with more rows is a bitset, unless it is runs."""
BITSET_BYTES = 8192


def rows_of_vector(stored: bytes, cardinality: int | None) -> Int64Array:
    """Return the rows of a vector as it is stored: length, magic, bitmap, checksum.

    Args:
        stored: The bytes.
        cardinality: How many rows there must be, as the table says; None if it does
            not.

    Returns:
        Numbers of deleted rows of a file, rising: int64.

    Raises:
        ChecksumError: If the checksum is not that of the bytes.
        CorruptFileError: If these are no such vector, or of other rows.
    """
    reader = _Reader(stored)
    length = reader.number(4, "big")
    data = reader.take(length)
    expected, found = reader.number(4, "big"), zlib.crc32(data)
    if expected != found:
        raise ChecksumError(
            f"the stored checksum is {expected:#010x}, that of the bytes {found:#010x}"
        )
    reader.check_end()
    inside = _Reader(data)
    magic = inside.number(4)
    if magic != MAGIC:
        raise CorruptFileError(f"it begins with {magic}, expected {MAGIC}")
    rows = _rows_of_64(inside)
    inside.check_end()
    if cardinality is not None and len(rows) != cardinality:
        raise CorruptFileError(
            f"the table says that {cardinality} rows are deleted, the vector holds "
            f"{len(rows)}"
        )
    return rows


class _Reader:
    """Numbers one after the other; little-endian unless told."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise CorruptFileError(
                f"it ends after {len(self._data)} bytes, expected {end} at least"
            )
        found, self._at = self._data[self._at : end], end
        return found

    def number(self, size: int, order: str = "little") -> int:
        return int.from_bytes(self.take(size), "big" if order == "big" else "little")

    def numbers(self, count: int) -> Int64Array:
        """Numbers of 16 bits each."""
        return np.frombuffer(self.take(2 * count), dtype="<u2").astype(np.int64)

    def check_end(self) -> None:
        if self._at != len(self._data):
            raise CorruptFileError(
                f"{len(self._data) - self._at} bytes follow behind its end"
            )


def _rows_of_64(reader: _Reader) -> Int64Array:
    """Rows of a bitmap of 64 bits: a count, then bitmaps of 32 bits by high halves."""
    found, last = [np.empty(0, dtype=np.int64)], -1
    for _ in range(reader.number(8)):
        high = reader.number(4)
        if high <= last or high >= 1 << 31:
            raise CorruptFileError(f"the high halves of rows do not rise at {high}")
        found.append((high << 32) + _rows_of_32(reader))
        last = high
    return np.concatenate(found)


def _rows_of_32(reader: _Reader) -> Int64Array:
    """Rows of a roaring bitmap in its portable format."""
    cookie = reader.number(4)
    if cookie & 0xFFFF == WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(reader.take((count + 7) // 8), dtype=np.uint8)
        is_run = np.unpackbits(flags, count=count, bitorder="little").astype(bool)
    elif cookie == WITHOUT_RUNS:
        count = reader.number(4)
        if count > 1 << 16:
            raise CorruptFileError(f"it has {count} containers, 65,536 at most")
        is_run = np.zeros(count, dtype=bool)
    else:
        raise CorruptFileError(f"a bitmap begins with {cookie}, which is none")
    heads = reader.numbers(2 * count).reshape(-1, 2)
    keys, sizes = heads[:, 0], heads[:, 1] + 1
    if (np.diff(keys) <= 0).any():
        raise CorruptFileError("the containers of a bitmap do not rise")
    if cookie == WITHOUT_RUNS or count >= NO_OFFSETS:
        reader.take(4 * count)  # Where containers begin: they lie in this order.
    parts = [np.empty(0, dtype=np.int64)]
    for key, size, run in zip(
        keys.tolist(), sizes.tolist(), is_run.tolist(), strict=True
    ):
        parts.append((key << 16) + _container(reader, size, run=run))
    return np.concatenate(parts)


def _container(reader: _Reader, size: int, *, run: bool) -> Int64Array:
    """Rows of 16 bits: as runs, as they are, or as bits."""
    if run:
        first, more = reader.numbers(2 * reader.number(2)).reshape(-1, 2).T
        ends = np.cumsum(more + 1)
        rows = np.arange(size if ends[-1:].sum() == size else 0)
        if len(rows):
            rows += np.repeat(first - (ends - more - 1), more + 1)
    elif size > ARRAY_ROWS:
        bits = np.frombuffer(reader.take(BITSET_BYTES), dtype=np.uint8)
        rows = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    else:
        rows = reader.numbers(size)
    if len(rows) != size or (np.diff(rows) <= 0).any() or rows[-1:].sum() >= 1 << 16:
        raise CorruptFileError("a container holds other rows than its head says")
    return rows
