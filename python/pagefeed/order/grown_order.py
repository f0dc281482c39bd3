"""The order of an epoch over data that grew in its middle."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.order.ordered import Ordered

__all__ = ["GrownOrder"]


class GrownOrder(Ordered):
    """The first positions are as before; behind them comes what was left, and is new.

    Both keep their own order, and are dealt in groups of as many sequences as there are
    lanes: so a rank goes on in lanes of its own. Groups of both alternate evenly. What
    makes no whole group comes last.

    Args:
        before: The order of the data of before.
        added: The order of what was added.
        sizes: Sequences of both.
        position: Sequences that were delivered before the data grew.
        group: Sequences of a group.

    Example:
        >>> from pagefeed.order import EpochOrder, ExplicitBlocks, Shuffle
        >>> blocks = ExplicitBlocks(range(9))
        >>> in_order = EpochOrder(blocks, seed=1, epoch=0, name="", num_lanes=1,
        ...                       shuffle=Shuffle(block=None), window=0)
        >>> GrownOrder(in_order, in_order, sizes=(8, 8), position=4, group=2
        ...            ).at(np.arange(16)).tolist()
        [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 6, 7, 12, 13, 14, 15]
    """

    def __init__(
        self,
        before: Ordered,
        added: Ordered,
        *,
        sizes: tuple[int, int],
        position: int,
        group: int,
    ) -> None:
        self._before, self._added = before, added
        self._size, self._position, self._group = sizes[0], position, group
        left = sizes[0] - position
        self._old_groups, self._new_groups = left // group, sizes[1] // group
        self._groups = self._old_groups + self._new_groups
        self._old_rest = left % group

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""
        yield from self._before.begin()
        yield from self._added.begin()

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the sequences at positions; those that were added come behind."""
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        is_new, place = self._places(wanted)
        found = np.empty(len(wanted), dtype=np.int64)
        for which, order, first in (
            (~is_new, self._before, 0),
            (is_new, self._added, self._size),
        ):
            if which.any():
                found[which] = first + (yield from order.reading(place[which]))
        return found

    def _places(
        self, positions: Int64Array
    ) -> tuple[npt.NDArray[np.bool_], Int64Array]:
        """Whether what stands at positions was added, and its place in its order."""
        behind = positions - self._position
        group, inside = np.divmod(behind, self._group)
        count = max(1, self._groups)
        news = group * self._new_groups // count
        is_new = (group + 1) * self._new_groups // count > news
        place = np.where(is_new, news, group - news) * self._group + inside
        rest = behind - self._groups * self._group
        is_rest = rest >= 0
        is_new[is_rest] = rest[is_rest] >= self._old_rest
        of_rest = np.where(
            is_new,
            self._new_groups * self._group + rest - self._old_rest,
            self._old_groups * self._group + rest,
        )
        place[is_rest] = of_rest[is_rest]
        place[~is_new] += self._position
        is_new[behind < 0] = False
        place[behind < 0] = positions[behind < 0]
        return is_new, place

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return where sequences are delivered."""
        wanted = np.asarray(units, dtype=np.int64).ravel()
        found = np.empty(len(wanted), dtype=np.int64)
        is_new = wanted >= self._size
        old = self._before.positions(wanted[~is_new])
        group, inside = np.divmod(old - self._position, self._group)
        turn = group * self._groups // max(1, self._old_groups)
        rest = self._groups - self._old_groups
        turn = np.where(group < self._old_groups, turn, group + rest)
        moved = self._position + turn * self._group + inside
        found[~is_new] = np.where(old < self._position, old, moved)
        new = self._added.positions(wanted[is_new] - self._size)
        group, inside = np.divmod(new, self._group)
        turn = -(-(group + 1) * self._groups // max(1, self._new_groups)) - 1
        rest = self._groups - self._new_groups
        place = np.where(group < self._new_groups, turn, group + rest) * self._group
        place += np.where(group < self._new_groups, 0, self._old_rest)
        found[is_new] = self._position + place + inside
        return found
