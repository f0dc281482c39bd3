"""The view of a loader of texts: its lanes, and their positions."""

from __future__ import annotations

import math
import os
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.core._base import Facts, format_bytes
from pagefeed.core.batches import (
    AnyView,
    Batch,
    BatchIterator,
    converted,
    make_converter,
    transformed,
    warn_of_return,
)
from pagefeed.core.order import derive_key
from pagefeed.core.run import check_same_run
from pagefeed.core.sequences import Packed
from pagefeed.errors import (
    CancelledError,
    EmptySelectionError,
    InvalidArgumentError,
    StateMismatchError,
)
from pagefeed.uncounted.blocks import BlockReader, EncodedBlock, PackedBlock
from pagefeed.uncounted.lane_passes import (
    PASSES_HELD,
    LanePasses,
    LanePosition,
    RowRange,
    lanes_for_ranks,
)
from pagefeed.uncounted.lines import Lane, LanePacked, LaneWindows, Row
from pagefeed.uncounted.settings import COUNTED, TextSettings
from pagefeed.uncounted.state import PLAN, TextState, lanes_of_rank


class TextPosition(NamedTuple):
    """Position of a TextLoader."""

    saved: TextState
    now: TextState
    next: TextState
    is_loaded: bool = False


class TextView(AnyView):
    """A run over texts that are not counted, on this rank.

    The lane that has read the smallest share of its pass gives the next sequence, so
    that all lanes of the rank end their passes together. An iteration of ``epochs``
    ends with the step in which the last lane ends its pass. The next iteration
    continues there.

    Args:
        settings: The settings of the loader.

    Raises:
        InvalidArgumentError: If there is no block for each rank, or too little memory.
    """

    settings: TextSettings

    def __init__(self, settings: TextSettings) -> None:
        super().__init__(settings)
        self._cut = cut = settings.sequences
        largest = int(np.iinfo(settings.dtype).max)
        self._reader = reader = BlockReader(
            settings.dataset,
            settings.tokenizer,
            cut,
            kind=settings.shuffle.unit,
            vocab_size=min(settings.least_vocab_size, largest + 1),
        )
        self._convert = make_converter(settings.format, pin_memory=settings.pin_memory)
        if len(reader.blocks) < settings.world_size:
            raise InvalidArgumentError(
                f"{settings.dataset!r} has {len(reader.blocks)} blocks for "
                f"{settings.world_size} ranks, and ranks share no blocks: use fewer "
                f"ranks, or write files with smaller pages{COUNTED}"
            )
        num_lanes = lanes_for_ranks(
            len(reader.blocks), reader.block_bytes, settings.world_size
        )
        self._weights = reader.weights()
        lanes = len(lanes_of_rank(num_lanes, settings.rank, settings.world_size))
        sums = (1 + PASSES_HELD) * self._weights.nbytes
        needed = lanes * reader.block_bytes + sums
        if needed > settings.memory:
            raise InvalidArgumentError(
                f"memory={settings.memory} bytes is too little: {lanes} lanes hold a "
                f"block each, about {format_bytes(int(needed))}; give more memory, or "
                "write files with smaller pages"
            )
        self._begin(
            TextState(
                num_lanes=num_lanes,
                seed=settings.seed,
                dataset=settings.fingerprint,
                sequences=cut.identity,
                shuffle=settings.shuffle.identity,
                lanes={},
            )
        )
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._is_closed = False
        self._seconds, self._num_batches, self._peak = 0.0, 0, 0
        self._num_ready = self._num_padding = 0

    def _begin(self, state: TextState) -> None:
        """Have all lanes at the begin of a pass, or where a state has them."""
        settings = self.settings
        ours = lanes_of_rank(state.num_lanes, settings.rank, settings.world_size)
        begin = LanePosition(state.first_epoch)
        lanes = {lane: state.lanes.get(lane, begin) for lane in ours}
        self._state = replace(state, lanes=lanes)
        key = derive_key(settings.seed, "uncounted", state.dataset)
        self._passes = LanePasses(
            self._reader.blocks,
            self._weights,
            state.num_lanes,
            None if settings.shuffle.block is None else key,
        )
        self._lanes: dict[int, Lane[Any]] = {}
        self._iterator: weakref.ref[BatchIterator] | None = None

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> BatchIterator:
        """Continue from the positions of the lanes.

        Raises:
            InvalidArgumentError: If several processes are to share it.
        """
        if num_workers > 1 or worker:
            raise InvalidArgumentError(
                f"{num_workers} worker processes cannot share a TextLoader: use "
                f"num_workers=0, its own threads read and encode{COUNTED}"
            )
        iterator = BatchIterator(self)
        self._iterator = weakref.ref(iterator)  # An iterator keeps its session.
        return iterator

    def next_batch(self, iterator: BatchIterator) -> Batch | None:
        """Return the next batch, and count it; None after the last one.

        If it raises, nothing has moved.
        """
        if self._iterator is None or iterator is not self._iterator():
            raise CancelledError(
                "this iteration was ended by a new iter(loader) or load_state_dict: a "
                "loader runs one iteration at a time"
            )
        state, epochs = self._state, self.settings.epochs
        if epochs is not None and self.epoch >= state.first_epoch + epochs:
            self._state = self._ended(state.first_epoch + epochs)
            return None
        begin = time.monotonic()
        try:
            batch, positions = self._made()
        except BaseException:
            self._lanes = {}  # Read again from what was counted.
            raise
        self._state = replace(state, step=state.step + 1, lanes=positions)
        self._seconds += time.monotonic() - begin
        self._num_batches += 1
        held = sum(lane.num_bytes for lane in self._lanes.values())
        self._peak = max(self._peak, held)
        return batch

    def _made(self) -> tuple[Batch, dict[int, LanePosition]]:
        """Take sequences of the lanes that lag; return the positions of all lanes."""
        settings = self.settings
        lanes = {lane: self._lane(lane) for lane in self._state.lanes}
        rows: list[Row] = []
        is_ready, idle = True, 0
        while len(rows) < settings.batch_size:
            lane = min(lanes.values(), key=lambda lane: lane.progress)
            waits = lane.num_waits
            row = lane.take()
            is_ready &= lane.num_waits == waits
            idle = 0 if row else idle + 1
            if row is not None:
                rows.append(row)
            elif idle > 2 * len(lanes):
                raise EmptySelectionError(
                    f"the texts of rank {settings.rank} have no token: all are empty "
                    "or null; give the sequences an eos, or select other rows"
                )
        fields, length = settings.fields, self._cut.length
        tokens = np.concatenate([row.tokens for row in rows], dtype=np.uint32)
        memory = _core.token_rows(
            tokens,
            np.cumsum([len(row.tokens) for row in rows]),
            length,
            np.concatenate([row.starts + n * length for n, row in enumerate(rows)]),
            settings.dtype,
            padding=settings.padding,
            fields=fields.settings,
        )
        made = fields.arrays(memory, (len(rows), length), settings.dtype)
        batch = converted(made, self._convert)
        if self.transform is not None:
            state = self._state
            batch = transformed(
                self.transform,
                batch,
                lambda: self.generator(state.first_epoch, state.step),
            )
        self._num_ready += is_ready
        self._num_padding += len(rows) * length - len(tokens)
        return batch, {index: lane.position for index, lane in lanes.items()}

    def _lane(self, lane: int) -> Lane[Any]:
        pool = self._threads()  # Those of another process take its lanes along.
        if lane not in self._lanes:

            def load(row_range: RowRange, epoch: int) -> Future[Any]:
                return pool.submit(self._read, row_range, epoch)

            kind = LanePacked if self._cut.packs else LaneWindows
            self._lanes[lane] = kind(
                self._passes, lane, self._state.lanes[lane], self._cut.length, load
            )
        return self._lanes[lane]

    def _read(self, row_range: RowRange, epoch: int) -> EncodedBlock | PackedBlock:
        block = self._reader.read(self._passes, row_range, epoch)
        return PackedBlock(block, self._cut) if isinstance(self._cut, Packed) else block

    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""
        self._is_closed = True
        if self._pool is not None and self._pool[0] == os.getpid():
            self._pool[1].shutdown(cancel_futures=True)

    def _threads(self) -> ThreadPoolExecutor:
        if self._is_closed:
            raise CancelledError("the loader was closed: make a new one to continue")
        if self._pool is None or self._pool[0] != os.getpid():
            pool = ThreadPoolExecutor(
                self.settings.num_threads, thread_name_prefix="pagefeed"
            )
            self._pool, self._lanes = (os.getpid(), pool), {}
        return self._pool[1]

    def load_state_dict(self, state: Any) -> None:
        """Continue at the positions of a state.

        Args:
            state: The state of this rank, or the list of the states of all ranks.

        Raises:
            StateMismatchError: If it belongs to another run, or lacks lanes.
        """
        with self.lock:
            self.resume(TextState.from_dict(state))

    def resume(self, state: TextState) -> None:
        """Continue at a state."""
        advice = "texts, tokenizer, sequences, shuffle and seed"
        check_same_run(state, self._state, PLAN, advice)
        if state.num_lanes > len(self._reader.blocks):
            raise StateMismatchError(
                f"the state has num_lanes={state.num_lanes}, these texts have "
                f"{len(self._reader.blocks)} blocks"
            )
        self._begin(state.of_rank(self.settings.rank, self.settings.world_size))
        self.tell()

    def set_epoch(self, epoch: int) -> None:
        """Make all lanes begin a new pass, unless the iteration does so anyway.

        The decision does not depend on the progress of single lanes, so all ranks
        agree.
        """
        state, epochs = self._state, self.settings.epochs
        end = math.inf if epochs is None else state.first_epoch + epochs
        comes_anyway = state.step and state.first_epoch <= epoch < end
        if epoch != state.first_epoch and not comes_anyway:
            if state.step and epoch < state.first_epoch:
                warn_of_return(epoch, state.first_epoch)
            self._begin(replace(self._ended(epoch), lanes={}))
        self.tell()

    def _ended(self, epoch: int) -> TextState:
        """Return the state at the end of this iteration.

        The next one begins with a pass.
        """
        steps = self._state.steps_before + self._state.step
        return replace(self._state, step=0, steps_before=steps, first_epoch=epoch)

    @property
    def position(self) -> TextPosition:
        """Positions of the lanes."""
        return TextPosition(self._state, self._state, self._state)

    @property
    def epoch(self) -> int:
        """Passes that all lanes of this rank have made."""
        return min(position.epoch for position in self._state.lanes.values())

    def facts(self) -> Facts:
        """Return facts about the run, to print."""
        state = self._state
        return {"num_lanes": state.num_lanes, "epoch": self.epoch, "step": state.step}

    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""
        lanes = [self._lane(lane).progress for lane in self._state.lanes]
        shares = [min(1.0, progress - self.epoch) for progress in lanes]
        return {
            "passes": self.epoch,
            "coverage": sum(shares) / len(shares),
            "pages_loaded": self._reader.pages_read,
            "pages_reloaded": 0,
            "batches": self._num_batches,
            "batches_ready": self._num_ready,
            "tokens": self._num_batches * self._step_tokens,
            "padding_tokens": self._num_padding,
            "padding_sequences": 0,
            "splits": 0,
            "wait_seconds": self._seconds,
            "peak_bytes": self._peak,
        } | self._storage_counts()

    def _storage_counts(self) -> dict[str, int]:
        counts = self._reader.storage.counts()
        return {f"storage/{name}": count for name, count in counts.items()}

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for, see :meth:`AnyView.awaited`."""
        return self._reader.awaited() | self._storage_counts()

    def progress(self) -> dict[str, float]:
        """Return the position of the run as metrics."""
        settings, state = self.settings, self._state
        steps = state.steps_before + state.step
        return {
            "data/epoch": self.epoch,
            "data/step": state.step,
            "data/tokens_total": steps * settings.world_size * self._step_tokens,
        }

    @property
    def _step_tokens(self) -> int:
        """Places of a step on this rank, padding included."""
        return self.settings.batch_size * self._cut.length

    def _agreed(self) -> dict[str, Any]:
        settings = self.settings
        return self._state.to_dict() | {
            "lanes": None,
            "batch_size": settings.batch_size,
            "epochs": settings.epochs,
            "fields": settings.fields.settings,
        }
