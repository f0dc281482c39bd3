"""Weights of datasets from a position on; many changes of them as one text."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.errors import InvalidArgumentError

__all__ = [
    "CODE_BITS",
    "PRECISE_CHANGES",
    "WeightChange",
    "coarse",
    "codes_of",
    "pack_changes",
    "rounded",
    "unpack_changes",
    "weights_of",
]

DIGITS = 9
"""Significant digits of a recorded weight."""
FRACTION_BITS = 6
CODE_BITS = 11
"""Bits of a coarse weight: 0, or an exponent of 2 and a fraction."""
LARGEST = (1 << CODE_BITS) - 1


class WeightChange(NamedTuple):
    """Weights from a position on, until the next change."""

    start: int
    """First position."""
    anneal: int
    """Positions over which the earlier weights change into these."""
    weights: tuple[float, ...]
    """Weight of a sequence of each dataset."""


def rounded(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights rounded as states record them, so that runs and states agree.

    Raises:
        InvalidArgumentError: If all are 0.
    """
    total = math.fsum(weights)
    if not total > 0:
        raise InvalidArgumentError(f"no weight is above 0: {list(weights)!r}")
    return tuple(float(f"{weight / total:.{DIGITS}g}") for weight in weights)


def codes_of(weights: Sequence[float]) -> npt.NDArray[np.uint16]:
    """Return codes of 11 bits that are within 0.8 % of weights: uint16 [weights].

    A code is 0 for no weight, else 1 plus a floating-point number of 5 bits of exponent
    and 6 of fraction, relative to the largest weight. A weight below 2**-31 of the
    largest gets the smallest code above 0, so that no dataset vanishes.

    Example:
        >>> weights_of(codes_of([4, 2, 0, 1e-12]))
        (0.666666667, 0.333333333, 0.0, 1.60071067e-10)
    """
    values = np.array(weights, dtype=np.float64)
    fraction, exponent = np.frexp(values / values.max())  # fraction in 0.5..1
    # The largest is 0.5 * 2**1: the number of its code is the largest one.
    steps = np.rint((fraction - 0.5) * (2 << FRACTION_BITS)).astype(np.int64)
    codes = LARGEST + ((exponent.astype(np.int64) - 1) << FRACTION_BITS) + steps
    clipped = np.clip(codes, 1, LARGEST)
    return np.where(values > 0, clipped, 0).astype(np.uint16)


def weights_of(codes: npt.NDArray[np.uint16]) -> tuple[float, ...]:
    """Return the weights of codes; the largest is LARGEST."""
    below = codes.astype(np.int64) - LARGEST
    exponent, steps = below >> FRACTION_BITS, below & ((1 << FRACTION_BITS) - 1)
    fraction = 0.5 + steps / (2 << FRACTION_BITS)
    values = np.ldexp(fraction, (exponent + 1).astype(np.int32))
    return rounded(np.where(codes > 0, values, 0.0).tolist())


VERSION = 1
PRECISE_CHANGES = 16
"""Changes that a state records with nine digits; weights of further ones are coarse."""
MOST_CHANGES = 1 << 20
"""Changes in a state, at most; a state with more is refused."""


def coarse(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights that take 11 bits each, within 0.8 % of the given ones."""
    return weights_of(codes_of(weights))


def pack_changes(
    changes: Sequence[WeightChange],
) -> tuple[list[WeightChange], dict[str, Any] | None]:
    """Divide changes into a list of exact ones, and a text of rounded ones.

    The list has the first changes, whatever their weights, and later changes that are
    not coarse. The text has columns of starts, anneals and codes, bit by bit from the
    highest, so that values which change little compress well.
    """
    listed, packed, codes = [*changes[:PRECISE_CHANGES]], [], []
    for change in changes[PRECISE_CHANGES:]:
        change_codes = codes_of(change.weights)
        if weights_of(change_codes) == change.weights:
            packed.append(change)
            codes.append(change_codes)
        else:
            listed.append(change)
    if not packed:
        return listed, None
    starts = np.diff([change.start for change in packed], prepend=0).astype("<i8")
    anneals = np.array([change.anneal for change in packed], dtype="<i8")
    bits = np.arange(CODE_BITS, dtype=np.uint16)[::-1, None, None]
    planes = (np.array(codes).T[None] >> bits) & 1
    columns = [*(c.view("u1").reshape(-1, 8).T for c in (starts, anneals))]
    content = b"".join([*(c.tobytes() for c in columns), np.packbits(planes).tobytes()])
    return listed, {
        "version": VERSION,
        "count": len(packed),
        "checksum": zlib.crc32(content),
        "text": base64.b85encode(zlib.compress(content, 9)).decode(),
    }


def unpack_changes(packed: dict[str, Any], num_datasets: int) -> list[WeightChange]:
    """Return the changes of a text of :func:`pack_changes`.

    Args:
        packed: What that returned.
        num_datasets: Datasets.

    Raises:
        ValueError: If it is something else, or damaged.
    """
    if packed["version"] != VERSION:
        raise ValueError(f"changes of version {packed['version']!r}, not {VERSION}")
    count = packed["count"]
    if not isinstance(count, int) or not 0 < count <= MOST_CHANGES:
        raise ValueError(f"count={count!r} of changes")
    num_codes = count * num_datasets
    size = 16 * count + -(-CODE_BITS * num_codes // 8)
    try:
        inflater = zlib.decompressobj()
        content = inflater.decompress(base64.b85decode(packed["text"]), size + 1)
    except zlib.error as error:
        raise ValueError(f"changes that cannot be inflated: {error}") from error
    if len(content) != size or zlib.crc32(content) != packed["checksum"]:
        raise ValueError("changes that do not have their checksum")
    raw = np.frombuffer(content, dtype="u1")
    deltas, anneals = (
        raw[8 * count * column :][: 8 * count].reshape(8, -1).T.copy().view("<i8")[:, 0]
        for column in range(2)
    )
    planes = np.unpackbits(raw[16 * count :], count=CODE_BITS * num_codes)
    shaped = planes.reshape(CODE_BITS, num_datasets, count).astype(np.uint16)
    bits = np.arange(CODE_BITS, dtype=np.uint16)[::-1, None, None]
    codes = (shaped << bits).sum(axis=0, dtype=np.uint16).T
    starts = np.cumsum(deltas).tolist()
    return [
        WeightChange(start, anneal, weights_of(change_codes))
        for start, anneal, change_codes in zip(
            starts, anneals.tolist(), codes, strict=True
        )
    ]
