"""Sizes of images, read from their headers alone."""

from __future__ import annotations

import struct

Size = tuple[int, int]

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG whose segment has the size."""
_ALONE = frozenset(range(0xD0, 0xD9)) | {0x01}
"""Markers of JPEG without a segment."""


MAX_SIDE = (1 << 31) - 1
"""Longest side of a PNG, by its specification; other formats have shorter ones."""


def is_possible(width: int, height: int) -> bool:
    """Return whether an image may have this size."""
    return 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE


def size_of(data: bytes | memoryview) -> Size | None:
    """Return width and height of an image in pixels; None if its header has none.

    PNG, JPEG, WebP and GIF are supported. The size is that of the stored pixels: an
    EXIF orientation, which may exchange width and height, is ignored.

    Example:
        >>> size_of(b"GIF89a" + bytes([3, 0, 2, 0]))
        (3, 2)
    """
    view = memoryview(data)
    for magic, read in _FORMATS.items():
        if view[: len(magic)] == magic:
            try:
                width, height = read(view)
            except (struct.error, IndexError):
                return None
            return (width, height) if is_possible(width, height) else None
    return None


def _png(view: memoryview) -> Size:
    name, width, height = struct.unpack_from(">4sII", view, 12)
    return (width, height) if name == b"IHDR" else (0, 0)


def _gif(view: memoryview) -> Size:
    width, height = struct.unpack_from("<HH", view, 6)
    return width, height


def _webp(view: memoryview) -> Size:
    kind = bytes(view[8:16])
    if kind == b"WEBPVP8 " and bytes(view[23:26]) == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", view, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"WEBPVP8L" and view[20] == 0x2F:
        [bits] = struct.unpack_from("<I", view, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"WEBPVP8X":
        low, wide, high, tall = struct.unpack_from("<HBHB", view, 24)
        return (low | wide << 16) + 1, (high | tall << 16) + 1
    return 0, 0


def _jpeg(view: memoryview) -> Size:
    at = 2
    while view[at] == 0xFF:
        marker = view[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", view, at + 5)
            return width, height
        if marker == 0xFF:  # Filling up.
            at += 1
        elif marker in _ALONE:
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", view, at + 2)[0]
    return 0, 0


_FORMATS = {
    b"\x89PNG\r\n\x1a\n": _png,
    b"\xff\xd8": _jpeg,
    b"RIFF": _webp,
    b"GIF87a": _gif,
    b"GIF89a": _gif,
}
"""First bytes of each format, and the function that reads its header."""
