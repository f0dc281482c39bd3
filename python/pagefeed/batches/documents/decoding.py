"""Columns that functions of the user's decode, row by row, ahead of the consumer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pagefeed import _core
from pagefeed._base import Int64Array, check_flag, check_positive
from pagefeed.batches.documents.document_batches import DocumentFeed
from pagefeed.batches.formats import Batch
from pagefeed.errors import DataError, InvalidArgumentError
from pagefeed.run import BatchPlan

__all__ = ["Decode", "DecodingFeed"]

Row = Future[Any] | None
"""A row that is being decoded; None if it is null."""

ROWS_AHEAD = 4
"""Rows for every worker that are being decoded ahead of the consumer, at least."""


@dataclass(frozen=True)
class Decode:
    """Functions that decode columns, and what runs them.

    Args:
        functions: By column, called with the value of a row: str, memoryview, or as the
            batch has it otherwise; nulls stay None. A batch has the list of what they
            return.
        workers: Threads or processes that run them; by default as many as the loader
            has threads.
        processes: Run them in processes, which are spawned: for functions that hold the
            GIL. They are called with bytes in place of memoryviews, and must be
            picklable, as what they return.

    Raises:
        InvalidArgumentError: If these are no functions by column.

    Example:
        >>> Decode({"image": len}, workers=2).workers
        2
    """

    functions: Mapping[str, Callable[[Any], Any]]
    workers: int | None = None
    processes: bool = False

    def __post_init__(self) -> None:
        functions = self.functions
        if not (
            isinstance(functions, Mapping)
            and functions
            and all(isinstance(name, str) for name in functions)
            and all(map(callable, functions.values()))
        ):
            raise InvalidArgumentError(
                f"decode={functions!r:.80} must name a function for each column, such "
                'as {"image": decode_image}'
            )
        object.__setattr__(self, "functions", dict(functions))
        if self.workers is not None:
            check_positive(self.workers, "workers")
        check_flag(self.processes, "processes")

    @classmethod
    def parse(cls, decode: Decode | Mapping[str, Any] | None) -> Decode | None:
        """Return what decodes, of itself or of functions by column.

        Raises:
            InvalidArgumentError: If it is neither.
        """
        if decode is None or isinstance(decode, Decode):
            return decode
        return cls(decode)


class DecodingFeed:
    """A feed of documents whose columns are decoded.

    Args:
        feed: Makes the batches.
        decode: The functions.
        batch_rows: Documents of a batch.
        workers: Threads or processes, unless the functions ask for others.

    Raises:
        InvalidArgumentError: If a column is not there.
    """

    def __init__(
        self, feed: DocumentFeed, decode: Decode, *, batch_rows: int, workers: int
    ) -> None:
        unknown = [name for name in decode.functions if name not in feed.names]
        if unknown:
            raise InvalidArgumentError(
                f"decode names {unknown[0]!r}, and a batch has {list(feed.names)}: "
                "name columns of Documents(columns=[...])"
            )
        self._feed = feed
        self._decode = decode
        self._workers = decode.workers or workers
        # Enough for all to be busy while the consumer holds a batch.
        self._ahead = 1 + -(-ROWS_AHEAD * self._workers // batch_rows)
        self._started: tuple[int, _DecodingEngine] | None = None

    def engine(self) -> _DecodingEngine:
        """Return this process's engine: threads do not survive a fork."""
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start()
        return self._started[1]

    def close(self) -> None:
        """End this process's engine, and what decodes."""
        self._feed.close()
        if self._started is not None and self._started[0] == os.getpid():
            self._started[1].clear()
            self._started[1].pool.shutdown(cancel_futures=True)

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Plan batches in the order of ``sequences``."""
        return self._feed.plan(sequences)

    def batch(self, delivered: _Decoding) -> Batch:
        """Return a batch, decoded."""
        return delivered.finished()

    def _start(self) -> _DecodingEngine:
        if self._decode.processes:
            # Imported where it is asked for: importing pagefeed leaves it alone.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            pool: Executor = ProcessPoolExecutor(self._workers, mp_context=context)
        else:
            pool = ThreadPoolExecutor(self._workers, "pagefeed-decode")
        return _DecodingEngine(
            self._feed.engine(), pool, self._begun(pool), ahead=self._ahead
        )

    def _begun(self, pool: Executor) -> Callable[[_core.Buffer], _Decoding]:
        """What begins to decode the batch that an engine delivered."""
        feed, decode = self._feed, self._decode

        def submitted(function: Callable[[Any], Any], value: Any) -> Row:  # noqa: ANN401
            if value is None:
                return None
            if decode.processes and isinstance(value, memoryview):
                value = bytes(value)  # A view cannot be sent.
            return pool.submit(function, value)

        def begin(delivered: _core.Buffer) -> _Decoding:
            batch = feed.batch(delivered)
            rows = {
                name: [submitted(function, value) for value in batch[name]]
                for name, function in decode.functions.items()
            }
            return _Decoding(batch, rows)

        return begin


@dataclass
class _Decoding:
    """A batch whose rows are being decoded."""

    batch: Batch
    rows: dict[str, list[Row]]

    def finished(self) -> Batch:
        """Wait for the rows, in order.

        Raises:
            DataError: If a function raised; it names the row.
        """
        for name, rows in self.rows.items():
            values = []
            for number, row in enumerate(rows):
                try:
                    values.append(None if row is None else row.result())
                except Exception as cause:
                    error = DataError(
                        f"decode of column {name!r} failed in row {number} of a batch: "
                        f"{type(cause).__name__}: {cause}"
                    )
                    error.column, error.batch_row = name, number
                    raise error from cause
            self.batch[name] = values
        return self.batch

    def cancel(self) -> None:
        """Leave rows out that nobody waits for."""
        for rows in self.rows.values():
            for row in rows:
                if row is not None:
                    row.cancel()


class _DecodingEngine:
    """An engine whose batches are decoded some steps ahead of their consumer."""

    def __init__(
        self,
        engine: _core.Engine,
        pool: Executor,
        begin: Callable[[_core.Buffer], _Decoding],
        *,
        ahead: int,
    ) -> None:
        self._engine = engine
        self.pool = pool
        """What runs the functions."""
        self._begin = begin
        self._ahead = ahead
        self._begun: deque[_Decoding | Exception] = deque()
        self.submit = engine.submit
        """Append the batches of a plan; returns at once."""
        self.stats = engine.stats
        """Return counters since the start."""

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""
        return self._engine.plan_bytes

    def next_batch(self) -> _Decoding:
        """Return the next batch, and begin to decode those behind it."""
        begun = self._begun
        while not begun or (len(begun) < self._ahead and self._engine.num_pending):
            try:
                begun.append(self._begin(self._engine.next_batch()))
            except Exception as error:
                if not begun:
                    raise
                begun.append(error)
            if isinstance(begun[-1], Exception):
                break
        first = begun.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    def clear(self) -> None:
        """Forget all batches that were submitted and not taken."""
        for one in self._begun:
            if isinstance(one, _Decoding):
                one.cancel()
        self._begun.clear()
        self._engine.clear()
