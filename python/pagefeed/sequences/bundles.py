"""What a segment may point to: a page of the index, or a bundle of several.

Both are told by one number, so that segments are plain arrays: that of a page, or the
key of a bundle, which is larger than any page's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array

__all__ = ["Bundles", "are_bundles", "bundle_keys", "page_numbers"]

_FIRST_KEY = 1 << 62


def bundle_keys(numbers: Int64Array) -> Int64Array:
    """Return what stands for bundles in ``Segments.page``.

    Example:
        >>> are_bundles(bundle_keys(np.array([0, 7]))).tolist()
        [True, True]
        >>> page_numbers(bundle_keys(np.array([0, 7]))).tolist()
        [0, 7]
    """
    keys: Int64Array = numbers + _FIRST_KEY
    return keys


def are_bundles(pages: Int64Array) -> npt.NDArray[np.bool_]:
    """Return which of ``Segments.page`` stand for bundles: bool."""
    return pages >= _FIRST_KEY


def page_numbers(pages: Int64Array) -> Int64Array:
    """Return the number of each page, or bundle: int64."""
    return pages % _FIRST_KEY


class Bundles(NamedTuple):
    """Rows of several pages each, which are loaded and packed as one; int64 each."""

    key: Int64Array
    """What stands for it in ``Segments.page``: [bundles]."""
    num_sequences: Int64Array
    """Sequences its rows pack into: [bundles]."""
    part_offsets: Int64Array
    """Its first part, and the number of parts: [bundles + 1]."""
    part_page: Int64Array
    """Page of each part: [parts]."""
    part_row: Int64Array
    """First row of that page: [parts]."""
    part_rows: Int64Array
    """Number of rows: [parts]."""
