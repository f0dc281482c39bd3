"""Columns that functions of the user's decode, row by row, ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from pagefeed import _core
from pagefeed.core._base import Int64Array
from pagefeed.core.batches import Batch, BatchPlan, Feed, LoaderSettings, ProcessEngine
from pagefeed.core.run import Run
from pagefeed.documents.decode import Decode
from pagefeed.documents.document_feed import DocumentFeed
from pagefeed.errors import DataError, InvalidArgumentError

__all__ = ["DecodingFeed"]

Row = Future[Any] | None
"""A row that is being decoded; None if it is null."""

ROWS_AHEAD = 4
"""Rows for every worker that are being decoded ahead of the consumer, at least."""


class DecodingFeed(Feed):
    """A feed of documents whose columns are decoded.

    Args:
        settings: Of the loader.
        run: What it delivers.
        decode: The functions.

    Raises:
        InvalidArgumentError: If a column is not there.
    """

    def __init__(self, settings: LoaderSettings, run: Run, decode: Decode) -> None:
        self._feed = feed = DocumentFeed(settings, run)
        unknown = [name for name in decode.functions if name not in feed.names]
        if unknown:
            raise InvalidArgumentError(
                f"decode names {unknown[0]!r}, and a batch has {list(feed.names)}: "
                "name columns of Documents(columns=[...])"
            )
        workers = decode.workers or settings.num_threads
        # Enough for all to be busy while the consumer holds a batch.
        rows = int(settings.batch_size * run.documents_each)
        ahead = 1 + -(-ROWS_AHEAD * workers // rows)
        self._engine = ProcessEngine(
            lambda: _DecodingEngine(feed, decode, workers=workers, ahead=ahead)
        )

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Plan batches in the order of ``sequences``."""
        return self._feed.plan(sequences)

    def batch(self, delivered: _Decoding) -> Batch:
        """Return a batch, decoded."""
        return delivered.finished()


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
        self, feed: DocumentFeed, decode: Decode, *, workers: int, ahead: int
    ) -> None:
        self._feed = feed
        self._decode = decode
        self._ahead = ahead
        self._engine = cast("_core.Engine", feed.engine())
        self._begun: deque[_Decoding | Exception] = deque()
        self.submit = self._engine.submit
        """Append the batches of a plan; returns at once."""
        self.stats = self._engine.stats
        """Return counters since the start."""
        self.pool: Executor
        """What runs the functions."""
        if decode.processes:
            # Imported where it is asked for: importing pagefeed leaves it alone.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, mp_context=context)
        else:
            self.pool = ThreadPoolExecutor(workers, "pagefeed-decode")

    def _submitted(self, function: Callable[[Any], Any], value: Any) -> Row:
        if value is None:
            return None
        if self._decode.processes and isinstance(value, memoryview):
            value = bytes(value)  # A view cannot be sent.
        return self.pool.submit(function, value)

    def _begin(self, delivered: _core.Buffer) -> _Decoding:
        """Begin to decode a batch."""
        batch = self._feed.batch(delivered)
        rows = {
            name: [self._submitted(function, value) for value in batch[name]]
            for name, function in self._decode.functions.items()
        }
        return _Decoding(batch, rows)

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
                break
        first = begun.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget all batches that were submitted and not taken."""
        for one in self._begun:
            if isinstance(one, _Decoding):
                one.cancel()
        self._begun.clear()
        self._engine.clear(keep_pages=keep_pages)

    def close(self) -> None:
        """End the engine, and what decodes."""
        self._feed.close()
        self.clear()
        self.pool.shutdown(cancel_futures=True)
