"""A lane's documents, joined end to end and cut as they come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.batches.streaming.blocks import EncodedBlock
from pagefeed.batches.streaming.lane_order import Cursor, LaneOrder
from pagefeed.errors import EmptySelectionError

__all__ = ["LaneLine", "Load"]

Load = Callable[[int, int], "Future[EncodedBlock]"]
"""Begins to read a block, by its number, in the order of a pass."""

AHEAD = 4
"""Sequences left of a block when the next one is asked for, at the latest."""


class LaneLine:
    """The line of one lane, from a cursor on.

    Args:
        order: Which blocks it has.
        lane: Number of the lane.
        cursor: Where to go on.
        load: Begins to read a block.
    """

    def __init__(self, order: LaneOrder, lane: int, cursor: Cursor, load: Load) -> None:
        self._order = order
        self._lane = lane
        self._load = load
        self.cursor = cursor
        """Where it is."""
        self.num_waits = 0
        """Blocks that were not there when they were needed."""
        self._block: EncodedBlock | None = None
        self._next: Future[EncodedBlock] | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the tokens that it holds."""
        return 0 if self._block is None else self._block.tokens.nbytes

    def take(self, length: int) -> tuple[npt.NDArray[Any], Int64Array]:
        """Return the next tokens, and go on behind them.

        Returns:
            uint16 or uint32 [length], and where documents begin in them: rising int64.

        Raises:
            EmptySelectionError: If there is no token in a whole pass of the lane.
        """
        tokens, starts, found, empty = [], [], 0, 0
        while found < length:
            block = self._here()
            begin = self.cursor.token
            end = min(len(block.tokens), begin + length - found)
            some = slice(*np.searchsorted(block.starts, [begin, end]))
            starts.append(block.starts[some] - begin + found)
            tokens.append(block.tokens[begin:end])
            found += end - begin
            empty = 0 if end > begin else empty + 1
            if empty > self._order.length(self._lane):
                raise EmptySelectionError(
                    f"lane {self._lane} of {self._order.num_lanes} has no token: all "
                    "its texts are empty or null; give the sequences an eos, or select "
                    "other rows"
                )
            self._go_to(end, length)
        self.cursor = self.cursor._replace(num_sequences=self.cursor.num_sequences + 1)
        return np.concatenate(tokens), np.concatenate(starts)

    def _here(self) -> EncodedBlock:
        """Return the block in which it is."""
        if self._block is None:
            coming = self._next or self._ask(self.cursor)
            self._next = None
            self.num_waits += not coming.done()
            self._block = coming.result()
        return self._block

    def _go_to(self, token: int, length: int) -> None:
        """Go to a token of the block; behind its last one begins the next block."""
        block = self._here()
        following = self._following()
        left = len(block.tokens) - token
        if self._next is None and left <= max(AHEAD * length, len(block.tokens) // 8):
            self._next = self._ask(following)
        if left:
            self.cursor = self.cursor._replace(token=token)
        else:
            self.cursor, self._block = following, None

    def _following(self) -> Cursor:
        """Return the begin of the next block."""
        epoch, place, _, num_sequences = self.cursor
        if place + 1 < self._order.length(self._lane):
            return Cursor(epoch, place + 1, 0, num_sequences)
        return Cursor(epoch + 1, 0, 0, num_sequences)

    def _ask(self, cursor: Cursor) -> Future[EncodedBlock]:
        epoch, place = cursor[:2]
        return self._load(self._order.block(self._lane, epoch, place), epoch)
