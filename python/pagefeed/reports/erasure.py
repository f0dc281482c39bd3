"""Proof that erasing documents changes the sequences that held them, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.sequences import PackedIndex, Segments, SequenceIndex, with_erased
from pagefeed.documents import DocumentIndex

__all__ = ["changed_sequences"]

CHUNK = 1 << 16


def changed_sequences(index: SequenceIndex) -> Int64Array:
    """Return the sequences that are planned otherwise than without any erasure.

    All sequences are planned both ways and compared. Of packed ones, pages of the
    blocks with erased rows are read.

    Returns:
        Their numbers, rising: int64.
    """
    if index.erased is None:
        return np.empty(0, dtype=np.int64)
    return np.array([*_changed(index)], dtype=np.int64)


def _changed(index: SequenceIndex) -> Iterator[int]:
    whole = with_erased(index)
    for begin in range(0, index.num_sequences, CHUNK):
        numbers = np.arange(begin, min(begin + CHUNK, index.num_sequences))
        if isinstance(index, DocumentIndex):
            yield from numbers[~index.are_left(numbers)].tolist()
        elif isinstance(index, PackedIndex):
            keys = index.segments(numbers).page
            bundles = index.bundles(np.unique(keys))
            changed = bundles.key[np.diff(bundles.erased_offsets) > 0]
            for sequence in numbers[np.isin(keys, changed)].tolist():
                now, then = index.parts(sequence), whole.parts(sequence)
                if not all(map(np.array_equal, now, then)):
                    yield sequence
        else:
            both = index.segments(numbers), whole.segments(numbers)
            yield from numbers[_differ(*both, len(numbers))].tolist()


def _differ(ours: Segments, theirs: Segments, count: int) -> Int64Array:
    """Return which sequences differ in their segments."""
    num_segments = [
        np.bincount(segments.sequence, minlength=count) for segments in (ours, theirs)
    ]
    differs = num_segments[0] != num_segments[1]
    ours, theirs = (
        Segments(*(column[~differs[segments.sequence]] for column in segments))
        for segments in (ours, theirs)
    )
    for our_column, their_column in zip(ours, theirs, strict=True):
        differs[ours.sequence[our_column != their_column]] = True
    return np.flatnonzero(differs)
