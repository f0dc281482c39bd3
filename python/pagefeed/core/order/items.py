"""Items: the shares of blocks, which a block shuffle permutes.

With ``passes=k`` every block is read k times and gives another share of its units each
time. Item j is share ``j % k`` of block ``P(j // k)``, P being another permutation for
every share, so that the shares of a block lie anywhere in the epoch, and the sizes of
items follow a fixed pattern when blocks are of equal size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, UInt64Array
from pagefeed.core.order.keys import derive_key, expand_key, mix
from pagefeed.core.order.permutation import PermutationFamily, num_rounds
from pagefeed.core.sequences import Blocks


class Items(NamedTuple):
    """Consecutive items of the permuted order; int64 arrays of equal length."""

    block: Int64Array
    share: Int64Array
    first_unit: Int64Array
    """First unit of the block."""
    block_units: Int64Array
    """Units of the block."""

    def skipped(self, passes: int) -> Int64Array:
        """How many units of the block belong to earlier shares."""
        return self.share * self.block_units // passes

    def sizes(self, passes: int) -> Int64Array:
        """Units of each item; shares of a block differ by at most one."""
        return (self.share + 1) * self.block_units // passes - self.skipped(passes)


class ItemOrder:
    """The permuted order of all (block, share), item by item, both ways.

    Args:
        blocks: The blocks.
        passes: k, the shares every block is cut into.
        key: Key of this epoch's permutation.
    """

    def __init__(self, blocks: Blocks, passes: int, key: bytes) -> None:
        self.blocks = blocks
        self.passes = passes
        self._permutation = PermutationFamily(
            derive_key(key, "blocks"), num_rounds(len(blocks))
        )
        self._tweaks: UInt64Array | None = None
        if passes > 1:
            tweak_key = expand_key(derive_key(key, "shares"), 2)
            self._tweaks = mix(np.arange(passes), (tweak_key[0], tweak_key[1]))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.blocks) * self.passes

    def items(self, numbers: Int64Array) -> Items:
        """The items of these numbers in [0, len(self))."""
        turn, share = numbers, np.zeros_like(numbers)
        tweak = None
        if self._tweaks is not None:
            turn = numbers // self.passes
            share = numbers - turn * self.passes
            tweak = self._tweaks[share]
        block = self._permutation.map(turn, len(self.blocks), tweak)
        first = self.blocks.first_sequence(block)
        return Items(block, share, first, self.blocks.first_sequence(block + 1) - first)

    def numbers(self, block: Int64Array, share: Int64Array) -> Int64Array:
        """Number, int64, of each (block, share)."""
        tweak = None if self._tweaks is None else self._tweaks[share]
        turn = self._permutation.map(block, len(self.blocks), tweak, inverse=True)
        return turn * self.passes + share
