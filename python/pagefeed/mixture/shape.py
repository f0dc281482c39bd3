"""Shapes of trees, and the search for the one that deals turns out most evenly.

At each inner node a count is rounded, by half a sequence per lane at most if the mean
of the lanes' phases is a half. The rounding of its parent counts in full for a dataset.
The rounding of a node further up counts by the dataset's share of its side. So a
dataset of weight w is off, in sequences per lane, by at most ::

    (1 + sum of w / W over the nodes above it, without the root) / 2

where W is a node's weight. The sum depends on the shape of the tree alone. It is below
1 for up to four datasets (two pairs). For five or more with steeply falling weights
there may be no such tree: weights of 44198, 32057, 13637, 2723 and 1 come to 1.06.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias, Union

import numpy as np

from pagefeed.core._base import Int64Array

__all__ = ["LARGEST_SUM", "Shape", "best_shape", "huffman_shape"]

Shape: TypeAlias = Union[int, tuple["Shape", "Shape"]]  # noqa: UP007 (it is recursive)
"""A dataset, or the shapes of a node's two sides."""

STEPS = 16
"""Sums are rounded to a 16th, so that similar ones are equal."""
MOST_SEARCHED = 128
"""With more datasets the tree is Huffman's: the search takes their number cubed."""
LARGEST_SUM = 2.36
"""No sum of a Huffman tree is larger: weights on the way up from a dataset grow like
Fibonacci's numbers, whose reciprocals come to 3.36 with the first."""


def best_shape(weights: Sequence[float], members: Sequence[int]) -> Shape:
    """Return the shape with the smallest largest sum, of many; Huffman's for very many.

    The datasets are put in a row, by falling weight and as the leaves of a Huffman tree
    ("A method for the construction of minimum-redundancy codes", 1952). All trees whose
    nodes are stretches of such a row are looked through by dynamic programming, as in
    Gilbert and Moore, "Variable-length binary encodings" (1959).

    Args:
        weights: Weight of each dataset, all above 0 for ``members``.
        members: The datasets that take part, at least one.

    Example:
        >>> best_shape([0.25, 0.5, 0.25], [0, 1, 2])
        (1, (0, 2))
    """
    if len(members) > MOST_SEARCHED:
        return huffman_shape(weights, members)
    by_weight = sorted(members, key=lambda member: (-weights[member], member))
    rows = [by_weight, _leaves(huffman_shape(weights, members))]

    def search(steps: int) -> tuple[float, Int64Array, list[int]]:
        results = [
            (*_search([weights[member] for member in row], steps / STEPS), row)
            for row in rows
        ]
        return max(results, key=lambda result: result[0])

    most = math.ceil(LARGEST_SUM * STEPS)
    least = bisect_left(range(most), 1, key=lambda steps: int(search(steps)[0] >= 0))
    _, cuts, row = search(least)
    return _cut(row, cuts, 0, len(row))


def huffman_shape(weights: Sequence[float], members: Sequence[int]) -> Shape:
    """Return the shape in which the two lightest are joined until all are one.

    The heavier is on the left; ties go by number.
    """
    heap: list[tuple[float, int, Shape]]
    heap = [(weights[member], member, member) for member in members]
    heapq.heapify(heap)
    for node in range(len(weights), len(weights) + len(members) - 1):
        light, _, right = heapq.heappop(heap)
        heavy, _, left = heapq.heappop(heap)
        heapq.heappush(heap, (light + heavy, node, (left, right)))
    return heap[0][2]


def _search(row: Sequence[float], largest: float) -> tuple[float, Int64Array]:
    """Find the trees over a row that leave most room below a largest sum.

    A stretch's room is what the sum of 1 / W over the nodes above it may come to. A
    dataset's is ``largest / w``; a node's is the smaller of its sides, less its 1 / W.

    Returns:
        room of the whole row: the sum can be had if it is at least 0.
        cuts: int64 [first, length], length of the left side of each stretch.
    """
    weights = np.array(row)
    count = len(weights)
    room_from = np.zeros((count + 1, count + 1))  # [first, length]
    room_until = np.zeros((count + 1, count + 1))  # [one past the last, length]
    cuts = np.zeros((count + 1, count + 1), dtype=np.int64)
    room_from[:-1, 1] = room_until[1:, 1] = largest / weights
    total = weights
    for length in range(2, count + 1):
        stretches = count + 1 - length
        left = room_from[:stretches, 1:length]
        right = room_until[length:, length - 1 : 0 : -1]
        room = np.minimum(left, right)
        cuts[:stretches, length] = room.argmax(axis=1) + 1
        total = total[:-1] + weights[length - 1 :]
        most = room.max(axis=1)
        if length < count:  # The root hands no rounding on.
            most -= 1 / total
        room_from[:stretches, length] = room_until[length:, length] = most
    return float(room_from[0, count]), cuts


def _cut(row: Sequence[int], cuts: Int64Array, first: int, length: int) -> Shape:
    if length == 1:
        return row[first]
    left = int(cuts[first, length])
    return (
        _cut(row, cuts, first, left),
        _cut(row, cuts, first + left, length - left),
    )


def _leaves(shape: Shape) -> list[int]:
    if isinstance(shape, int):
        return [shape]
    return _leaves(shape[0]) + _leaves(shape[1])
