"""The order of an epoch in which each node reads a part of the files of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array
from pagefeed.core.order.epoch_order import Ordered
from pagefeed.core.order.permutation import checked_indices
from pagefeed.core.sequences import Blocks


@dataclass(frozen=True)
class PartOfBlocks:
    """The units ``first`` to ``end`` of blocks; outer blocks may be cut."""

    whole: Blocks
    first: int
    end: int

    @property
    def num_sequences(self) -> int:
        """Units of the part."""
        return self.end - self.first

    @property
    def _ends(self) -> tuple[int, int]:
        """The first block of the part, and one past the last."""
        if self.first == self.end:
            return 0, 0
        first, last = self.whole.block_of(np.array([self.first, self.end - 1])).tolist()
        return first, last + 1

    def __len__(self) -> int:
        """Return the number of blocks."""
        first, end = self._ends
        return end - first

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """Return the first unit of each block, counted from the part's: int64."""
        first = self.whole.first_sequence(blocks + self._ends[0])
        return np.clip(first, self.first, self.end) - self.first

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the block of each unit: int64."""
        return self.whole.block_of(sequences + self.first) - self._ends[0]


class NodesOrder(Ordered):
    """The order of an epoch that gives every node consecutive units of the files.

    Rank r of ``nodes * ranks`` belongs to node ``r // ranks``. Its positions hold units
    of its node's part alone, in an order of that part. A file that lies in two parts is
    opened by two nodes.

    Args:
        blocks: The units and the blocks they lie in.
        nodes: Number of nodes, and ranks of each.
        shift: Rank that takes the first position.
        make: Function that returns the order of some blocks, given those of a node and
            its number.

    Example:
        >>> from pagefeed.core.order import EpochOrder, Shuffle
        >>> from pagefeed.core.sequences import ExplicitBlocks
        >>> def make(blocks, node):
        ...     return EpochOrder(blocks, seed=node, epoch=0, name="", num_lanes=1,
        ...                       shuffle=Shuffle(block="row"), window=0)
        >>> blocks = ExplicitBlocks(range(0, 101, 10))
        >>> order = NodesOrder(blocks, (2, 1), 0, make)
        >>> sorted(order.at(range(0, 100, 2)).tolist()) == list(range(50))
        True
    """

    def __init__(
        self,
        blocks: Blocks,
        nodes: tuple[int, int],
        shift: int,
        make: Callable[[Blocks, int], Ordered],
    ) -> None:
        self._nodes, self._shift = nodes, shift
        self._num_units = blocks.num_sequences
        numbers = np.arange(nodes[0])
        self._before = self._count(shift, numbers)
        sizes = self._count(shift + self._num_units, numbers) - self._before
        self._first = np.append(0, np.cumsum(sizes))
        ends = self._first.tolist()
        self._parts = [
            make(PartOfBlocks(blocks, *ends[node : node + 2]), node)
            for node in range(nodes[0])
        ]

    def _count(self, positions: int | Int64Array, node: Int64Array) -> Int64Array:
        """Return how many of the first positions are of each node: int64."""
        ranks = self._nodes[1]
        rounds, slot = np.divmod(positions, self._nodes[0] * ranks)
        return rounds * ranks + np.clip(slot - node * ranks, 0, ranks)

    def begin(self) -> Iterator[None]:
        """Prepare the order of each part, in steps."""
        for part in self._parts:
            yield from part.begin()

    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the units at positions, a node after another: int64 [positions]."""
        checked = checked_indices(positions, self._num_units, "position").ravel()
        shifted = checked + self._shift
        nodes = shifted // self._nodes[1] % self._nodes[0]
        local = self._count(shifted, nodes) - self._before[nodes]
        units = np.empty(len(checked), dtype=np.int64)
        for node in np.unique(nodes).tolist():
            of_node = nodes == node
            found = yield from self._parts[node].reading(local[of_node])
            units[of_node] = self._first[node] + found
        return units

    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions of units: int64 [units]."""
        checked = checked_indices(units, self._num_units, "unit").ravel()
        nodes = np.searchsorted(self._first, checked, side="right") - 1
        local = np.empty(len(checked), dtype=np.int64)
        for node in np.unique(nodes).tolist():
            of_node = nodes == node
            local[of_node] = self._parts[node].positions(
                checked[of_node] - self._first[node]
            )
        count, ranks = self._nodes
        rounds, slot = np.divmod(local + self._before[nodes], ranks)
        return (rounds * count + nodes) * ranks + slot - self._shift
