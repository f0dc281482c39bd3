"""Spans of listed sizes, without files."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from pagefeed.core._base import joined_ranges
from pagefeed.core.dataset.spans import SpanSlices, cut_at


class ListedSpans:
    """Spans of listed sizes: of each file, the rows and the values of its spans."""

    erased = None
    index: Any = SimpleNamespace(
        null_pages=(), is_borderless=False, value_bytes=4, check_cut=lambda _: None
    )

    def __init__(self, files: list[list[tuple[int, int]]]) -> None:
        sizes = np.array([span for file in files for span in file], dtype=np.int64)
        rows, values = sizes.reshape(-1, 2).T
        self._rows = np.concatenate([[0], np.cumsum(rows)])
        self._values = np.concatenate([[0], np.cumsum(values)])
        self.file_first_span = np.cumsum([0, *map(len, files)])
        self.file_first_row = self._rows[self.file_first_span]
        self.file_first_value = self._values[self.file_first_span]
        self.num_rows, self.num_values = int(self._rows[-1]), int(self._values[-1])

    def __len__(self) -> int:
        return len(self._rows) - 1

    def first_rows(self, spans):
        return self._rows[spans]

    def first_values(self, spans):
        return self._values[spans]

    def cut(self, starts, stops, per_row):
        assert np.all((starts >= 0) & (starts < stops))
        assert np.all(stops <= self.num_values + per_row * self.num_rows)
        return cut_at(self._values, self._rows, per_row, starts, stops)

    def slices(self, first, end):
        offsets = np.append(0, np.cumsum(end - first)).astype(np.uint32)
        span = joined_ranges(first, end)
        page, row = self.places(span)
        num_rows = np.diff(self._rows)[span].astype(np.uint32)
        return SpanSlices(offsets, page, row, num_rows)

    def places(self, spans):
        return spans, np.zeros(len(spans), dtype=np.uint32)
