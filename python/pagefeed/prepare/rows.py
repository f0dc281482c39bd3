"""The tokens of the documents of a dataset, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pagefeed.core._base import in_order, require
from pagefeed.core.dataset import Dataset, PageIndex
from pagefeed.errors import UnsupportedError
from pagefeed.flat import TokenRows

__all__ = ["rows_of"]


def rows_of(dataset: Dataset, first: int = 0) -> Iterator[TokenRows]:
    """Yield the documents of a dataset from number ``first`` on, a page at a time.

    Reads pages ahead, with a thread per CPU. A null row is an empty document.

    Raises:
        UnsupportedError: If the column is no list of integers.
        MissingDependencyError: If pyarrow is not installed.
    """
    arrow = require("pyarrow", extra="pyarrow", purpose="converting datasets")
    spans = dataset.spans
    pages, rows = spans.places(np.arange(len(spans)))
    borders = spans.first_rows(np.arange(len(spans) + 1))
    first_span = int(np.searchsorted(borders[1:], first, side="right"))

    def read(span: int) -> TokenRows:
        page = _page(spans.index, int(pages[span]), arrow)
        left_out = max(first - int(borders[span]), 0)
        begin = int(rows[span]) + left_out
        stop = int(rows[span]) + int(borders[span + 1] - borders[span])
        return page.some(begin, stop)

    return in_order(read, range(first_span, len(spans)))


def _page(index: PageIndex, page: int, arrow: Any) -> TokenRows:
    array = arrow.array(index.read_page(page))
    if not arrow.types.is_large_list(array.type):
        array = array.cast(arrow.large_list(array.type.value_type))
    kind = array.type.value_type
    if not arrow.types.is_integer(kind):
        raise UnsupportedError(
            f"column {index.column!r} holds {kind}, and tokens are integers: tokenize "
            "it first"
        )
    values = array.flatten()  # It skips values under null rows.
    if values.null_count:
        raise UnsupportedError(
            f"column {index.column!r} holds a null token on page {page}: write it "
            "without"
        )
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return TokenRows(values.to_numpy(zero_copy_only=False), offsets)
