"""Costs of sequences: tokens, squared lengths of documents, and images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import CheckedArray, Int64Array
from pagefeed.core.dataset import lengths_of_rows, refuse_unknown_rows
from pagefeed.core.sequences import (
    SPANS_AT_ONCE,
    JoinedIndex,
    PackedIndex,
    SequenceIndex,
    WindowIndex,
    stored_numbers,
)
from pagefeed.errors import InvalidArgumentError


@singledispatch
def stored_squares(index: SequenceIndex) -> CheckedArray | None:
    """Map sums of squared document lengths. Compute them if they are not stored.

    Returns:
        float32 [sequences]; None if the rows have no tokens, or their lengths are
        unknown.
    """
    return index.stored_squares()


@stored_squares.register
def _of_packed(index: PackedIndex) -> CheckedArray:
    borders = np.ascontiguousarray(index.first_span).tobytes()

    def make(block: int) -> npt.NDArray[np.float64]:
        packing = index.packing(block)
        squares = np.square(packing.num_tokens.astype(np.float64))
        count = index.num_sequences_of(block)
        return np.bincount(packing.sequence, squares, count).astype(np.float64)

    return stored_numbers(index.spans, make, len(index), index.identity, borders)


@stored_squares.register
def _of_windows(index: WindowIndex) -> CheckedArray:
    refuse_unknown_rows(index.spans, "balance=")
    num_pieces = max(1, len(index.spans) // SPANS_AT_ONCE)
    pieces = np.arange(num_pieces + 1) * index.num_sequences // num_pieces

    def make(piece: int) -> npt.NDArray[np.float64]:
        return _squares(index, *pieces[piece : piece + 2])

    return stored_numbers(index.spans, make, num_pieces, repr(index.windows), b"")


def _squares(index: WindowIndex, first: int, last: int) -> npt.NDArray[np.float64]:
    """Return sums of squares of windows, whose outer documents may be cut."""
    starts, stops = index.token_ranges(np.arange(first, last))
    if not len(starts):
        return np.empty(0)
    lines, spans = index.lines, index.spans
    span, end = lines.spans_of(np.array([starts[0], stops[-1] - 1])).tolist()
    lengths = lengths_of_rows(spans, span, end + 1) + index.layout.per_row
    borders = np.append(0, np.cumsum(lengths)) + lines.first(span)
    squares = np.append(0, np.cumsum(np.square(lengths.astype(np.float64))))
    begin = np.searchsorted(borders, starts, side="left")
    behind = np.searchsorted(borders, stops, side="right") - 1
    whole = squares[behind] - squares[begin]
    ends = np.square(borders[begin] - starts) + np.square(stops - borders[behind])
    within: npt.NDArray[np.float64] = np.square((stops - starts).astype(np.float64))
    return np.where(behind < begin, within, whole + ends)


Float64Array = npt.NDArray[np.float64]


class SequenceCosts:
    """Tokens of sequences, and sums of the squared lengths of their documents.

    Each cost takes 4 bytes per sequence, stored with the index. The first process of a
    machine computes them, in a pass over the lengths of all rows.

    Args:
        index: The sequences.

    Raises:
        InvalidArgumentError: If sequences have no documents, or no tokens.
    """

    def __init__(self, index: JoinedIndex) -> None:
        self._index = index
        self._arrays = [_stored(of_dataset) for of_dataset in index.parts]
        self._beside: dict[str, list[CheckedArray | None]] = {}
        # For documents the tokens are kept; all else follows from them.
        self._length = index.length
        self._is_documents = index.tokens_differ

    def tokens(self, sequences: Int64Array) -> Float64Array:
        """Return the tokens of sequences, including padding of a fixed size.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.minimum(self._values(sequences), self._length)
        return np.full(len(sequences), float(self._length))

    def squares(self, sequences: Int64Array) -> Float64Array:
        """Return the sum of squared document lengths in each sequence.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.square(self.tokens(sequences))
        return self._values(sequences)

    def beside(self, name: str, sequences: Int64Array) -> Float64Array:
        """Return sums of named numbers of the rows, such as costs of images; 0 if none.

        Returns:
            float64 [sequences].

        Raises:
            InvalidArgumentError: If no dataset has such numbers.
        """
        if name not in self._beside:
            sums = [of_dataset.stored_sums(name) for of_dataset in self._index.parts]
            if all(values is None for values in sums):
                raise InvalidArgumentError(
                    f"balance=Balance({name}=...) has nothing to weigh: no dataset has "
                    f"{name}, or the sequences cut rows; leave {name}= out"
                )
            self._beside[name] = sums
        return self._of(self._beside[name], sequences)

    def _values(self, sequences: Int64Array) -> Float64Array:
        return self._of(self._arrays, sequences)

    def _of(
        self, arrays: Sequence[CheckedArray | None], sequences: Int64Array
    ) -> Float64Array:
        """Return numbers of sequences; 0 for datasets that have none."""
        if len(arrays) == 1 and arrays[0] is not None:
            return arrays[0][sequences].astype(np.float64)
        dataset = self._index.dataset_of(sequences)
        values = np.zeros(len(sequences))
        for index in np.flatnonzero(np.bincount(dataset)).tolist():
            here, stored = dataset == index, arrays[index]
            if stored is not None:
                local = sequences[here] - self._index.first_sequence[index]
                values[here] = stored[local]
        return values


def _stored(index: SequenceIndex) -> CheckedArray:
    """Map the costs of the sequences of a dataset.

    Compute them if they are not stored.
    """
    stored = stored_squares(index)
    if stored is None:
        raise InvalidArgumentError(
            "balance= needs tokens, and these documents have columns only: give "
            "Documents a max_length, or leave balance out"
        )
    return stored
