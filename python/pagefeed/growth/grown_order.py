"""The order of an epoch over data that grew in its middle."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.order import Ordered, expand_key, hash64

__all__ = ["GrownOrder"]

GROUPS = 16
"""Groups of a block: all blocks have as many new ones."""
LAST = np.uint64(2**63)
"""Sorts after all drawn numbers."""


class GrownOrder(Ordered):
    """An order whose first positions are unchanged; the rest mixes old and new blocks.

    Old and new sequences each keep their order, and are mixed in groups. A group has as
    many sequences as there are lanes, so that each rank stays in its lanes. Every block
    of 16 groups has the same number of new groups, at positions drawn by the key, so
    that no rank and no step gets more of them. An incomplete group comes last.

    Args:
        before: The order of the earlier data.
        added: The order of the added data.
        sizes: Sequences of both.
        position: Sequences that were delivered before the data grew.
        group: Sequences of a group.
        key: Key of the epoch.

    Example:
        >>> from pagefeed.core.order import EpochOrder, Shuffle
        >>> from pagefeed.core.sequences import ExplicitBlocks
        >>> blocks = ExplicitBlocks(range(9))
        >>> in_order = EpochOrder(blocks, seed=1, epoch=0, name="", num_lanes=1,
        ...                       shuffle=Shuffle(block=None), window=0)
        >>> GrownOrder(in_order, in_order, sizes=(8, 8), position=4, group=2, key=b""
        ...            ).at(np.arange(16)).tolist()
        [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 6, 7]
    """

    def __init__(
        self,
        before: Ordered,
        added: Ordered,
        *,
        sizes: tuple[int, int],
        position: int,
        group: int,
        key: bytes,
    ) -> None:
        self._before, self._added = before, added
        self._size, self._position, self._group = sizes[0], position, group
        left = sizes[0] - position
        self._old_groups, self._new_groups = left // group, sizes[1] // group
        self._groups = self._old_groups + self._new_groups
        self._old_rest = left % group
        first, second = expand_key(key, 2)
        self._key = first, second

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""
        yield from self._before.begin()
        yield from self._added.begin()

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the sequences at positions; numbers of added sequences come last."""
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        is_new, place_in_order = self._places(wanted)
        sequences = np.empty(len(wanted), dtype=np.int64)
        for which, order, first in (
            (~is_new, self._before, 0),
            (is_new, self._added, self._size),
        ):
            if which.any():
                sequences[which] = first + (
                    yield from order.reading(place_in_order[which])
                )
        return sequences

    def _places(
        self, positions: Int64Array
    ) -> tuple[npt.NDArray[np.bool_], Int64Array]:
        """Return whether positions hold added data, and the position in its order."""
        behind = positions - self._position
        group, inside = np.divmod(behind, self._group)
        block, at = np.divmod(group.clip(0, max(0, self._groups - 1)), GROUPS)
        drawn = self._drawn(block)
        is_new = np.take_along_axis(drawn, at[:, None], axis=1)[:, 0]
        earlier = drawn & (np.arange(GROUPS) < at[:, None])
        news = self._new_before(block) + earlier.sum(axis=1)
        place_in_order = np.where(is_new, news, group - news) * self._group + inside
        rest = behind - self._groups * self._group
        is_rest = rest >= 0
        is_new[is_rest] = rest[is_rest] >= self._old_rest
        of_rest = np.where(
            is_new,
            self._new_groups * self._group + rest - self._old_rest,
            self._old_groups * self._group + rest,
        )
        place_in_order[is_rest] = of_rest[is_rest]
        place_in_order[~is_new] += self._position
        is_new[behind < 0] = False
        place_in_order[behind < 0] = positions[behind < 0]
        return is_new, place_in_order

    def _new_before(self, block: Int64Array) -> Int64Array:
        """Return how many new groups come before blocks."""
        groups = np.minimum(block * GROUPS, self._groups)
        return groups * self._new_groups // max(1, self._groups)

    def _drawn(self, block: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which groups of blocks are new: bool [blocks, GROUPS]."""
        blocks, which = np.unique(block, return_inverse=True)
        group = blocks[:, None] * GROUPS + np.arange(GROUPS)
        lots = hash64(group, self._key) >> np.uint64(1)
        lots[group >= self._groups] = LAST
        rank = lots.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        count = self._new_before(blocks + 1) - self._new_before(blocks)
        return (rank < count[:, None])[which]

    def _turn(self, nth: Int64Array, block: Int64Array, *, is_new: bool) -> Int64Array:
        """Return the position of the n-th new group, or of the n-th old one."""
        before = self._new_before(block)
        if not is_new:
            before = np.minimum(block * GROUPS, self._groups) - before
        others_first = np.argsort(self._drawn(block) ^ is_new, axis=1, kind="stable")
        at = (nth - before).clip(0, GROUPS - 1)
        return block * GROUPS + np.take_along_axis(others_first, at[:, None], 1)[:, 0]

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return where sequences are delivered."""
        wanted = np.asarray(units, dtype=np.int64).ravel()
        delivered = np.empty(len(wanted), dtype=np.int64)
        is_new = wanted >= self._size
        old = self._before.positions(wanted[~is_new])
        group, inside = np.divmod(old - self._position, self._group)
        block = group * self._groups // max(1, self._old_groups) // GROUPS
        block = block.clip(0, max(0, self._groups - 1) // GROUPS)
        turn = self._turn(group, block, is_new=False)
        rest = self._groups - self._old_groups
        turn = np.where(group < self._old_groups, turn, group + rest)
        moved = self._position + turn * self._group + inside
        delivered[~is_new] = np.where(old < self._position, old, moved)
        new = self._added.positions(wanted[is_new] - self._size)
        group, inside = np.divmod(new, self._group)
        block = ((group + 1) * self._groups - 1) // max(1, self._new_groups) // GROUPS
        block = block.clip(0, max(0, self._groups - 1) // GROUPS)
        turn = self._turn(group, block, is_new=True)
        rest = self._groups - self._new_groups
        turn_begin = (
            np.where(group < self._new_groups, turn, group + rest) * self._group
        )
        turn_begin += np.where(group < self._new_groups, 0, self._old_rest)
        delivered[is_new] = self._position + turn_begin + inside
        return delivered
