"""Costs of sequences: tokens, squared lengths of documents, images, and labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, singledispatch

import numpy as np
import numpy.typing as npt

from pagefeed.caches import SPANS_AT_ONCE, stored_numbers
from pagefeed.core._base import IGNORED, LABELS, Int64Array, StoredNumbers
from pagefeed.core.dataset import Dataset, lengths_of_rows, refuse_unknown_rows
from pagefeed.core.order import Costs
from pagefeed.core.sequences import (
    Cut,
    JoinedIndex,
    PackedIndex,
    SequenceIndex,
    WindowIndex,
)
from pagefeed.errors import InvalidArgumentError

AT_ONCE = 64
"""Sequences whose labels are read together."""


@singledispatch
def stored_squares(index: SequenceIndex) -> StoredNumbers | None:
    """Map sums of squared document lengths. Compute them if they are not stored.

    Returns:
        float32 [sequences]; None if the rows have no tokens, or their lengths are
        unknown.
    """
    return index.stored_squares()


@stored_squares.register
def _of_packed(index: PackedIndex) -> StoredNumbers:
    borders = np.ascontiguousarray(index.first_span).tobytes()

    def make(block: int) -> npt.NDArray[np.float64]:
        packing = index.packing(block)
        squares = np.square(packing.num_tokens.astype(np.float64))
        count = index.num_sequences_of(block)
        return np.bincount(packing.sequence, squares, count).astype(np.float64)

    size = index.num_sequences
    return stored_numbers(index.spans, make, len(index), size, index.identity, borders)


@stored_squares.register
def _of_windows(index: WindowIndex) -> StoredNumbers:
    refuse_unknown_rows(index.spans, "balance=")
    num_pieces = max(1, len(index.spans) // SPANS_AT_ONCE)
    size = index.num_sequences
    pieces = np.arange(num_pieces + 1) * size // num_pieces

    def make(piece: int) -> npt.NDArray[np.float64]:
        return _squares(index, *pieces[piece : piece + 2])

    cut = repr(index.windows)
    return stored_numbers(index.spans, make, num_pieces, size, cut, b"")


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
        self._beside: dict[str, list[StoredNumbers | None]] = {}
        # For documents only numbers of tokens are stored: squares follow from them.
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
            parts = self._index.parts
            numbers = [part.spans.index.numbers_beside.get(name) for part in parts]
            sums = [
                None if of_rows is None else of_rows.sums(part)
                for part, of_rows in zip(parts, numbers, strict=True)
            ]
            if all(values is None for values in sums):
                raise InvalidArgumentError(
                    f"balance=Balance({name}=...) has nothing to weigh: no dataset has "
                    f"{name}, or the sequences cut rows; leave {name}= out"
                )
            self._beside[name] = sums
        return _looked_up(self._index, self._beside[name], sequences)

    def _values(self, sequences: Int64Array) -> Float64Array:
        return _looked_up(self._index, self._arrays, sequences)


def learned_tokens(index: JoinedIndex, datasets: Sequence[Dataset], cut: Cut) -> Costs:
    """Return a function that gives the labelled tokens of sequences.

    The first process of a machine counts them in a pass over the data. The counts are
    stored with the index, 4 bytes a sequence.

    Args:
        index: The sequences of all datasets.
        datasets: The datasets.
        cut: The cut of the datasets into these sequences.
    """
    sizes = [part.num_sequences for part in index.parts]
    arrays = [*map(partial(_learned, cut), datasets, sizes)]
    return partial(_looked_up, index, arrays)


def _learned(cut: Cut, dataset: Dataset, size: int) -> StoredNumbers:
    """Map the labelled tokens of the sequences of a dataset; count them if needed."""
    columns = [column for column in dataset.aligned if column.column == LABELS]
    ignored = columns[0].padding if columns else IGNORED

    def count(_: int) -> Float64Array:
        from pagefeed.core.loader import Loader

        loader = Loader(
            dataset,
            sequences=cut,
            batch_size=AT_ONCE,
            shuffle=None,
            fields=("labels",),
            epochs=1,
            rank=0,
            world_size=1,
            drop_last=False,
        )
        counts = [(batch[LABELS] != ignored).sum(axis=1) for batch in loader]
        return np.concatenate([np.empty(0), *counts])[:size]  # None of padding.

    how = f"labels {cut.identity} {columns}"
    return stored_numbers(dataset.spans, count, 1, size, how, b"")


def _looked_up(
    index: JoinedIndex, arrays: Sequence[StoredNumbers | None], sequences: Int64Array
) -> Float64Array:
    """Return numbers of sequences; 0 for datasets that have none."""
    if len(arrays) == 1 and arrays[0] is not None:
        return arrays[0][sequences].astype(np.float64)
    dataset = index.dataset_of(sequences)
    values = np.zeros(len(sequences))
    for number in np.flatnonzero(np.bincount(dataset)).tolist():
        here, stored = dataset == number, arrays[number]
        if stored is not None:
            values[here] = stored[sequences[here] - index.first_sequence[number]]
    return values


def _stored(index: SequenceIndex) -> StoredNumbers:
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
