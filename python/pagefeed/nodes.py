"""A part of the files for each node, shuffled separately; one order and one state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array, check_whole
from pagefeed.core.order import Ordered
from pagefeed.core.sequences import Blocks

__all__ = ["Nodes"]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a run, each of which reads a part of the files.

    In every epoch, the ranks of a node deliver consecutive sequences of the files,
    shuffled within this part. Other nodes do not open these files, apart from files
    that two parts share. See docs/recipes/files-of-each-node.md.

    Args:
        count: Number of nodes.
        ranks: Ranks of each node. Node n has the ranks from ``n * ranks`` on.

    Raises:
        InvalidArgumentError: If a number is below 1.

    Example:
        >>> from pagefeed import Shuffle
        >>> Shuffle(nodes=Nodes(4, 8)).identity
        "Shuffle('page', nodes=4x8)"
    """

    count: int
    ranks: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_whole(self.count, "count", least=1)
        check_whole(self.ranks, "ranks", least=1)

    @property
    def world_size(self) -> int:
        """Ranks of all nodes."""
        return self.count * self.ranks

    def order(
        self, blocks: Blocks, first: int, make: Callable[[Blocks, int], Ordered]
    ) -> Ordered:
        """Return the order of an epoch, made of one for each node.

        Args:
            blocks: The units and the blocks they lie in.
            first: Number of the first position, counted from a step's beginning on.
            make: Function that returns the order of some blocks, given those of a node
                and its number.
        """
        return NodesOrder(blocks, self, first % self.world_size, make)


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

    Args:
        blocks: The units and the blocks they lie in.
        nodes: The nodes.
        shift: Rank that takes the first position.
        make: As :meth:`Nodes.order` takes it.
    """

    def __init__(
        self,
        blocks: Blocks,
        nodes: Nodes,
        shift: int,
        make: Callable[[Blocks, int], Ordered],
    ) -> None:
        self._nodes, self._shift = nodes, shift
        numbers = np.arange(nodes.count)
        self._before = self._count(shift, numbers)
        sizes = self._count(shift + blocks.num_sequences, numbers) - self._before
        self._first = np.append(0, np.cumsum(sizes))
        ends = self._first.tolist()
        self._parts = [
            make(PartOfBlocks(blocks, *ends[node : node + 2]), node)
            for node in range(nodes.count)
        ]

    def _count(self, positions: int | Int64Array, node: Int64Array) -> Int64Array:
        """Return how many of the first positions are of each node: int64."""
        ranks = self._nodes.ranks
        rounds, slot = np.divmod(positions, self._nodes.world_size)
        return rounds * ranks + np.clip(slot - node * ranks, 0, ranks)

    def begin(self) -> Iterator[None]:
        """Prepare the order of each part, in steps."""
        for part in self._parts:
            yield from part.begin()

    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the units at positions, a node after another: int64 [positions]."""
        shifted = np.asarray(positions, dtype=np.int64).ravel() + self._shift
        nodes = shifted // self._nodes.ranks % self._nodes.count
        local = self._count(shifted, nodes) - self._before[nodes]
        units = np.empty(len(shifted), dtype=np.int64)
        for node in np.unique(nodes).tolist():
            of_node = nodes == node
            found = yield from self._parts[node].reading(local[of_node])
            units[of_node] = self._first[node] + found
        return units

    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions of units: int64 [units]."""
        checked = np.asarray(units, dtype=np.int64).ravel()
        nodes = np.searchsorted(self._first, checked, side="right") - 1
        local = np.empty(len(checked), dtype=np.int64)
        for node in np.unique(nodes).tolist():
            of_node = nodes == node
            local[of_node] = self._parts[node].positions(
                checked[of_node] - self._first[node]
            )
        count, ranks = self._nodes.count, self._nodes.ranks
        rounds, slot = np.divmod(local + self._before[nodes], ranks)
        return (rounds * count + nodes) * ranks + slot - self._shift
