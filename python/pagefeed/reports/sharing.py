"""Count pairs of sequences that share a page, or a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.sequences import JoinedIndex, PackedRuns, SequenceIndex
from pagefeed.reports.sampling import evenly

COUNTED_BLOCKS = 1 << 20
SAMPLED_BLOCKS, SAMPLED_SEQUENCES = 16, 256

Pairs = npt.NDArray[np.float64]
"""Pairs that share a page, and pairs that share a file."""


class Sharing:
    """Counts the pairs of a dataset's sequences that share a page, or a file.

    A block of packed documents, or of batches of documents, is many pages, and a
    sequence has documents of some of them. For such blocks, the pairs that share
    something are estimated from a sample of blocks, in which the lengths of rows are
    read.
    """

    def __init__(self, index: SequenceIndex) -> None:
        self._index = index
        self._blocks = index.blocks("page")
        self._is_packed = isinstance(index, PackedRuns)
        chosen = evenly(len(self._blocks), SAMPLED_BLOCKS)
        samples = np.array([self._sampled(block) for block in chosen.tolist()])
        size, in_block, page, file, before = samples.reshape(-1, 5).sum(axis=0)
        self._chance = np.array([page, file]) / max(1, in_block)
        """Chance that two sequences of a block share a page, and a file."""
        self._before = before / max(1, size)
        """Chance that a sequence shares a page with the last one before its block."""

    def of_all(self) -> Pairs:
        """Return how many pairs of sequences share a page, and how many only a file."""
        files = self._index.file_first_sequence
        of_block = of_both = 0.0
        for first in range(0, len(self._blocks), COUNTED_BLOCKS):
            stop = min(first + COUNTED_BLOCKS, len(self._blocks))
            borders = self._blocks.first_sequence(np.arange(first, stop + 1))
            inside = files[(files > borders[0]) & (files < borders[-1])]
            of_block += _pairs(np.diff(borders))
            of_both += _pairs(np.diff(np.union1d(borders, inside)))
        between = _pairs(np.diff(files)) - of_both
        across = self._before * self._index.num_sequences
        return of_block * self._chance + [across, between]

    def of_batches(self, batch: Int64Array, sequences: Int64Array) -> Pairs:
        """Return the pairs inside batches that share something."""
        if not self._is_packed:
            read_together = self._pages_and_files(sequences)
            return np.array(
                [_same(batch[which], thing) for which, thing in read_together]
            )
        block = self._blocks.block_of(sequences)
        files = self._index.file_first_sequence
        file = np.searchsorted(files, sequences, side="right")
        between = _same(batch, file) - _same(batch, file, block)
        return _same(batch, block) * self._chance + [0, between]

    def _sampled(self, block: int) -> tuple[int, float, int, int, int]:
        """Look at a block.

        Returns:
            Its sequences, their pairs, how many of these share a page and a file, and
            how many sequences share a page with the last one before.
        """
        borders = self._blocks.first_sequence(np.array([block, block + 1]))
        first, end = borders.tolist()
        chosen = first + evenly(end - first, SAMPLED_SEQUENCES)
        before = first > 0 and not self._is_packed
        last = np.arange(first - before, first)
        columns = self._pages_and_files(np.append(last, chosen))
        page, file = (_shared(*column, len(last) + len(chosen)) for column in columns)
        within = slice(len(last), None)
        pages, files = (int(np.triu(e[within, within], 1).sum()) for e in (page, file))
        across = int(page[: len(last), within].sum())
        return len(chosen), _pairs(np.array([len(chosen)])), pages, files, across

    def _pages_and_files(
        self, sequences: Int64Array
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield the pages of sequences, then their files.

        Each as indexes into ``sequences`` and numbers, none twice.
        """
        index = self._index
        if isinstance(index, PackedRuns):
            row, which = index.documents_of(sequences)
            page = index.spans.places(index.spans.spans_of_rows(row))[0]
        else:
            segments = index.segments(sequences)
            which, page = segments.sequence, segments.page
        first_page = index.spans.index.file_first_page
        file = np.searchsorted(first_page, page, side="right")
        for thing in (page, file):
            both = np.unique(np.stack([which, thing]), axis=1)
            yield both[0], both[1]


def shared_pairs(
    joined: JoinedIndex,
    batch: Int64Array,
    sequences: Int64Array,
    shares: list[float],
    possible: float,
) -> tuple[Pairs, Pairs]:
    """Return how many pairs in batches share a page, and how many share a file.

    Args:
        joined: All sequences.
        batch: The batch of each sequence.
        sequences: The sequences of some batches.
        shares: Share of each dataset in what is delivered.
        possible: Number of pairs of a batch.

    Returns:
        The numbers in all these batches together, and in one batch that is drawn at
        random.
    """
    dataset = joined.dataset_of(sequences)
    pairs, expected = np.zeros(2), np.zeros(2)
    for member, own in enumerate(joined.parts):
        mine, sharing = dataset == member, Sharing(own)
        local = sequences[mine] - joined.first_sequence[member]
        pairs += sharing.of_batches(batch[mine], local)
        every = max(1.0, _pairs(np.array([own.num_sequences])))
        expected += sharing.of_all() * (shares[member] ** 2 * possible / every)
    return pairs, expected


def _shared(which: Int64Array, thing: Int64Array, count: int) -> npt.NDArray[np.bool_]:
    """Return which of ``count`` sequences share something: [count, count]."""
    things, column = np.unique(thing, return_inverse=True)
    has = np.zeros((count, len(things)), dtype=np.float32)
    has[which, column] = 1
    return np.asarray(has @ has.T > 0)


def _same(*keys: Int64Array) -> float:
    """Return the number of pairs that are alike in all keys."""
    return _pairs(np.unique(np.stack(keys), axis=1, return_counts=True)[1])


def _pairs(sizes: Int64Array) -> float:
    """Return the number of pairs inside groups of these sizes."""
    return float((sizes.astype(np.float64) * (sizes - 1) / 2).sum())
