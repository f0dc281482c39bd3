"""Batches of documents: which rows of which pages, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.arrays import Int64Array, distinct
from pagefeed.dataset import ParquetDataset
from pagefeed.documents import Documents, DocumentUnits
from pagefeed.errors import InvalidArgumentError
from pagefeed.fields import DOCUMENTS, Fields
from pagefeed.formats import Batch, Converter
from pagefeed.joined import JoinedUnits
from pagefeed.planner import NO_UNIT
from pagefeed.sequences import Cut

__all__ = ["RowFeed", "RowPlan"]


class RowPlan(NamedTuple):
    """What the engine takes: cells of consecutive batches, sorted by batch."""

    batch_offsets: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    destination_row: npt.NDArray[np.uint32]
    column: npt.NDArray[np.uint32]


class RowFeed:
    """Feeds batches of documents, with any of their columns.

    Args:
        datasets: What it reads.
        cut: Their documents, numbered through.
        documents: What a batch holds of them.
        batch_rows: Documents of a batch.
        num_threads: Threads of the engine.
        memory: Bytes it may hold.
        dtype: Type of padded tokens.
        padding: Token that fills up short documents.
        fields: What padded documents come with.
        convert: Makes arrays what is handed out.
        vocab_size: Ids of padded tokens are below it; None for all not negative.

    Raises:
        ColumnNotFoundError: If a column does not exist.
    """

    def __init__(
        self,
        datasets: Sequence[ParquetDataset],
        cut: Cut,
        documents: Documents,
        *,
        batch_rows: int,
        num_threads: int,
        memory: int,
        dtype: str,
        padding: int,
        fields: Fields,
        convert: Converter,
        vocab_size: int | None = None,
    ) -> None:
        first = datasets[0]
        names = documents.columns or (first.column, *first.metadata)
        if fields.needs_documents and documents.max_length is None:
            raise InvalidArgumentError(
                f"fields={list(fields.names)} are of padded tokens: give {documents!r} "
                "a max_length"
            )
        self._documents = documents
        self._padded = None if documents.max_length is None else first.column
        if self._padded is not None:
            names = dict.fromkeys((self._padded, *names))
        self._names = tuple(names)
        self._datasets = datasets
        parts = cut.parts if isinstance(cut, JoinedUnits) else (cut,)
        self._parts = cast("tuple[DocumentUnits, ...]", parts)
        self._first_units = np.cumsum([0, *(part.num_units for part in self._parts)])
        self._indexes = [
            dataset.column_index(name) for dataset in datasets for name in self._names
        ]
        self._first_pages = np.cumsum([0, *map(len, self._indexes)])
        self._batch_rows = batch_rows
        self._num_threads = num_threads
        self._memory = memory
        self._dtype = np.dtype(dtype)
        self._padding = padding
        self._fields = fields
        self._convert = convert
        self._vocab_size = vocab_size
        self._started: tuple[int, _core.RowEngine] | None = None

    def engine(self) -> _core.RowEngine:
        """Return this process's engine: threads do not survive a fork."""
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start()
        return self._started[1]

    def plan(self, units: Int64Array) -> RowPlan:
        """Plan batches of ``units``, in their order; ``NO_UNIT`` leaves a null row."""
        places = np.flatnonzero(units != NO_UNIT)
        page, row = self._cells(units[places])
        batch, destination = np.divmod(places, self._batch_rows)
        num_columns = len(self._names)
        borders = np.arange(len(units) // self._batch_rows + 1)
        offsets = np.searchsorted(batch, borders) * num_columns
        columns = np.arange(num_columns, dtype=np.uint32)
        return RowPlan(
            batch_offsets=offsets.astype(np.uint32),
            page=page.reshape(-1).astype(np.uint64),
            row=row.reshape(-1).astype(np.uint32),
            destination_row=np.repeat(destination, num_columns).astype(np.uint32),
            column=np.tile(columns, len(places)),
        )

    def batch(self, columns: list[_core.ArrowArray]) -> Batch:
        """Make a batch of what the engine delivers."""
        batch: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        most = self._documents.max_length
        if self._padded is None or most is None:
            return batch
        tokens = batch.pop(self._padded)
        lengths = np.frombuffer(tokens.list_lengths(), dtype=np.int64)
        lengths = np.minimum(lengths, most)
        length = most
        if self._documents.pad == "longest":
            length = max(1, int(lengths.max(initial=0)))
        rows = np.empty((len(tokens), length), dtype=self._dtype)
        tokens.write_padded(rows, length, self._padding)
        padded: Batch = {"input_ids": rows}
        if self._fields.needs_documents:
            padded = self._fields.make(rows, _table(lengths))
        for name, value in (padded | {"lengths": lengths}).items():
            is_array = isinstance(value, np.ndarray)
            batch[name] = self._convert(value) if is_array else value
        return batch

    def _cells(self, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Page, numbered through all indexes, and row in it: int64 [units, columns]."""
        num_columns = len(self._names)
        page, row = np.empty((2, len(units), num_columns), dtype=np.int64)
        part = np.searchsorted(self._first_units, units, side="right") - 1
        for number in distinct(part).tolist():
            which = np.flatnonzero(part == number)
            rows = self._parts[number].rows(units[which] - self._first_units[number])
            for column in range(num_columns):
                place = number * num_columns + column
                index = self._indexes[place]
                local = index.pages_of_rows(rows)
                page[which, column] = local + self._first_pages[place]
                row[which, column] = rows - index.first_rows(local)
        return page, row

    def _start(self) -> _core.RowEngine:
        return _core.RowEngine(
            [index.core for index in self._indexes],
            num_columns=len(self._names),
            num_threads=self._num_threads,
            memory=self._memory,
            batch_rows=self._batch_rows,
            verify_checksums=all(data.verify_checksums for data in self._datasets),
            has_tokens=self._padded is not None,
            vocab_size=self._vocab_size,
        )


def _table(lengths: Int64Array) -> npt.NDArray[Any]:
    """The documents of padded rows, as the fields of a batch are made from them."""
    rows = np.flatnonzero(lengths)
    table = np.zeros(len(rows), dtype=DOCUMENTS)
    table["batch_row"] = rows
    table["num_tokens"] = table["row_tokens"] = lengths[rows]
    return table
