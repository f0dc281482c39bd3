"""Dealing turns out to datasets by weight, evenly, in closed form.

A binary tree over the datasets deals the turns. Of the first j turns that reach a node,
the left side gets ``floor(j * ratio + phase)``, the right side the rest. So the dataset
of any turn, and its number among the turns of that dataset, are found in a few steps,
and the inverse too.

All arithmetic is exact in integers: ratios and phases are multiples of 2**-40, and
products of 80 bits are computed in halves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, distinct, lazy
from pagefeed.mixture.shape import Shape, best_shape, huffman_shape

__all__ = ["BITS", "MAX_TURN", "ONE", "Node", "Tree"]

BITS = 40
ONE = 1 << BITS
HALF_BITS = BITS // 2
MAX_TURN = 1 << 40
"""Turns of a lane at most; positions beyond are never reached."""
SMALLEST = 2.0**-60
"""Weights that differ by less than this share are equal."""
SHORT_TURN = 1 << 22
"""Below, a product with a ratio fits 63 bits."""

Members: TypeAlias = tuple[int, ...]
FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node of the tree; a leaf has one member and no sides."""

    members: Members
    """Datasets below it."""
    index: int = -1
    """Index of an inner node, which selects its phases."""
    ratio: int = 0
    """Share of its turns that go left, in units of 2**-40."""
    left: Node | None = None
    right: Node | None = None


class Tree:
    """Deals turns to datasets.

    Args:
        weights: Weight of each dataset, all above 0 for ``members``.
        members: The datasets that take part.
        best: Use the shape under which the fewest roundings add up; otherwise
            Huffman's, which changes little when weights change.

    Example:
        >>> tree = Tree([0.5, 0.25, 0.25], [0, 1, 2])
        >>> phases = np.full((1, 2), ONE // 2)
        >>> tree.deal(np.arange(4), phases, np.zeros(4, dtype=np.int64))[0].tolist()
        [0, 1, 0, 2]
    """

    def __init__(
        self, weights: Sequence[float], members: Sequence[int], *, best: bool = True
    ) -> None:
        total = math.fsum(weights[member] for member in members)
        self.shares = np.zeros(len(weights), dtype=np.int64)
        """Share of each dataset in units of 2**-40: int64 [datasets]."""
        for member in members:
            self.shares[member] = round(weights[member] / total * ONE)
        # What is lighter is never given a turn.
        weights = [max(weight, total * SMALLEST) for weight in weights]
        shape = (best_shape if best else huffman_shape)(weights, members)
        self.root, self.nodes = _build(shape, weights)
        """The inner nodes are by number."""
        self.sides = [
            (node.left.members, node.right.members)
            for node in self.nodes
            if node.left is not None and node.right is not None
        ]
        """Datasets on the two sides of each inner node."""

    def deal(
        self, turns: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> tuple[Int64Array, ...]:
        """Return the dataset of each turn, and the turns of that dataset before it.

        Args:
            turns: int64 [turns], counted from the tree's first.
            phases: int64 [rows, nodes], in units of 2**-40.
            rows: int64 [turns], which phases each has.
        """
        dataset = np.empty(len(turns), dtype=np.int64)
        count = np.empty(len(turns), dtype=np.int64)
        stack = [(self.root, np.arange(len(turns)), turns)]
        while stack:
            node, which, turn = stack.pop()
            if node.left is None or node.right is None:
                dataset[which], count[which] = node.members[0], turn
                continue
            before, rest = _scaled(turn, node.ratio, phases[rows[which], node.index])
            is_left = rest + node.ratio >= ONE
            is_right = ~is_left
            stack.append((node.left, which[is_left], before[is_left]))
            stack.append((node.right, which[is_right], (turn - before)[is_right]))
        return dataset, count

    def counts(self, turns: Int64Array, phases: Int64Array) -> Int64Array:
        """Return how many of the first ``turns`` each dataset gets.

        Args:
            turns: int64 [lanes].
            phases: int64 [lanes, nodes].

        Returns:
            int64 [lanes, datasets].
        """
        counts = np.zeros((len(turns), len(self.shares)), dtype=np.int64)
        stack = [(self.root, turns)]
        while stack:
            node, turn = stack.pop()
            if node.left is None or node.right is None:
                counts[:, node.members[0]] = turn
                continue
            before, _ = _scaled(turn, node.ratio, phases[:, node.index])
            stack += [(node.left, before), (node.right, turn - before)]
        return counts

    def count(
        self, dataset: int, turns: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> Int64Array:
        """Return how many of the first ``turns`` one dataset is dealt.

        Args:
            dataset: The dataset.
            turns: int64 [..., lanes].
            phases: int64 [rows, nodes].
            rows: int64 [lanes], which phases each has.

        Returns:
            int64 [..., lanes].
        """
        for node, is_left in self._path(dataset):
            before, _ = _scaled(turns, node.ratio, phases[rows, node.index])
            turns = before if is_left else turns - before
        return turns

    def turns_of(
        self, dataset: int, numbers: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> Int64Array:
        """Return the turns of a dataset with these numbers; the inverse of ``deal``.

        Args:
            dataset: The dataset.
            numbers: int64 [numbers].
            phases: int64 [rows, nodes].
            rows: int64 [numbers], which phases each has.

        Returns:
            int64 [numbers]; at least ``MAX_TURN`` for turns that are never reached.
        """
        turns = numbers
        for node, is_left in reversed(list(self._path(dataset))):
            ratio, phase = node.ratio, phases[rows, node.index]
            if not is_left:  # Its count rounds up where the left one rounds down.
                ratio, phase = ONE - ratio, ONE - 1 - phase
            turns = _turn_before(turns + 1, ratio, phase)
        return turns

    def first_end(
        self, left: Int64Array, members: Sequence[int], phases: Int64Array
    ) -> Int64Array:
        """Return after how many turns the first dataset reaches its limit.

        Args:
            left: int64 [lanes, datasets], turns that each dataset may still get, at
                least 1.
            members: Which of them to look at, at least one.
            phases: int64 [lanes, nodes].

        Returns:
            int64 [lanes].
        """
        wanted, rates = left[:, members], self._rates[members]
        ends = np.empty(len(left), dtype=np.int64)
        lanes, guess = np.arange(len(left)), (wanted / rates).argmin(axis=1)
        while len(lanes):
            for index in distinct(guess).tolist():
                mine = lanes[guess == index]
                last = wanted[mine, index] - 1
                ends[mine] = self.turns_of(members[index], last, phases, mine) + 1
            # Those that have had as much before that come first.
            counts = self.counts(ends[lanes] - 1, phases[lanes])
            over = counts[:, members] - wanted[lanes]
            guess = np.where(over < 0, -1, (over + 1) / rates).argmax(axis=1)
            is_late = (over >= 0).any(axis=1)
            lanes, guess = lanes[is_late], guess[is_late]
        return ends

    def sums(self, values: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return sums of values over the datasets below each inner node.

        Args:
            values: int64 [lanes, datasets].

        Returns:
            left: of those on its left side, int64 [lanes, nodes].
            both: of all below it, int64 [lanes, nodes].
        """
        leaves, begins, middles, ends = self._stretches
        before = np.zeros((len(values), len(leaves) + 1), dtype=np.int64)
        np.cumsum(values[:, leaves], axis=1, out=before[:, 1:])
        first = before[:, begins]
        return before[:, middles] - first, before[:, ends] - first

    @lazy
    def _stretches(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """The datasets from left to right, and from where to where a node's sides are.

        A node's left side goes from its begin to its middle, the right one to its end.
        """
        leaves: list[int] = []
        begins, middles, ends = ([0] * len(self.nodes) for _ in range(3))

        def walk(node: Node) -> None:
            if node.left is None or node.right is None:
                leaves.append(node.members[0])
                return
            begins[node.index] = len(leaves)
            walk(node.left)
            middles[node.index] = len(leaves)
            walk(node.right)
            ends[node.index] = len(leaves)

        walk(self.root)
        return leaves, begins, middles, ends

    @lazy
    def _rates(self) -> FloatArray:
        """Turns of each dataset for one turn of the tree, by its ratios."""
        rates = np.zeros(len(self.shares))
        stack = [(self.root, 1.0)]
        while stack:
            node, rate = stack.pop()
            if node.left is None or node.right is None:
                rates[node.members[0]] = rate
                continue
            to_left = node.ratio / ONE
            stack += [(node.left, rate * to_left), (node.right, rate * (1 - to_left))]
        return rates

    def _path(self, dataset: int) -> Iterator[tuple[Node, bool]]:
        node = self.root
        while node.left is not None and node.right is not None:
            is_left = dataset in node.left.members
            yield node, is_left
            node = node.left if is_left else node.right


def _scaled(
    turns: Int64Array, ratio: int, phases: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return floor and fraction, in units of 2**-40, of ``turns * ratio + phases``."""
    if turns.size == 0 or int(turns.max()) < SHORT_TURN:
        product = turns * ratio + phases
        return product >> BITS, product & (ONE - 1)
    upper = (turns >> HALF_BITS) * ratio
    lower = (turns & ((1 << HALF_BITS) - 1)) * ratio
    lower += (upper & ((1 << HALF_BITS) - 1)) << HALF_BITS
    lower += phases
    return (upper >> HALF_BITS) + (lower >> BITS), lower & (ONE - 1)


def _turn_before(counts: Int64Array, ratio: int, phases: Int64Array) -> Int64Array:
    """Return the last turn before which fewer than ``counts`` were dealt."""
    guess = (counts.astype(np.float64) * ONE - phases) / ratio
    turn = np.minimum(np.ceil(guess), MAX_TURN).astype(np.int64)
    # The guess is off by its rounding: a step or two lead to the first turn after
    # which there are so many.
    while True:
        few = (_scaled(turn, ratio, phases)[0] < counts) & (turn < MAX_TURN)
        if not few.any():
            break
        turn += few
    while True:
        below = turn - 1
        many = (turn > 0) & (_scaled(below, ratio, phases)[0] >= counts)
        if not many.any():
            break
        turn -= many
    never = _scaled(turn, ratio, phases)[0] < counts
    return np.where(never | (counts > MAX_TURN), MAX_TURN, turn - 1)


def _build(shape: Shape, weights: Sequence[float]) -> tuple[Node, list[Node]]:
    """Return the node of a shape, and add all inner nodes below it, in order."""
    inner: list[Node] = []

    def build(shape: Shape) -> tuple[Node, float]:
        if isinstance(shape, int):
            return Node(members=(shape,)), weights[shape]
        (left, left_weight), (right, right_weight) = map(build, shape)
        weight = left_weight + right_weight
        node = Node(
            members=tuple(sorted(left.members + right.members)),
            index=len(inner),
            ratio=min(max(round(left_weight / weight * ONE), 1), ONE - 1),
            left=left,
            right=right,
        )
        inner.append(node)
        return node, weight

    return build(shape)[0], inner
