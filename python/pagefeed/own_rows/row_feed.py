"""Batches of rows: taken and collated on threads, ahead of their consumer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt32Array, near_name
from pagefeed.core.batches import (
    Batch,
    BatchPlan,
    Feed,
    LoaderSettings,
    ProcessEngine,
    converted,
    make_converter,
)
from pagefeed.core.run import NO_SEQUENCE, Run, Sequences
from pagefeed.core.sequences import Segments
from pagefeed.errors import (
    ColumnNotFoundError,
    DataError,
    InvalidArgumentError,
    PagefeedError,
)
from pagefeed.own_rows.collate import collate_rows, is_tensor
from pagefeed.own_rows.given import Given, columns_of

Rows = tuple[Int64Array, UInt32Array]
"""Rows of a batch: number in the dataset (int64), and the dataset (uint32): [rows]."""
Collate = Callable[[list[Any]], Any]
_AHEAD = 2
"""Tasks for every thread that are begun ahead of the consumer."""
_MOST_EACH, _TASK_SECONDS = 32, 0.005
"""Batches of a task at most, and the time that it should take."""
_COUNTERS = (
    *("pages_loaded", "pages_reloaded", "slices_read", "index_reads"),
    *("payload_reads", "bytes_read", "batches", "batches_ready", "tokens"),
    *("padding_tokens", "splits", "held_bytes", "peak_bytes"),
)
"""Counters of an engine of pages."""


class RowEngine:
    """Makes the batches of plans on threads, in order.

    A task makes one batch, or several while they take microseconds, so that threads
    rarely wait for each other.

    Args:
        make: Makes a batch; returns it with its bytes.
        num_threads: Number of threads.
        most_bytes: Bytes of batches that are made ahead, about.
    """

    def __init__(
        self,
        make: Callable[[Rows], tuple[Batch, int]],
        num_threads: int,
        most_bytes: int,
    ) -> None:
        self._make, self._most_bytes = make, most_bytes
        self._most = _AHEAD * num_threads
        self._planned: deque[Rows] = deque()
        self.plan_bytes = 0
        """Bytes of the plans whose batches are not begun."""
        self._begun: deque[Future[list[Any]]] = deque()
        self._made: deque[Any] = deque()
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._wait_seconds, self._batch_bytes, self._batches_each = 0.0, 1, 1
        self._pool = ThreadPoolExecutor(num_threads, "pagefeed-rows")

    def submit(self, plan: BatchPlan) -> None:
        """Append the batches of a plan; returns at once."""
        segments, rows = plan.segments, plan.batch_rows or 1
        borders = np.arange(plan.num_batches + 1) * rows
        first = np.searchsorted(segments.sequence, borders)
        for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
            own = segments.page[begin:end], segments.row[begin:end]
            self._planned.append(own)
            self.plan_bytes += own[0].nbytes + own[1].nbytes

    def next_batch(self) -> Batch:
        """Wait for the next batch and return it."""
        self._begin()
        if not self._made:
            self._counters["batches_ready"] += self._begun[0].done()
            begin = time.perf_counter()
            self._made.extend(self._begun[0].result())
            self._wait_seconds += time.perf_counter() - begin
            self._begun.popleft()
        made = self._made.popleft()
        if isinstance(made, Exception):
            raise made
        self._counters["batches"] += 1
        batch: Batch = made
        return batch

    def _begin(self) -> None:
        """Start tasks, as far as memory and threads allow."""
        each = self._batches_each
        task_bytes = max(1, self._batch_bytes * each)
        most = max(1, min(self._most, self._most_bytes // task_bytes))
        while self._planned and len(self._begun) < most:
            some = [
                self._planned.popleft() for _ in range(min(each, len(self._planned)))
            ]
            self.plan_bytes -= sum(a.nbytes + b.nbytes for a, b in some)
            self._begun.append(self._pool.submit(self._task, some))
        held = task_bytes * (1 + len(self._begun))
        self._counters["peak_bytes"] = max(self._counters["peak_bytes"], held)

    def _task(self, some: list[Rows]) -> list[Any]:
        """Make some batches, up to an error, which takes the place of its batch."""
        made, begin = list[Any](), time.perf_counter()
        for own in some:
            try:
                batch, self._batch_bytes = self._make(own)
            except Exception as error:  # noqa: BLE001 - raised at its step
                return [*made, error]
            made.append(batch)
        seconds = (time.perf_counter() - begin) / len(some)
        self._batches_each = max(1, min(_MOST_EACH, int(_TASK_SECONDS / seconds)))
        return made

    def clear(self, *, keep_pages: bool = False) -> None:  # noqa: ARG002 - it has none
        """Forget all batches that were submitted and not taken."""
        for future in self._begun:
            future.cancel()
        for waiting in (self._begun, self._made, self._planned):
            waiting.clear()
        self.plan_bytes = 0

    def keep_pages(self) -> None:
        """Keep no pages: rows are the user's."""

    def stats(self) -> dict[str, Any]:
        """Return counters since the start."""
        return self._counters | {"wait_seconds": self._wait_seconds}

    def close(self) -> None:
        """End the threads."""
        self.clear()
        self._pool.shutdown(cancel_futures=True)


class RowFeed(Feed):
    """Feeds batches of the user's rows.

    Args:
        settings: The settings of the loader.
        run: The run to deliver.
        given: The rows of each dataset.
        collate: Makes a batch of rows; None for columns of arrays and lists.

    Raises:
        InvalidArgumentError: If settings ask for what rows of any kind cannot have.
    """

    def __init__(
        self,
        settings: LoaderSettings,
        run: Run,
        given: Sequence[Given],
        collate: Collate | None,
    ) -> None:
        documents: Any = settings.sequences
        if settings.decode is not None or documents.padded_columns:
            raise InvalidArgumentError(
                "decode= and pad= by columns are for columns of files: do it in "
                "__getitem__ of the rows, or in rows(..., collate=)"
            )
        self._run, self._given, self._collate = run, given, collate
        self._columns, self._format = documents.columns, settings.format
        self._convert = make_converter(settings.format, pin_memory=settings.pin_memory)
        self._engine: ProcessEngine[Any] = ProcessEngine(
            lambda: RowEngine(self._made, settings.num_threads, settings.engine_bytes)
        )

    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan batches in the order of ``sequences``; padding is left out."""
        num_batches, num_rows = sequences.numbers.shape
        slots = np.flatnonzero(sequences.numbers != NO_SEQUENCE)
        given = sequences.reshape(-1)[slots]
        rows, dataset, _, are_left = self._run.index.documents_of(given.numbers)
        slots, rows, dataset = slots[are_left], rows[are_left], dataset[are_left]
        nothing = np.zeros(len(rows), np.uint32)
        segments = Segments(
            sequence=slots,
            page=rows,
            row=dataset.astype(np.uint32),
            first_token=nothing,
            num_tokens=nothing,
            offset=nothing,
        )
        return BatchPlan(
            segments=segments, num_batches=num_batches, batch_rows=num_rows
        )

    def batch(self, delivered: Batch) -> Batch:
        """Return a batch, converted."""
        if not isinstance(delivered, dict):
            return delivered
        nested = {n: v for n, v in delivered.items() if isinstance(v, dict | list)}
        inside = {n: _mapped(v, self._convert) for n, v in nested.items()}
        return converted(delivered | inside, self._convert)

    def dataset_ids(
        self,
        made: Batch,  # noqa: ARG002 - its rows are its sequences
        of_sequences: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.int32]:
        """Return the dataset of each row of a batch, which lacks those of padding."""
        return of_sequences[of_sequences >= 0]

    def _made(self, wanted: Rows) -> tuple[Batch, int]:
        """Take rows by number, rising, and put them into the order of the batch."""
        numbers, datasets = wanted
        rows: list[Any] = [None] * len(numbers)
        if not rows:  # Padding alone.
            return {}, 0
        order = np.lexsort((numbers, datasets))
        for dataset in np.unique(datasets).tolist() if len(self._given) > 1 else [0]:
            here = order[datasets[order] == dataset] if len(self._given) > 1 else order
            taken = self._given[dataset].take(numbers[here].tolist())
            for place, row in zip(here.tolist(), taken, strict=True):
                rows[place] = row
        try:
            if self._collate is None:
                self._check_columns(rows[0])
                batch = collate_rows(rows, self._columns)
            else:
                batch = self._collate(rows)
        except PagefeedError:
            raise
        except Exception as problem:
            raise DataError(
                f"collate of rows {numbers.tolist()} raised {type(problem).__name__}: "
                f"{problem}"
            ) from problem
        if isinstance(batch, dict):
            batch = {name: _mapped(value, _as_array) for name, value in batch.items()}
        return batch, _num_bytes(batch)

    def _check_columns(self, row: Any) -> None:
        names = [*map(str, columns_of(row))]
        for name in self._columns or ():
            if name not in names:
                raise ColumnNotFoundError(
                    f"{self._given[0].name}: there is no column {name!r}"
                    f"{near_name(name, names)}; rows have {names}"
                ).at(column=name)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with its arrays and tensors changed, in dicts and lists too."""
    if isinstance(value, dict):
        return {name: _mapped(inner, change) for name, inner in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], str | bytes):
        return [_mapped(inner, change) for inner in value]
    is_array = isinstance(value, np.ndarray) or is_tensor(value)
    return change(value) if is_array else value


def _as_array(value: Any) -> Any:
    """Return a tensor as an array of the same memory, so that it is converted alike."""
    is_known = is_tensor(value) and str(value.dtype) != "torch.bfloat16"
    return value.detach().numpy() if is_known else value


def _num_bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_num_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_num_bytes, value))
    if isinstance(value, str | bytes):
        return len(value)
    return value.nbytes if isinstance(value, np.ndarray) or is_tensor(value) else 8
