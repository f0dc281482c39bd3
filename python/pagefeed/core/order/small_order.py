"""The order of very few units."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array
from pagefeed.core.order.keys import KeyPart, derive_key
from pagefeed.core.order.lanes import Lanes
from pagefeed.core.order.lists import make_list
from pagefeed.core.order.ordered import Ordered
from pagefeed.core.order.permutation import checked_indices
from pagefeed.core.order.shuffle import Shuffle
from pagefeed.core.order.window import DelayWindow
from pagefeed.core.sequences import Blocks

MAX_UNITS = 16
MAX_ITEMS = 64


class SmallOrder(Ordered):
    """The order of an epoch of few units: a table.

    It equals that of :class:`EpochOrder`. A dataset of one or two units
    begins a new epoch with every unit or two, so that what an epoch takes counts.

    Args:
        blocks: The units, and the blocks they lie in, see :meth:`is_enough`.
        seed: Seed of the run.
        epoch: Number of the epoch.
        name: Name of the dataset.
        shuffle: The settings.
        num_lanes: Number of lanes.
        window: Longest delay inside a lane.

    Example:
        >>> from pagefeed.core.order import EpochOrder
        >>> from pagefeed.core.sequences import ExplicitBlocks
        >>> settings = dict(seed=1, name="web", shuffle=Shuffle(), num_lanes=2)
        >>> blocks = ExplicitBlocks([0, 2, 4, 6, 8, 9])
        >>> small = SmallOrder(blocks, epoch=0, window=3, **settings)
        >>> whole = EpochOrder(blocks, epoch=0, window=3, **settings)
        >>> bool((small.at(range(9)) == whole.at(range(9))).all())
        True
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        seed: KeyPart,
        epoch: int,
        name: str,
        shuffle: Shuffle,
        num_lanes: int,
        window: int,
    ) -> None:
        self._units = np.arange(blocks.num_sequences)
        if len(self._units) < 2:
            return
        key = derive_key(seed, epoch, name)
        units = make_list(blocks, shuffle, derive_key(key, "sequence")).all()
        lanes = Lanes(num_units=len(units), num_lanes=num_lanes)
        if shuffle.delayed and window > 1:
            units = units[DelayWindow(lanes, window, derive_key(key, "window")).order()]
        self._units = units[lanes.join(self._units)]

    @staticmethod
    def is_enough(blocks: Blocks, shuffle: Shuffle) -> bool:
        """Whether it is the faster order of these."""
        few = blocks.num_sequences <= MAX_UNITS
        return few and len(blocks) * shuffle.passes <= MAX_ITEMS

    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Return the units at positions, in a single step: int64 [len(positions)]."""
        yield from ()
        checked = checked_indices(positions, len(self._units), "position").ravel()
        return self._units[checked]

    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions of units: int64 [len(units)]."""
        checked = checked_indices(units, len(self._units), "unit").ravel()
        return np.argsort(self._units)[checked]
