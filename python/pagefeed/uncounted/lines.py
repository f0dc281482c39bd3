"""A lane's sequences: joined end to end and cut, or packed, as its blocks come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.uncounted.blocks import Block, EncodedBlock, PackedBlock
from pagefeed.uncounted.lane_passes import LanePasses, LanePosition, RowRange

AnyBlock = TypeVar("AnyBlock", bound=Block)

Load = Callable[[RowRange, int], "Future[AnyBlock]"]
"""Function that starts reading a row range of a block, in the order of a pass."""

AHEAD = 4
"""Sequences left of a block when the next one is asked for, at the latest."""


class Row(NamedTuple):
    """A sequence."""

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    """uint16 or uint32 [tokens], as many as the cut's length or fewer."""
    starts: Int64Array
    """First token of each document: rising int64."""


class Lane(ABC, Generic[AnyBlock]):
    """The sequences of one lane, from a position on.

    Args:
        passes: Passes that say which rows the lane has.
        lane: Number of the lane.
        position: Position at which to continue.
        length: Tokens of a sequence.
        load: Function that begins to read a row range of a block.
    """

    def __init__(
        self,
        passes: LanePasses,
        lane: int,
        position: LanePosition,
        length: int,
        load: Load[AnyBlock],
    ) -> None:
        self._passes = passes
        self._lane = lane
        self._length = length
        self._load = load
        self.position = position
        """Position of the lane."""
        self.num_waits = 0
        """Times that a block was not ready when it was needed."""
        self._row_range = self._begun(position)
        self.progress = self._progress()
        """Passes that it has made, and the share of this one by stored bytes."""
        self._block: AnyBlock | None = None
        self._next: Future[AnyBlock] | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the tokens that it holds."""
        return 0 if self._block is None else self._block.num_bytes

    def take(self) -> Row | None:
        """Take the next sequence; None if the pass ended before its first token."""
        row = self._take()
        self.progress = self._progress()
        return row

    @abstractmethod
    def _take(self) -> Row | None:
        """Take the next sequence."""

    @property
    @abstractmethod
    def _step(self) -> int:
        """Return the units of a position that a sequence takes: its tokens, or 1."""

    def _progress(self) -> float:
        row_range, position = self._row_range, self.position
        share = position.done / max(1, position.size)
        return (
            position.epoch + row_range.begin + (row_range.end - row_range.begin) * share
        )

    def _here(self) -> AnyBlock:
        """Return the block of the lane's position."""
        if self._block is None:
            coming = self._next or self._load(self._row_range, self.position.epoch)
            self._next = None
            self.num_waits += not coming.done()
            self._block = coming.result()
        return self._block

    def _go_to(self, done: int) -> None:
        """Set how much of the block is done. At its end, go to the next block."""
        size, following = self._here().size, self._following()
        if self._next is None and size - done <= max(AHEAD * self._step, size // 8):
            self._next = self._load(self._begun(following), following.epoch)
        if done < size:
            self.position = self.position._replace(done=done, size=size)
        else:
            self.position, self._block = following, None
            self._row_range = self._begun(following)

    def _following(self) -> LanePosition:
        """Return the position at the next row range."""
        epoch, ranges, *_ = self.position
        if ranges + 1 < self._passes.length(self._lane, epoch):
            return LanePosition(epoch, ranges + 1)
        return LanePosition(epoch + 1)

    def _begun(self, position: LanePosition) -> RowRange:
        return self._passes.row_range(self._lane, position.epoch, position.ranges)


class LaneWindows(Lane[EncodedBlock]):
    """Documents joined end to end, over blocks and passes; positions count tokens."""

    @property
    def _step(self) -> int:
        return self._length

    def _take(self) -> Row | None:
        tokens, starts, num_tokens, epoch = [], [], 0, self.position.epoch
        while num_tokens < self._length:
            block, begin = self._here(), self.position.done
            end = min(block.size, begin + self._length - num_tokens)
            some = slice(*np.searchsorted(block.starts, [begin, end]))
            starts.append(block.starts[some] - begin + num_tokens)
            tokens.append(block.tokens[begin:end])
            num_tokens += end - begin
            self._go_to(end)
            if not num_tokens and self.position.epoch > epoch:
                return None
        return Row(np.concatenate(tokens), np.concatenate(starts))


class LanePacked(Lane[PackedBlock]):
    """The packed sequences of one block after the other; the position counts them."""

    @property
    def _step(self) -> int:
        return 1

    def _take(self) -> Row | None:
        epoch = self.position.epoch
        while self.position.epoch == epoch:
            block, done = self._here(), self.position.done
            if done < block.size:
                row = Row(*block.sequence(done))
                self._go_to(done + 1)
                return row
            self._go_to(done)
        return None
