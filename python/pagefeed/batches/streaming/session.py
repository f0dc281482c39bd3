"""What is behind a loader of a stream: its lanes, and where they stand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from pagefeed._base import Facts, check_vocab_size
from pagefeed.batches.batch_iterator import transformed
from pagefeed.batches.engines import ProcessLock
from pagefeed.batches.formats import Batch, make_converter
from pagefeed.batches.session import Session
from pagefeed.batches.settings import LoaderSettings
from pagefeed.batches.streaming.blocks import BlockReader, EncodedBlock
from pagefeed.batches.streaming.borders import fields_of
from pagefeed.batches.streaming.lane_order import Cursor, LaneOrder, lanes_of_stream
from pagefeed.batches.streaming.lines import LaneLine
from pagefeed.batches.streaming.state import StreamState, lanes_of_rank
from pagefeed.dataset import BlockKind, TextStream
from pagefeed.errors import (
    CancelledError,
    InvalidArgumentError,
    StateMismatchError,
    UncountedError,
)
from pagefeed.launch import Feed, Ranks, check_agreement, gather_from, members
from pagefeed.metrics import Meter, over_ranks
from pagefeed.order import derive_key
from pagefeed.sequences import SequenceLayout, Windows

__all__ = ["StreamSession", "open_session"]


class StreamSession(Session):
    """A run over texts that are not counted, on this rank: without end or numbers.

    Each lane of the rank gives a sequence in turn, the one that gave the fewest first.

    Args:
        settings: What the loader was made of.

    Raises:
        InvalidArgumentError: If they need counts, or there is no block for each rank.
    """

    def __init__(self, settings: LoaderSettings) -> None:
        stream, windows = _checked(settings)
        self.settings = settings
        self.lock = ProcessLock()
        self.listener = None
        self.loaded = None
        layout = SequenceLayout(bos=windows.bos, eos=windows.eos)
        vocab_size = check_vocab_size(
            settings.vocab_size, eos=windows.eos, bos=windows.bos
        )
        kind: BlockKind = (
            "row_group" if settings.shuffle.block == "row_group" else "page"
        )
        largest = int(np.iinfo(settings.dtype).max)
        self._reader = BlockReader(
            stream,
            kind=kind,
            layout=layout,
            vocab_size=min(vocab_size or _vocab_size(stream, windows), largest + 1),
        )
        self._length = windows.length
        self._convert = make_converter(settings.format, pin_memory=settings.pin_memory)
        num_blocks = self._reader.num_blocks
        if num_blocks < settings.world_size:
            raise InvalidArgumentError(
                f"{stream!r} has {num_blocks} blocks for {settings.world_size} ranks: "
                "without counts each rank reads blocks of its own; count them, "
                "count=True, or use fewer ranks"
            )
        self._begin(
            StreamState(
                num_lanes=lanes_of_stream(
                    num_blocks, self._reader.block_bytes, settings.world_size
                ),
                seed=settings.seed,
                dataset=stream.fingerprint,
                sequences=windows.identity,
                shuffle=settings.shuffle.identity,
                lanes={},
            )
        )
        self._meter = Meter()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._is_closed = False
        self._seconds, self._num_batches, self._peak = 0.0, 0, 0
        self._num_ready = 0

    def _begin(self, state: StreamState) -> None:
        """Have all lanes at the begin, or where a state has them."""
        settings = self.settings
        ours = lanes_of_rank(state.num_lanes, settings.rank, settings.world_size)
        lanes = {lane: state.lanes.get(lane, Cursor()) for lane in ours}
        self._state = replace(state, lanes=lanes)
        key = derive_key(settings.seed, "stream", self._state.dataset)
        self._order = LaneOrder(
            num_blocks=self._reader.num_blocks,
            num_lanes=state.num_lanes,
            key=None if settings.shuffle.block is None else key,
        )
        self._lines: dict[int, LaneLine] = {}
        self._iterator: _StreamIterator | None = None

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[Batch]:
        """Go on from where the lanes are.

        Raises:
            InvalidArgumentError: If it is to be shared by several processes.
        """
        if num_workers > 1 or worker:
            raise InvalidArgumentError(
                f"{num_workers} worker processes cannot share a stream without counts: "
                "use num_workers=0, its own threads read and encode; or count=True"
            )
        self._iterator = _StreamIterator(self)
        return self._iterator

    def next_batch(self, iterator: _StreamIterator) -> Batch:
        """Return the next batch, and count it; without it nothing has moved."""
        if iterator is not self._iterator:
            raise CancelledError(
                "this iteration was ended by a new iter(loader) or load_state_dict: a "
                "loader runs one iteration at a time"
            )
        begin = time.monotonic()
        try:
            batch, cursors = self._made()
        except BaseException:
            self._lines = {}  # Read anew from what was counted.
            raise
        state = self._state
        self._state = replace(state, step=state.step + 1, lanes=cursors)
        self._seconds += time.monotonic() - begin
        self._num_batches += 1
        held = sum(line.num_bytes for line in self._lines.values())
        self._peak = max(self._peak, held)
        return batch

    def _made(self) -> tuple[Batch, dict[int, Cursor]]:
        """Take sequences of the lanes in turn; returns where these are then."""
        settings, cursors = self.settings, dict(self._state.lanes)
        rows, starts, is_ready = [], [], True
        for _ in range(settings.batch_size):
            lane = min(cursors, key=lambda each: (cursors[each].num_sequences, each))
            line = self._line(lane)
            waits = line.num_waits
            tokens, begins = line.take(self._length)
            is_ready &= line.num_waits == waits
            rows.append(tokens.astype(settings.dtype))
            starts.append(begins)
            cursors[lane] = line.cursor
        made = fields_of(np.stack(rows), starts, settings.fields)
        batch: Batch = {
            name: self._convert(value) if isinstance(value, np.ndarray) else value
            for name, value in made.items()
        }
        if settings.transform is not None:
            batch = transformed(settings.transform, batch)
        self._num_ready += is_ready
        return batch, cursors

    def _line(self, lane: int) -> LaneLine:
        pool = self._threads()  # Those of another process take its lines along.
        if lane not in self._lines:

            def load(block: int, epoch: int) -> Future[EncodedBlock]:
                return pool.submit(self._reader.read, self._order, block, epoch)

            cursor = self._state.lanes[lane]
            self._lines[lane] = LaneLine(self._order, lane, cursor, load)
        return self._lines[lane]

    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""
        self._is_closed = True
        if self._pool is not None and self._pool[0] == os.getpid():
            self._pool[1].shutdown(cancel_futures=True)

    def _threads(self) -> ThreadPoolExecutor:
        if self._is_closed:
            raise CancelledError("the loader was closed: make another one to go on")
        if self._pool is None or self._pool[0] != os.getpid():
            pool = ThreadPoolExecutor(
                self.settings.num_threads, thread_name_prefix="pagefeed"
            )
            self._pool, self._lines = (os.getpid(), pool), {}
        return self._pool[1]

    def state_dict(self) -> dict[str, Any]:
        """Return where the lanes of this rank are."""
        self.check_state()
        return self._state.to_dict()

    def load_state_dict(self, state: object) -> None:
        """Go on where a state has the lanes.

        Args:
            state: Of this rank, or the list of those of all ranks.

        Raises:
            StateMismatchError: If it belongs to another run, or lacks lanes.
        """
        with self.lock:
            self.resume(StreamState.of(state))

    def resume(self, state: Any) -> None:  # noqa: ANN401 - a state of its own
        """Go on at a state."""
        state.check_plan(self._state)
        if state.num_lanes > self._reader.num_blocks:
            raise _foreign_lanes(state, self._reader.num_blocks)
        self._begin(state.of_rank(self.settings.rank, self.settings.world_size))
        self.tell()

    @property
    def state(self) -> Any:  # noqa: ANN401
        """Where the lanes are."""
        return self._state

    @property
    def saved(self) -> Any:  # noqa: ANN401
        """Where the lanes are, likewise."""
        return self._state

    @property
    def again(self) -> None:
        """None: an iteration that was left early goes on."""

    @property
    def following(self) -> Any:  # noqa: ANN401
        """Where another ``iter(loader)`` would go on."""
        return self._state

    @property
    def num_steps_left(self) -> None:
        """None: it never ends."""

    def facts(self) -> Facts:
        """Return what is known of the run, for people."""
        return {"num_lanes": self._state.num_lanes, "step": self._state.step}

    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""
        tokens = self._num_batches * self.settings.batch_size * self._length
        return {
            "pages_loaded": self._reader.pages_read,
            "pages_reloaded": 0,
            "batches": self._num_batches,
            "batches_ready": self._num_ready,
            "tokens": tokens,
            "padding_tokens": 0,
            "padding_sequences": 0,
            "splits": 0,
            "wait_seconds": self._seconds,
            "peak_bytes": self._peak,
        } | {
            f"storage/{name}": count
            for name, count in self._reader.storage.counts().items()
        }

    def metrics(self, group: Any) -> dict[str, float]:  # noqa: ANN401 - torch's
        """Return the run's numbers, see :meth:`Loader.metrics`."""
        settings, lanes = self.settings, self._state.lanes.values()
        before = self._state.step * settings.batch_size * settings.world_size
        found = self._meter.read(self.stats()) | {
            "data/epoch": min(cursor.epoch for cursor in lanes),
            "data/step": self._state.step,
            "data/tokens_total": before * self._length,
        }
        return found if group is None else over_ranks(gather_from(group)(found))

    def check_ranks(self, group: Any, same: Any) -> None:  # noqa: ANN401 - torch's
        """Prove that all ranks agree, see :meth:`Loader.check_ranks`."""
        settings = self.settings
        plan = self._state.to_dict() | {
            "lanes": None,
            "batch_size": settings.batch_size,
            "fields": settings.fields.settings,
        }
        check_agreement(
            Feed(Ranks(settings.rank, settings.world_size), plan),
            gather=gather_from(group),
            same=None if same is None else members(same, group),
        )

    @property
    def run(self) -> NoReturn:
        """Nothing: no sequence has a number."""
        raise _uncounted()

    @property
    def track(self) -> NoReturn:
        """Nothing, likewise."""
        raise _uncounted()

    @property
    def begin(self) -> NoReturn:
        """Nothing, likewise."""
        raise _uncounted()


class _StreamIterator(Iterator[Batch]):
    """Batches of a stream, one step after the other, without end."""

    def __init__(self, session: StreamSession) -> None:
        self._session = session

    def __next__(self) -> Batch:
        """Return the batch of the next step."""
        with self._session.lock:
            return self._session.next_batch(self)


def _checked(settings: LoaderSettings) -> tuple[TextStream, Windows]:
    """Return stream and cut, and refuse what only counts make possible."""
    stream: object = settings.dataset
    windows, shuffle = settings.sequences, settings.shuffle
    counted = "count the tokens: tokenize(tokenizer), ahead by `pagefeed count`"
    if not isinstance(stream, TextStream):
        raise TypeError(stream)
    if not isinstance(windows, Windows) or windows.overlap or windows.join == "file":
        raise InvalidArgumentError(
            f"sequences={windows!r}: texts without counts are joined and cut by "
            f"Windows(length, eos=...) alone, without overlap; or {counted}"
        )
    if settings.epochs is not None:
        raise InvalidArgumentError(
            f"epochs={settings.epochs}: texts without counts have no end that is "
            f"known; give epochs=None, or {counted}"
        )
    is_plain = shuffle.window == "auto" and shuffle.passes == 1
    if shuffle.block not in ("page", "row_group", None) or not is_plain:
        raise InvalidArgumentError(
            f"shuffle={shuffle!r}: of texts without counts blocks are permuted, and "
            "the rows inside each; give 'page', 'row_group' or None without a window, "
            f"or {counted}"
        )
    if stream.texts.metadata:
        raise InvalidArgumentError(
            f"metadata={list(stream.texts.metadata)} would not arrive: sequences of "
            "tokens carry tokens only; leave metadata out"
        )
    return stream, windows


def _vocab_size(stream: TextStream, windows: Windows) -> int:
    """One more than the largest id that there can be."""
    separators = [each + 1 for each in (windows.eos, windows.bos) if each is not None]
    return max(stream.tokenizer.vocab_size, *separators, 1)


def _uncounted() -> UncountedError:
    return UncountedError(
        "the tokens of these texts are not counted, so that sequences have no number: "
        "length, seek, skip, locate and reports need counts; `pagefeed count` makes "
        "them ahead, and tokenize(tokenizer, count=True) uses them"
    )


def _foreign_lanes(state: StreamState, num_blocks: int) -> StateMismatchError:
    return StateMismatchError(
        f"the state has num_lanes={state.num_lanes}, these texts have {num_blocks} "
        "blocks"
    )


def open_session(settings: LoaderSettings) -> Session:
    """Return what is behind a loader of these settings."""
    if isinstance(settings.dataset, TextStream):
        return StreamSession(settings)
    return Session(settings)
