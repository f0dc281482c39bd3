"""Sequences of which the index tells in which span each starts."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import BlockKind
from pagefeed.core.sequences.blocks import Blocks
from pagefeed.core.sequences.sequence_index import SequenceIndex

__all__ = ["SpanIndex"]


class SpanIndex(SequenceIndex, Protocol):
    """Sequences whose blocks are those that start in one run of spans."""

    def first_of_spans(self, spans: Int64Array) -> Int64Array:
        """Return the sequences before each of ``spans``, ``len(spans)`` included."""

    def spans_of(self, sequences: Int64Array) -> Int64Array:
        """Return the span in which each sequence starts: int64."""

    @property
    def file_first_sequence(self) -> Int64Array:
        """Sequences that start before each file, and in all: int64 [files + 1]."""
        return self.first_of_spans(self.spans.file_first_span)

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``."""
        return _RunBlocks(self, self.spans.runs(kind))


class _RunBlocks:
    """The sequences that start in one run of spans; None if every span is a run."""

    def __init__(self, index: SpanIndex, runs: Int64Array | None) -> None:
        self._index, self._runs = index, runs
        self.num_sequences = index.num_sequences

    def __len__(self) -> int:
        return len(self._index.spans if self._runs is None else self._runs)

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """First sequence of each block, int64."""
        if self._runs is None:
            return self._index.first_of_spans(blocks)
        spans = np.append(self._runs, len(self._index.spans))[blocks]
        return self._index.first_of_spans(spans)

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Block of each sequence, int64."""
        spans = self._index.spans_of(sequences)
        if self._runs is None:
            return spans
        return np.searchsorted(self._runs, spans, side="right") - 1
