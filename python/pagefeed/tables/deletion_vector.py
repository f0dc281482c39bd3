"""Deletion vectors: roaring bitmaps of deleted rows, as tables store them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.core.storage import Storage
from pagefeed.errors import ChecksumError, CorruptFileError

MAGIC = 1_681_511_377
"""The same in Puffin files and in files of Delta tables."""
SMALL = 256 << 10
"""Unused bytes that are read with the vectors of a file, to read it once."""


def rows_of_vector(stored: bytes, cardinality: int | None) -> Int64Array:
    """Return the deleted rows in a vector of a file: length, magic, bitmap, checksum.

    Args:
        stored: The bytes of the vector.
        cardinality: Number of rows that the table says it has; None if it says nothing.

    Returns:
        Numbers of deleted rows of a file, rising: int64.

    Raises:
        ChecksumError: If the checksum does not match.
        CorruptFileError: If the bytes are not such a vector, or have other rows.
    """
    size = 8 + int.from_bytes(stored[:4], "big")
    data, checksum = stored[4:-4], stored[-4:]
    if len(stored) != size or len(data) < 4:
        raise CorruptFileError(f"it has {len(stored)} bytes, expected {size}")
    stored_sum, own_sum = int.from_bytes(checksum, "big"), zlib.crc32(data)
    if stored_sum != own_sum:
        raise ChecksumError(
            f"the stored checksum is {stored_sum:#010x}, that of the bytes "
            f"{own_sum:#010x}"
        )
    return rows_of_bitmap(data, cardinality)


def rows_of_bitmap(data: bytes, cardinality: int | None) -> Int64Array:
    """Return the deleted rows in a vector of a log: magic and bitmap.

    Args:
        data: The bytes of the vector.
        cardinality: See :func:`rows_of_vector`.

    Raises:
        CorruptFileError: If the bytes are not such a vector, or have other rows.
    """
    library = require(
        "pyroaring", extra="iceberg,delta", purpose="reading deletion vectors"
    )
    magic = int.from_bytes(data[:4], "little")
    if magic != MAGIC:
        raise CorruptFileError(f"it begins with {magic}, expected {MAGIC}")
    try:
        bitmap = library.BitMap64.deserialize(data[4:])
    except (IndexError, ValueError) as problem:
        raise CorruptFileError(f"pyroaring says: {problem}") from None
    if cardinality is not None and len(bitmap) != cardinality:
        raise CorruptFileError(
            f"the table says that {cardinality} rows are deleted, the vector holds "
            f"{len(bitmap)}"
        )
    return np.array(bitmap.to_array(), dtype=np.uint64).astype(np.int64)


def ranges_of_file(
    storage: Storage, path: str, magic: bytes, ranges: Sequence[tuple[int, int]]
) -> list[bytes]:
    """Return ranges of a file; with a single read if they are most of it.

    Args:
        storage: Storage of the file.
        path: The file.
        magic: The first bytes that the file must have.
        ranges: Begin and end of each.

    Raises:
        CorruptFileError: If the file does not begin with ``magic``.
    """
    end = max(end for _, end in ranges)
    wanted = sum(end - begin for begin, end in ranges)
    is_dense = end <= 2 * wanted + SMALL
    stored = storage.read(path, 0, end if is_dense else len(magic))
    if not stored.startswith(magic):
        raise CorruptFileError(
            f"it begins with {stored[: len(magic)]!r}, expected {magic!r}"
        )
    if is_dense:
        return [stored[begin:end] for begin, end in ranges]
    return [storage.read(path, begin, end) for begin, end in ranges]
