"""Arrays as short text, for states."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.errors import StateMismatchError


def packed(values: npt.NDArray[Any]) -> str:
    """Return an array as text; :func:`unpacked` reads it."""
    stored = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return b64encode(zlib.compress(stored.tobytes(), 1)).decode()


def unpacked(text: Any, dtype: npt.DTypeLike, size: int, name: str) -> npt.NDArray[Any]:
    """Return the array of ``size`` values that :func:`packed` wrote, one axis.

    Raises:
        StateMismatchError: If the text is not such an array.

    Example:
        >>> unpacked(packed(np.arange(3)), np.int64, 3, "out").tolist()
        [0, 1, 2]
    """
    num_bytes = size * np.dtype(dtype).itemsize
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(b64decode(text, validate=True), num_bytes + 1)
    except (TypeError, ValueError, zlib.error) as error:
        raise StateMismatchError(
            f"{name}={text!r:.60} in the state is not a packed array: {error}"
        ) from error
    if len(data) != num_bytes or not reader.eof or reader.unused_data:
        raise StateMismatchError(
            f"{name} in the state must hold {size} numbers, but holds more or fewer"
        )
    stored = np.dtype(dtype).newbyteorder("<")
    return np.frombuffer(data, stored).astype(dtype)
