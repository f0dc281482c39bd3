"""Runs of pages with so many tokens at least: the blocks of what is made of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import CheckedArray, Int64Array
from pagefeed.core.dataset import BlockKind, Spans
from pagefeed.core.sequences.blocks import Blocks, ExplicitBlocks
from pagefeed.core.sequences.cut import Join
from pagefeed.core.sequences.kept_numbers import sums_of_rows
from pagefeed.core.sequences.lines import Lines

__all__ = ["PackedRuns", "block_starts"]


def block_starts(lines: Lines, least: int, join: Join) -> Int64Array:
    """Return the first span of each block, and the number of spans: int64.

    A block takes runs of spans until it has ``least`` tokens; the last of a line takes
    what is left, when that is less. All lines advance together.

    Args:
        lines: The tokens of all rows.
        least: Tokens of a block.
        join: ``"dataset"`` lets blocks run over small files, ``"file"`` does not.
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
    """Sequences that are made run by run of pages, numbered through.

    Of a run are kept its first span and its first sequence.
    """

    spans: Spans
    identity: str
    """How rows are cut."""
    first_span: Int64Array
    """First span of each run, and the number of spans: int64 [runs + 1]."""

    def _number(self, counts: npt.ArrayLike) -> None:
        """Number the sequences, so many of each run."""
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
        """Return the rows that sequences have tokens of, and which of these each is in.

        Reads the lengths of the rows of their runs.

        Returns:
            Numbers of rows of the spans, and indexes into ``sequences``: int64 each.
        """

    def stored_sums(self, name: str) -> CheckedArray | None:
        """Map the sum of what the rows of each sequence bring along, or make it."""
        return sums_of_rows(
            self.spans,
            name,
            self.num_sequences,
            self.documents_of,
            self.identity,
            np.ascontiguousarray(self.first_span).tobytes(),
        )

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the run that each sequence is made of: int64."""
        return np.searchsorted(self._first_sequence, sequences, side="right") - 1


def _lines_of_files(file_first: Int64Array, least: int, join: Join) -> Int64Array:
    """Return the first file of each line of files, and the number of files.

    A line takes files until it has ``least`` tokens; what is left at the end and has
    less joins the last line. Most files are lines of their own.

    Args:
        file_first: Tokens before each file, and of all: int64 [files + 1].
        least: Tokens of a line.
        join: ``"file"`` makes every file a line.
    """
    if join == "file":
        return np.arange(len(file_first))
    before: list[int] = file_first.tolist()
    starts, following = [0], 0
    last = bisect_right(before, before[-1] - least) - 1  # Where a line may begin yet.
    while True:
        following = bisect_left(before, before[following] + least)
        if following > last:
            return np.array([*starts, len(before) - 1], dtype=np.int64)
        starts.append(following)
