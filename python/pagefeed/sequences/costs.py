"""What sequences cost a model: their tokens, and the squared lengths of documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pagefeed._base import CheckedArray, Int64Array
from pagefeed.dataset import lengths_of_rows, refuse_unknown_rows
from pagefeed.errors import InvalidArgumentError
from pagefeed.sequences.document_batches import DocumentBatchIndex
from pagefeed.sequences.document_index import DocumentIndex
from pagefeed.sequences.epochs import numbers_of
from pagefeed.sequences.joined import JoinedIndex
from pagefeed.sequences.packed import PackedIndex
from pagefeed.sequences.stored_numbers import (
    SPANS_AT_ONCE,
    document_lengths,
    stored_numbers,
)
from pagefeed.sequences.windows import WindowIndex

__all__ = ["SequenceCosts", "differ_in_tokens"]

Float64Array = npt.NDArray[np.float64]


class SequenceCosts:
    """Tokens of sequences, and sums of the squared lengths of their documents.

    A number of 4 bytes for each sequence is kept beside the index. The first process of
    a machine makes them, in a pass over the lengths of all rows.

    Args:
        index: The sequences.

    Raises:
        InvalidArgumentError: If sequences have no documents, or no tokens.
    """

    def __init__(self, index: JoinedIndex) -> None:
        self._index = index
        self._parts = [_stored(part) for part in index.parts]
        # Of documents their tokens are kept, of which all the rest follows.
        self._length = index.length
        self._is_documents = differ_in_tokens(index)

    def tokens(self, sequences: Int64Array) -> Float64Array:
        """Return the tokens of sequences; padding counts, where it has a fixed place.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.minimum(self._known(sequences), self._length)
        return np.full(len(sequences), float(self._length))

    def squares(self, sequences: Int64Array) -> Float64Array:
        """Return the sum of squared lengths of each sequence's documents.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.square(self.tokens(sequences))
        return self._known(sequences)

    def _known(self, sequences: Int64Array) -> Float64Array:
        sequences = numbers_of(sequences)
        if len(self._parts) == 1:
            return self._parts[0][sequences].astype(np.float64)
        part = self._index.dataset_of(sequences)
        known = np.empty(len(sequences))
        for number in np.flatnonzero(np.bincount(part)).tolist():
            here = part == number
            local = sequences[here] - self._index.first_sequence[number]
            known[here] = self._parts[number][local]
        return known


def differ_in_tokens(index: JoinedIndex) -> bool:
    """Return whether sequences have unlike numbers of tokens: documents have."""
    part = index.parts[0]
    is_batch = isinstance(part, DocumentBatchIndex)
    return isinstance(part, DocumentIndex) and not is_batch


def _stored(index: object) -> CheckedArray:
    """Map what is known of the sequences of a dataset, or make it first."""
    known: tuple[Callable[[int], npt.NDArray[np.float64]], int, str, bytes]
    if isinstance(index, PackedIndex | DocumentBatchIndex):
        borders = np.ascontiguousarray(index.first_span).tobytes()
        known = index.squares, len(index.first_span) - 1, index.identity, borders
    elif isinstance(index, WindowIndex):
        refuse_unknown_rows(index.spans, "balance=")
        num_pieces = max(1, len(index.spans) // SPANS_AT_ONCE)
        pieces = np.arange(num_pieces + 1) * index.num_sequences // num_pieces
        cut = repr(index.windows)
        known = (lambda n: _of_windows(index, *pieces[n : n + 2])), num_pieces, cut, b""
    elif isinstance(index, DocumentIndex) and index.reads_lengths:
        return document_lengths(index.spans)
    else:
        raise InvalidArgumentError(
            "balance= needs tokens, and these documents have columns only: give "
            "Documents a max_length, or leave balance out"
        )
    return stored_numbers(index.spans, *known)


def _of_windows(index: WindowIndex, first: int, last: int) -> Float64Array:
    """Sums of squares of windows: parts at both ends, and whole documents between."""
    starts, stops = index.token_ranges(np.arange(first, last))
    if not len(starts):
        return np.empty(0)
    span, end = index.lines.spans_of(np.array([starts[0], stops[-1] - 1])).tolist()
    lengths = lengths_of_rows(index.spans, span, end + 1) + index.layout.per_row
    borders = np.append(0, np.cumsum(lengths)) + index.lines.first(span)
    squares = np.append(0, np.cumsum(np.square(lengths.astype(np.float64))))
    begin = np.searchsorted(borders, starts, side="left")
    behind = np.searchsorted(borders, stops, side="right") - 1
    whole = squares[behind] - squares[begin]
    ends = np.square(borders[begin] - starts) + np.square(stops - borders[behind])
    within: Float64Array = np.square((stops - starts).astype(np.float64))
    return np.where(behind < begin, within, whole + ends)
