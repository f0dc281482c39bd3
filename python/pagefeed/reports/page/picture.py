"""A picture of numbers as PNG, inside the page."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np
import numpy.typing as npt

__all__ = ["heat_map", "png"]


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return an image of shades of grey.

    Args:
        pixels: uint8 [height, width], 0 black.

    Example:
        >>> png(np.zeros((2, 3), dtype=np.uint8))[1:4]
        b'PNG'
    """
    height, width = pixels.shape
    # Each line begins with the number of its filter: none.
    raw = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(raw, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def heat_map(counts: npt.NDArray[np.int64], *, title: str) -> str:
    """Return a picture of counts: int64 [height, width].

    Where all are the same it is grey, white where there is nothing, and black from
    twice the mean on.
    """
    mean = max(1e-9, float(counts.mean()))
    pixels = (255 - np.minimum(225, 112.5 * counts / mean)).astype(np.uint8)
    data = base64.b64encode(png(pixels)).decode()
    return (
        f'<img class="map" alt="{html.escape(title)}" '
        f'src="data:image/png;base64,{data}">'
    )
