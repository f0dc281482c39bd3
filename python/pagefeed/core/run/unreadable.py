"""Which sequences need a page that cannot be read."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import Dataset
from pagefeed.core.sequences import SequenceIndex
from pagefeed.errors import PagefeedError

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
    rows = _rows(dataset, sequences, error)
    found = range(0) if rows is None else sequences.sequences_with_rows(*rows)
    return np.array(found if len(found) <= MOST_SEQUENCES else (), dtype=np.int64)


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
    names += (*sequences.columns, *dataset.metadata, *dataset.span_columns)
    found = [name for name in names if leaf == name or leaf.startswith(f"{name}.")]
    return found[0] if found else dataset.column
