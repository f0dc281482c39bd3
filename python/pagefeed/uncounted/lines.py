"""A lane's documents, joined end to end and cut as they come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.uncounted.blocks import EncodedBlock
from pagefeed.uncounted.lane_passes import Cursor, LanePasses, Part

__all__ = ["LaneLine", "Load"]

Load = Callable[[Part, int], "Future[EncodedBlock]"]
"""Begins to read a part of a block in the order of a pass."""

AHEAD = 4
"""Sequences left of a block when the next one is asked for, at the latest."""


class LaneLine:
    """The line of one lane, from a cursor on.

    Args:
        passes: Which rows it has.
        lane: Number of the lane.
        cursor: Where to go on.
        load: Begins to read a part of a block.
    """

    def __init__(
        self, passes: LanePasses, lane: int, cursor: Cursor, load: Load
    ) -> None:
        self._passes = passes
        self._lane = lane
        self._load = load
        self.cursor = cursor
        """Where it is."""
        self.num_waits = 0
        """Blocks that were not there when they were needed."""
        self._part = self._begun(cursor)
        self.progress = self._progress()
        """Passes that it has made, and the share of this one by stored bytes."""
        self._block: EncodedBlock | None = None
        self._next: Future[EncodedBlock] | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the tokens that it holds."""
        return 0 if self._block is None else self._block.tokens.nbytes

    def take(self, length: int) -> tuple[npt.NDArray[Any], Int64Array] | None:
        """Take the next tokens.

        Returns:
            uint16 or uint32 [length], and where documents begin in them: rising int64.
            None if the pass ended before the first of these tokens.
        """
        tokens, starts, found, epoch = [], [], 0, self.cursor.epoch
        while found < length:
            block, begin = self._here(), self.cursor.token
            end = min(len(block.tokens), begin + length - found)
            some = slice(*np.searchsorted(block.starts, [begin, end]))
            starts.append(block.starts[some] - begin + found)
            tokens.append(block.tokens[begin:end])
            found += end - begin
            self._go_to(end, length)
            if not found and self.cursor.epoch > epoch:
                break
        self.progress = self._progress()
        if not found:
            return None
        return np.concatenate(tokens), np.concatenate(starts)

    def _progress(self) -> float:
        part, cursor = self._part, self.cursor
        share = cursor.token / max(1, cursor.size)
        return cursor.epoch + part.begin + (part.end - part.begin) * share

    def _here(self) -> EncodedBlock:
        """Return the block in which it is."""
        if self._block is None:
            coming = self._next or self._load(self._part, self.cursor.epoch)
            self._next = None
            self.num_waits += not coming.done()
            self._block = coming.result()
        return self._block

    def _go_to(self, token: int, length: int) -> None:
        """Go to a token of the block; behind its last one begins the next block."""
        block, following = self._here(), self._following()
        left = len(block.tokens) - token
        if self._next is None and left <= max(AHEAD * length, len(block.tokens) // 8):
            self._next = self._load(self._begun(following), following.epoch)
        if left:
            self.cursor = self.cursor._replace(token=token, size=len(block.tokens))
        else:
            self.cursor, self._block = following, None
            self._part = self._begun(following)

    def _following(self) -> Cursor:
        """Return the begin of the next part."""
        epoch, place, *_ = self.cursor
        if place + 1 < self._passes.length(self._lane, epoch):
            return Cursor(epoch, place + 1)
        return Cursor(epoch + 1)

    def _begun(self, cursor: Cursor) -> Part:
        return self._passes.part(self._lane, cursor.epoch, cursor.place)
