"""Deletion vectors: roaring bitmaps of deleted rows, as tables store them."""

from __future__ import annotations

import zlib

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.errors import ChecksumError, CorruptFileError

__all__ = ["rows_of_vector"]

MAGIC = 1_681_511_377
"""First bytes of a vector, in Puffin files and in files of Delta tables."""


def rows_of_vector(stored: bytes, cardinality: int | None) -> Int64Array:
    """Return the rows in a stored vector, which has length, magic, bitmap, checksum.

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
    library = require("pyroaring", extra="iceberg", purpose="reading Iceberg tables")
    size = 8 + int.from_bytes(stored[:4], "big")
    data, checksum = stored[4:-4], stored[-4:]
    if len(stored) != size or len(data) < 4:
        raise CorruptFileError(f"it has {len(stored)} bytes, expected {size}")
    expected, found = int.from_bytes(checksum, "big"), zlib.crc32(data)
    if expected != found:
        raise ChecksumError(
            f"the stored checksum is {expected:#010x}, that of the bytes {found:#010x}"
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
