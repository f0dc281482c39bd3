"""Sizes such as ``"64MiB"``, ``"1.5GB"``, or a number of bytes."""

from __future__ import annotations

import re

from pagefeed.core._base.arguments import check_positive
from pagefeed.errors import InvalidArgumentError

__all__ = ["format_bytes", "parse_bytes"]

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(value: int | str, *, name: str) -> int:
    """Return a size in bytes.

    Args:
        value: Bytes, or a number with a unit: ``"512KiB"``, ``"64 MiB"``, ``"1GB"``.
        name: The argument's name, for the error.

    Raises:
        InvalidArgumentError: If it is not a size, or not positive.

    Example:
        >>> parse_bytes("64MiB", name="memory")
        67108864
    """
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise InvalidArgumentError(
                f"{name}={value!r} is not a size: give bytes, or a number with one of "
                "KiB, MiB, GiB, TiB, KB, MB, GB, TB"
            )
        size = float(match[1]) * unit
    else:
        size = check_positive(value, name)
    if not 0 < size < 1 << 63:
        raise InvalidArgumentError(
            f"{name}={value!r:.60} must be more than 0 bytes, and less than 8 EiB"
        )
    return int(size)


def format_bytes(size: float) -> str:
    """Return a size as text in binary units.

    Example:
        >>> format_bytes(67108864)
        '64.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
