"""Many changes of weights as one text in a state."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagefeed.mixture.weights import (
    CODE_BITS,
    WeightChange,
    codes_of,
    weights_of,
)

__all__ = ["PRECISE_CHANGES", "coarse", "pack_changes", "unpack_changes"]

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

    The first ones are listed, whatever their weights, and so are later ones that are
    not coarse. The text holds columns of starts, anneals and codes, bit by bit from the
    highest, so that what changes little takes little.
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
