"""Columns of documents that functions of the user decode, some steps ahead."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np

from pagefeed.core._base import Int64Array, check_flag, check_positive
from pagefeed.core.batches import Batch, BatchPlan, Feed, LoaderSettings, ProcessEngine
from pagefeed.core.order import Drawing, KeyPart, make_generator
from pagefeed.core.run import NO_SEQUENCE, Run, Sequences
from pagefeed.documents.document_feed import DocumentFeed
from pagefeed.errors import DataError, InvalidArgumentError


@dataclass(frozen=True)
class Decode:
    """Functions that decode columns, and the threads or processes that run them.

    Args:
        functions: Functions by column. Each is called with the value of a row: a str, a
            memoryview, or any other type as the batch has it. Nulls stay None. A batch
            has the list of the results. A function with a second parameter ``rng`` gets
            a generator of NumPy, keyed by seed, epoch and row. It gives the same
            numbers for all columns of a row, on any number of ranks and after a resume.
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

    functions: Mapping[str, Callable[..., Any]]
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
        _ = self.draws  # A wrong function is refused here.
        if self.workers is not None:
            check_positive(self.workers, "workers")
        check_flag(self.processes, "processes")

    @property
    def draws(self) -> bool:
        """Whether a function draws random numbers."""
        return any(drawing.draws for drawing in _drawings(self.functions).values())

    @classmethod
    def parse(cls, decode: DecodeLike) -> Decode:
        """Return a :class:`Decode` unchanged, or make one from functions by column.

        Raises:
            InvalidArgumentError: If ``value`` is neither.
        """
        return decode if isinstance(decode, Decode) else cls(decode)


def _drawings(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Drawing]:
    named = functions.items()
    return {name: Drawing.of(f, f"decode[{name!r}]") for name, f in named}


DecodeLike: TypeAlias = Decode | Mapping[str, Callable[..., Any]]
"""Values that a loader accepts as ``decode``."""

Value = Future[Any] | None
"""A value that is being decoded; None if it is null."""
Refuse = Callable[[str, int, Exception], Exception]
Sizes = tuple[int, int]
"""Bytes of values: as given, and as expected after decoding."""
Keys = list[tuple[KeyPart, ...]]
"""Key of the random numbers of each value."""
Begin = Callable[[Any], tuple[Batch, dict[str, Any], Sizes]]
"""Makes a batch from a delivery of an engine. Returns the batch, the dict with the
lists of values to decode, and the bytes of these values."""

VALUES_AHEAD = 4
"""Values for every worker that are being decoded ahead of the consumer, about."""


@dataclass(frozen=True, kw_only=True)
class KeyedPlan(BatchPlan):
    """A plan of batches for whose values functions draw random numbers."""

    keys: Sequence[Keys] = ()
    """The keys of each batch; empty if no function draws."""


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


def row_keys(
    seed: int, run: Run, dataset: Int64Array, row: Int64Array, of: Sequences
) -> Keys:
    """Return the key of each row, for functions that draw random numbers.

    Args:
        seed: Seed of the order.
        run: The run.
        dataset: Number of the dataset of each row.
        row: Rows, counted through the files of the dataset.
        of: The sequence of each row, with its epoch.
    """
    names = [name or "" for name in run.names]
    epochs = [0] * len(of) if of.epochs is None else of.epochs.tolist()
    table = zip(dataset.tolist(), row.tolist(), epochs, strict=True)
    return [(seed, "row", names[number], *rest) for number, *rest in table]


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
        self._drawings = _drawings(decode.functions)
        self._workers = workers = decode.workers or num_threads
        self._most_bytes, self._of_step = most_bytes, of_step
        self._begun: deque[Decoding | Exception] = deque()
        self._peak = 0.0
        self._last: Callable[[], Decoding | None] = lambda: None
        """The batch handed out last, while it exists."""
        self.scale = 1.0
        """Measured size of decoded values, over the expected size; 1 or more."""
        self._keys = deque[Keys]()
        self.pool: Executor
        """Runs the functions."""
        if decode.processes:
            # Imported here, so that importing pagefeed does not import it.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            self.pool = ProcessPoolExecutor(workers, mp_context=context)
        else:
            self.pool = ThreadPoolExecutor(workers, "pagefeed-decode")

    def submit(self, plan: BatchPlan) -> None:
        """Append the batches of a plan; returns at once."""
        self._engine.submit(plan)
        if isinstance(plan, KeyedPlan):
            self._keys.extend(plan.keys)

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
        self._last = weakref.ref(first)
        return first

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for: values, or else the engine."""
        last = self._last()
        values = [] if last is None else chain.from_iterable(last.begun.values())
        decoding = sum(value is not None and not value.done() for value in values)
        told: dict[str, Any] = self._engine.awaited()
        if decoding:  # The engine makes later batches.
            told = told | {"places": [], "num_pages": 0}
        return told | {"decoding": decoding}

    def _begin(self) -> Decoding:
        batch, into, sizes = self._make(self._engine.next_batch())
        keys = self._keys.popleft() if self._keys else []
        begun = {}
        for name, function in self._drawings.items():
            values = into[name]  # Nulls have no key where they fill up a batch.
            pairs = zip(values, chain(keys, repeat(())), strict=False)
            begun[name] = [self._submitted(function, *pair) for pair in pairs]
        return Decoding(batch, into, begun, sizes)

    def _submitted(
        self, function: Drawing, value: Any, key: tuple[KeyPart, ...]
    ) -> Value:
        if value is None:
            return None
        if self._decode.processes and isinstance(value, memoryview):
            value = bytes(value)  # A view cannot be sent.
        return self.pool.submit(function, value, partial(make_generator, *key))

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
        self._keys.clear()
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
        self._feed, self._run = DocumentFeed(settings, run), run
        self._draws, self._seed = decode.draws, settings.seed
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
        plan = self._feed.plan(sequences)
        if not self._draws:
            return plan
        keys = [self._keys_of(sequences[batch]) for batch in range(len(sequences))]
        return KeyedPlan(**vars(plan), keys=keys)

    def _keys_of(self, sequences: Sequences) -> Keys:
        """Return the keys of a batch's rows."""
        run, places = self._run, np.flatnonzero(sequences.numbers != NO_SEQUENCE)
        given = sequences[places]
        found = run.index.documents_of(given.numbers)
        keys = row_keys(self._seed, run, found.dataset, found.row, given[found.which])
        if run.takes_batches:
            return keys
        by_place = dict(zip(places.tolist(), keys, strict=True))
        return [by_place.get(place, ()) for place in range(len(sequences))]

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
