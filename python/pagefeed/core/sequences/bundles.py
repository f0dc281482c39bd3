"""Numbers in segments: those of pages, and of bundles, which are several pages as one.

The key of a bundle is larger than the number of any page, so segments are plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt32Array

_FIRST_KEY = 1 << 62


def bundle_keys(numbers: Int64Array) -> Int64Array:
    """Return the keys of bundles, which ``Segments.page`` holds for them.

    Example:
        >>> are_bundles(bundle_keys(np.array([0, 7]))).tolist()
        [True, True]
        >>> page_numbers(bundle_keys(np.array([0, 7]))).tolist()
        [0, 7]
    """
    return numbers + _FIRST_KEY


def are_bundles(pages: Int64Array) -> npt.NDArray[np.bool_]:
    """Return which of ``Segments.page`` are bundles: bool."""
    return pages >= _FIRST_KEY


def page_numbers(pages: Int64Array) -> Int64Array:
    """Return the number of each page or bundle: int64."""
    return pages % _FIRST_KEY


class Bundles(NamedTuple):
    """Bundles for the data plane: rows of several pages that are packed together."""

    key: Int64Array
    """Number of the bundle in ``Segments.page``: int64 [bundles]."""
    num_sequences: UInt32Array
    """Sequences its rows pack into: uint32 [bundles]."""
    slice_offsets: UInt32Array
    """Its first page slice, and the number of slices: uint32 [bundles + 1]."""
    slice_page: Int64Array
    """Page of each slice: int64 [slices]."""
    slice_row: UInt32Array
    """First row of the slice: uint32 [slices]."""
    slice_rows: UInt32Array
    """Number of its rows: uint32 [slices]."""
    erased_offsets: UInt32Array
    """Its first run of erased rows, and the number of runs: uint32 [bundles + 1]."""
    erased_first: UInt32Array
    """First row of each run, counted through the bundle: uint32 [runs]."""
    erased_end: UInt32Array
    """One past its last: uint32 [runs]."""

    @classmethod
    def none(cls) -> Bundles:
        """Return no bundles, for sequences that need none."""
        numbers, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint32)
        offsets = np.zeros(1, dtype=np.uint32)
        parts = numbers, counts, counts
        return cls(numbers, counts, offsets, *parts, offsets, counts, counts)

    @classmethod
    def joined(cls, several: Sequence[Bundles]) -> Bundles:
        """Return the bundles of several, at least one, in their order."""
        if len(several) == 1:
            return several[0]
        columns = cls(*(np.concatenate(c) for c in zip(*several, strict=True)))
        return columns._replace(
            slice_offsets=_joined([bundles.slice_offsets for bundles in several]),
            erased_offsets=_joined([bundles.erased_offsets for bundles in several]),
        )


def _joined(offsets: Sequence[UInt32Array]) -> UInt32Array:
    """Return the offsets of joined arrays."""
    counts = np.concatenate([np.diff(borders) for borders in offsets])
    joined = np.zeros(len(counts) + 1, dtype=np.uint32)
    np.cumsum(counts, out=joined[1:])
    return joined
