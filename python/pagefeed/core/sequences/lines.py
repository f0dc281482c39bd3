"""Lines: the tokens of rows, joined with separators; and runs of their pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from functools import partial

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, looked_up
from pagefeed.core.dataset import (
    BlockKind,
    Spans,
    refuse_null_tokens,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.core.sequences.cut import Join
from pagefeed.core.sequences.sequence_index import Blocks, ExplicitBlocks


class Lines:
    """Numbers the tokens of all rows and their separators.

    Every row, even an empty or null row, gets the same number of separators. So the
    index alone tells where a page begins among the tokens: ``values + per_row * rows``.

    Args:
        spans: The rows.
        per_row: Separators of a row.

    Raises:
        UnsupportedError: If the column holds texts, or a row has a null token.
        InvalidArgumentError: If there are separators, and the index does not know rows.
    """

    def __init__(self, spans: Spans, per_row: int) -> None:
        refuse_texts(spans.index, "cutting sequences")
        refuse_null_tokens(spans)
        if per_row:
            refuse_unknown_rows(spans, "a separator of documents")
        self.spans = spans
        self.per_row = per_row
        self.file_first = spans.file_first_value + per_row * spans.file_first_row
        """Tokens before each file, and the number of tokens: int64 [files + 1]."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""
        return int(self.file_first[-1])

    def first(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the number of tokens before each span; ``len(spans)`` gives all."""
        values = self.spans.first_values(spans)
        if self.per_row == 0:
            return values
        return values + self.per_row * self.spans.first_rows(spans)

    def row_range(self, row: int) -> tuple[int, int]:
        """Return where a row of the spans begins and ends here; reads its page."""
        span = self.spans.spans_of_rows([row])
        page, page_row = (int(value[0]) for value in self.spans.places(span))
        in_span = row - int(self.spans.first_rows(span)[0])
        offsets = self.spans.index.row_offsets(page)[page_row:]
        starts = offsets - offsets[0] + self.per_row * np.arange(len(offsets))
        begin = int(self.first(span)[0])
        return begin + int(starts[in_span]), begin + int(starts[in_span + 1])

    def spans_of(self, tokens: Int64Array) -> Int64Array:
        """Return the span that holds each of ``tokens``: int64, the last if several."""
        return self.spans.cut(tokens, tokens + 1, self.per_row).span


def block_starts(lines: Lines, least: int, join: Join) -> Int64Array:
    """Return the first span of each block, and the number of spans: int64.

    A block takes runs of spans until it has ``least`` tokens. The last block of a line
    takes the rest, if that is less. All lines advance together.

    Args:
        lines: The tokens of all rows.
        least: Tokens of a block.
        join: ``"dataset"`` lets a block cover several small files, ``"file"`` does not.
    """
    files = _lines_of_files(lines.file_first, least, join)
    spans = lines.spans
    runs = spans.runs("page")
    borders = spans.file_first_span[files]
    line = np.flatnonzero(np.diff(borders))
    starts = [borders[line]]
    begin = lines.file_first[files[line]]
    end = lines.file_first[files[line + 1]]
    going = begin + least <= end
    while going.any():
        begin, end = begin[going], end[going]
        span = lines.spans_of(begin + least - 1) + 1
        if runs is not None:
            run = np.searchsorted(runs, span)
            span = np.append(runs, len(spans))[run]
        begin = lines.first(span)
        going = begin + least <= end
        starts.append(span[going])
    return np.append(np.sort(np.concatenate(starts)), len(spans)).astype(np.int64)


class PackedRuns(ABC):
    """Sequences that each run of pages is made into, numbered consecutively.

    The first span and the first sequence of each run are stored.
    """

    spans: Spans
    identity: str
    """Text that identifies how rows are cut."""
    first_span: Int64Array
    """First span of each run, and the number of spans: int64 [runs + 1]."""

    def _number(self, counts: npt.ArrayLike) -> None:
        """Number the sequences, from the count of each run."""
        self._first_sequence = np.append(0, np.cumsum(counts, dtype=np.int64))
        self.num_sequences = int(self._first_sequence[-1])

    @property
    def file_first_sequence(self) -> Int64Array:
        """Sequences of runs that start before each file: int64 [files + 1]."""
        run = np.searchsorted(self.first_span, self.spans.file_first_span)
        return self._first_sequence[run]

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``: a run of pages, or those of a row group."""
        runs = self.spans.runs("row_group") if kind == "row_group" else None
        if runs is None:
            return ExplicitBlocks(self._first_sequence)
        group = np.searchsorted(runs, self.first_span[:-1], side="right")
        first = np.flatnonzero(np.diff(group, prepend=-1))
        borders = np.append(first, len(self.first_span) - 1)
        return ExplicitBlocks(self._first_sequence[borders])

    @abstractmethod
    def documents_of(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rows that have tokens in sequences, and the sequence of each row.

        Reads the lengths of the rows of their runs.

        Returns:
            Numbers of rows of the spans, and indexes into ``sequences``: int64 each.
        """

    def num_sequences_of(self, block: int) -> int:
        """Return the sequences that a run is made into."""
        return int(np.diff(self._first_sequence[block : block + 2])[0])

    @property
    def documents_key(self) -> tuple[str, bytes]:
        """Identity of the cut, and where runs begin."""
        return self.identity, np.ascontiguousarray(self.first_span).tobytes()

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the run that each sequence is made of: int64."""
        return looked_up(partial(_core.find_ranges, self._first_sequence), sequences)


def _lines_of_files(file_first: Int64Array, least: int, join: Join) -> Int64Array:
    """Return the first file of each line of joined files, and the number of files.

    A line takes files until it has ``least`` tokens. Remaining files with fewer tokens
    join the last line. Most files are a line each.

    Args:
        file_first: Tokens before each file, and of all: int64 [files + 1].
        least: Tokens of a line.
        join: ``"file"`` makes every file a line.
    """
    if join == "file":
        return np.arange(len(file_first))
    before: list[int] = file_first.tolist()
    starts, following = [0], 0
    last = bisect_right(before, before[-1] - least) - 1  # The last begin of a line.
    while True:
        following = bisect_left(before, before[following] + least)
        if following > last:
            return np.array([*starts, len(before) - 1], dtype=np.int64)
        starts.append(following)
