"""Count pairs of sequences that share a page, or a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.sequences import JoinedIndex, PackedRuns, SequenceIndex
from pagefeed.reports.sampling import evenly

SAMPLED_BLOCKS, SAMPLED_SEQUENCES = 16, 256
DRAWN = 1 << 13
"""Sequences that are drawn, for what random batches share."""

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
        self._chance: Pairs | None = None
        """Chance that two sequences of a block share a page, and a file; None if these
        are counted one by one."""
        if isinstance(index, PackedRuns):
            chosen = evenly(len(self._blocks), SAMPLED_BLOCKS)
            samples = np.array([self._sampled(block) for block in chosen.tolist()])
            in_block, page, file = samples.reshape(-1, 3).sum(axis=0)
            self._chance = np.array([page, file]) / max(1, in_block)

    def at_random(self) -> Pairs:
        """Return the chances that two sequences share a page, and that they do a file.

        By a draw of sequences, or all if there are few.
        """
        most = self._index.num_sequences
        drawn = np.arange(most)
        if most > DRAWN:
            draw = np.random.default_rng(0).integers(most, size=DRAWN, dtype=np.int64)
            drawn = np.unique(draw)
        shared = self.of_batches(np.zeros_like(drawn), drawn)
        return shared / max(1.0, _pairs(np.array([len(drawn)])))

    def of_batches(self, batch: Int64Array, sequences: Int64Array) -> Pairs:
        """Return the pairs inside batches that share something."""
        if self._chance is None:
            read_together = self._pages_and_files(sequences)
            return np.array(
                [_same(batch[which], thing) for which, thing in read_together]
            )
        block = self._blocks.block_of(sequences)
        files = self._index.file_first_sequence
        file = np.searchsorted(files, sequences, side="right")
        between = _same(batch, file) - _same(batch, file, block)
        return _same(batch, block) * self._chance + [0, between]

    def _sampled(self, block: int) -> tuple[float, int, int]:
        """Return the pairs of a block, and how many of them share a page and a file."""
        borders = self._blocks.first_sequence(np.array([block, block + 1]))
        first, end = borders.tolist()
        chosen = first + evenly(end - first, SAMPLED_SEQUENCES)
        columns = self._pages_and_files(chosen)
        page, file = (_shared(*column, len(chosen)) for column in columns)
        pages, files = (int(np.triu(each, 1).sum()) for each in (page, file))
        return _pairs(np.array([len(chosen)])), pages, files

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
        expected += sharing.at_random() * (shares[member] ** 2 * possible)
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
