"""Columns of documents that functions of the user decode, some steps ahead."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from pagefeed.core._base import check_flag, check_positive
from pagefeed.core.batches import Batch, BatchPlan, Feed, LoaderSettings, ProcessEngine
from pagefeed.core.run import Run, Sequences
from pagefeed.documents.document_feed import DocumentFeed
from pagefeed.errors import DataError, InvalidArgumentError


@dataclass(frozen=True)
class Decode:
    """Functions that decode columns, and the threads or processes that run them.

    Args:
        functions: Functions by column. Each is called with the value of a row: a str, a
            memoryview, or any other type as the batch has it. Nulls stay None. A batch
            has the list of the results.
        workers: Number of threads or processes. By default as many as the loader has
            threads.
        processes: Run the functions in spawned processes, for functions that hold the
            GIL. They get bytes in place of memoryviews. Functions and results must be
            picklable.

    Raises:
        InvalidArgumentError: If ``functions`` is not a dict of functions by column.

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
    def parse(cls, decode: DecodeLike) -> Decode:
        """Return a :class:`Decode` unchanged, or make one from functions by column.

        Raises:
            InvalidArgumentError: If ``value`` is neither.
        """
        return decode if isinstance(decode, Decode) else cls(decode)


DecodeLike: TypeAlias = Decode | Mapping[str, Callable[[Any], Any]]
"""Values that a loader accepts as ``decode``."""

Value = Future[Any] | None
"""A value that is being decoded; None if it is null."""
Refuse = Callable[[str, int, Exception], Exception]
Sizes = tuple[int, int]
"""Bytes of values: as given, and as expected after decoding."""
Begin = Callable[[Any], tuple[Batch, dict[str, Any], Sizes]]
"""Makes a batch from a delivery of an engine. Returns the batch, the dict with the
lists of values to decode, and the bytes of these values."""

VALUES_AHEAD = 4
"""Values for every worker that are being decoded ahead of the consumer, about."""


@dataclass
class Decoding:
    """A batch whose values are being decoded."""

    batch: Batch
    into: dict[str, Any]
    """The dict of the batch whose lists of values are replaced."""
    begun: dict[str, list[Value]]
    """The values."""
    sizes: Sizes
    """Their bytes."""

    def finished(self, refuse: Refuse) -> Batch:
        """Wait for the values, in order.

        If a function fails, raise the error that ``refuse`` returns.
        """
        for name, begun in self.begun.items():
            values = []
            for row, value in enumerate(begun):
                try:
                    values.append(None if value is None else value.result())
                except Exception as cause:
                    raise refuse(name, row, cause) from cause
            self.into[name] = values
        return self.batch

    def cancel(self) -> None:
        """Cancel values that are no longer waited for."""
        for values in self.begun.values():
            for value in values:
                if value is not None:
                    value.cancel()


class AheadEngine:
    """Begins to decode batches of an engine ahead of their consumer.

    Args:
        engine: Engine that delivers batches.
        decode: The functions, by the names of values, and what runs them.
        num_threads: Number of workers, if ``decode`` does not give it.
        begin: Makes batches from the deliveries of the engine.
        most_bytes: Most bytes of values that may wait.
        of_step: Bytes of the values of the largest batch.
    """

    def __init__(
        self,
        engine: Any,
        decode: Decode,
        begin: Begin,
        num_threads: int,
        *,
        most_bytes: float = math.inf,
        of_step: Sizes = (0, 0),
    ) -> None:
        self._engine, self._decode, self._make = engine, decode, begin
        self._workers = workers = decode.workers or num_threads
        self._most_bytes, self._of_step = most_bytes, of_step
        self._begun: deque[Decoding | Exception] = deque()
        self._peak = 0.0
        self.scale = 1.0
        """Measured size of decoded values, over the expected size; 1 or more."""
        self.submit = engine.submit
        """Append the batches of a plan; returns at once."""
        self.pool: Executor
        """Runs the functions."""
        if decode.processes:
            # Imported where it is asked for: importing pagefeed leaves it alone.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, mp_context=context)
        else:
            self.pool = ThreadPoolExecutor(workers, "pagefeed-decode")

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""
        bytes_of_plans: int = self._engine.plan_bytes
        return bytes_of_plans

    def stats(self) -> dict[str, Any]:
        """Return counters since the start; what waits here counts as memory."""
        counters: dict[str, Any] = self._engine.stats()
        return counters | {"peak_bytes": counters["peak_bytes"] + int(self._peak)}

    def next_batch(self) -> Decoding:
        """Return the next batch, and start to decode later ones."""
        begun = self._begun
        while not begun or (self._engine.num_pending and self._is_short()):
            try:
                begun.append(self._begin())
            except Exception as error:
                if not begun:
                    raise
                begun.append(error)
                break
        self._peak = max(self._peak, self._bytes_ahead())
        first = begun.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    def _begin(self) -> Decoding:
        batch, into, sizes = self._make(self._engine.next_batch())
        begun = {
            name: [self._submitted(function, value) for value in into[name]]
            for name, function in self._decode.functions.items()
        }
        return Decoding(batch, into, begun, sizes)

    def _submitted(self, function: Callable[[Any], Any], value: Any) -> Value:
        if value is None:
            return None
        if self._decode.processes and isinstance(value, memoryview):
            value = bytes(value)  # A view cannot be sent.
        return self.pool.submit(function, value)

    def _waiting(self) -> list[Decoding]:
        return [decoding for decoding in self._begun if isinstance(decoding, Decoding)]

    def _bytes_ahead(self, *also: Sizes) -> float:
        sizes = [*(decoding.sizes for decoding in self._waiting()), *also]
        return sum(stored + decoded * self.scale for stored, decoded in sizes)

    def _is_short(self) -> bool:
        """Return whether more values should be decoded ahead, and fit."""
        # A batch without values is one, too.
        ahead = sum(
            max(1, *map(len, decoding.begun.values()))
            for decoding in self._waiting()[1:]
        )
        is_short = ahead < VALUES_AHEAD * self._workers
        return is_short and self._bytes_ahead(self._of_step) <= self._most_bytes

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget all batches that were submitted and not taken."""
        for decoding in self._waiting():
            decoding.cancel()
        self._begun.clear()
        self._engine.clear(keep_pages=keep_pages)

    def close(self) -> None:
        """End the engine, and what decodes."""
        self._engine.close()
        self.clear()
        self.pool.shutdown(cancel_futures=True)


class DecodingFeed(Feed):
    """A feed of documents whose columns are decoded.

    Args:
        settings: Those of the loader.
        run: The run to deliver.
        decode: The functions.

    Raises:
        InvalidArgumentError: If a column is not there.
    """

    def __init__(self, settings: LoaderSettings, run: Run, decode: Decode) -> None:
        self._feed = DocumentFeed(settings, run)
        unknown = [name for name in decode.functions if name not in self._feed.names]
        if unknown:
            raise InvalidArgumentError(
                f"decode names {unknown[0]!r}, and a batch has {list(self._feed.names)}"
                ": name columns of Documents(columns=[...])"
            )
        self._engine = ProcessEngine(
            lambda: AheadEngine(
                self._feed.engine(), decode, self._begun, settings.num_threads
            )
        )

    def close(self) -> None:
        """End this process's engines, and all threads."""
        super().close()
        self._feed.close()

    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan batches in the order of ``sequences``."""
        return self._feed.plan(sequences)

    def batch(self, delivered: Decoding) -> Batch:
        """Return a batch, decoded.

        Raises:
            DataError: If a function raised; it names the row.
        """
        return delivered.finished(_failed)

    def _begun(self, delivered: Any) -> tuple[Batch, Batch, tuple[int, int]]:
        batch = self._feed.batch(delivered)
        return batch, batch, (0, 0)


def _failed(name: str, row: int, cause: Exception) -> DataError:
    error = DataError(
        f"decode of column {name!r} failed in row {row} of a batch: "
        f"{type(cause).__name__}: {cause}"
    )
    error.column, error.batch_row = name, row
    return error
