"""Which sequences need a page that cannot be read."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset, PageIndex
from pagefeed.errors import PagefeedError
from pagefeed.sequences import (
    DocumentBatchIndex,
    DocumentIndex,
    SequenceIndex,
    are_bundles,
    with_erased,
)

__all__ = ["unreadable_sequences"]

MOST_SEQUENCES = 1 << 18
"""More are not looked for: nobody skips the steps of so many."""


def unreadable_sequences(
    dataset: Dataset, sequences: SequenceIndex, error: PagefeedError
) -> Int64Array:
    """Return the sequences with tokens of what an error about data names.

    Args:
        dataset: The dataset.
        sequences: The dataset, cut.
        error: With its file and row group; without a page it is all of the group.

    Returns:
        int64, rising; empty if that is not a part of the dataset, or too large.
    """
    if isinstance(sequences, DocumentBatchIndex):
        documents = DocumentIndex(sequences.spans, sequences.documents)
        found = unreadable_sequences(dataset, documents, error)
        return np.unique(sequences.batches_of(found)[0])
    rows = _rows(dataset, sequences, error)
    if rows is None:
        return np.empty(0, dtype=np.int64)
    begin, end = rows
    spread = partial(_spread, dataset.index, with_erased(sequences))
    every = range(sequences.num_sequences)
    first = bisect_left(every, begin, key=lambda number: spread(number)[1])
    stop = bisect_left(every, end, key=lambda number: spread(number)[0])
    if stop - first > MOST_SEQUENCES:
        return np.empty(0, dtype=np.int64)
    return np.arange(first, stop)


def _spread(index: PageIndex, sequences: SequenceIndex, number: int) -> tuple[int, int]:
    """First and last row of a sequence, numbered through the index.

    The last one is that of its last page: the index does not know where it ends.
    """
    segments = sequences.segments(np.array([number]))
    pages, rows = segments.page, segments.row
    if are_bundles(pages).any():
        bundle = sequences.bundles(pages)
        pages, rows = bundle.part_page, bundle.part_row
    first = int(index.first_rows(pages[:1])[0] + rows[0])
    if isinstance(sequences, DocumentIndex):
        return first, first
    return first, int(index.first_rows(pages[-1:] + 1)[0]) - 1


def _rows(
    dataset: Dataset, sequences: SequenceIndex, error: PagefeedError
) -> tuple[int, int] | None:
    """First row, and end, of the pages that an error names; None if it names none."""
    if error.file not in dataset.files or error.row_group is None:
        return None
    index = dataset.column_index(_column(dataset, sequences, error.column or ""))
    number = index.files.index(error.file)
    pages = range(*index.file_first_page[number : number + 2].tolist())
    group, page = error.row_group, error.page

    def place(number: int) -> tuple[int, int]:
        found = index.locate(number)
        return found.row_group, found.page

    last = (group + 1, 0) if page is None else (group, page + 1)
    begin = pages.start + bisect_left(pages, (group, page or 0), key=place)
    end = pages.start + bisect_left(pages, last, key=place)
    if begin == end:
        return None
    first_row, end_row = index.first_rows(np.array([begin, end])).tolist()
    return first_row, end_row


def _column(dataset: Dataset, sequences: SequenceIndex, leaf: str) -> str:
    """Return the column of the dataset, or of its documents, that has a leaf."""
    names = [each.column for each in dataset.aligned]
    if isinstance(sequences, DocumentIndex):
        names += sequences.documents.columns or ()
    names += (*dataset.metadata, *dataset.span_columns)
    found = [name for name in names if leaf == name or leaf.startswith(f"{name}.")]
    return found[0] if found else dataset.column
