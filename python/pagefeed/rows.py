"""Batches of documents: which rows of which pages, and what is made of them."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.arrays import Int64Array
from pagefeed.dataset import ParquetDataset
from pagefeed.documents import DocumentUnits
from pagefeed.formats import Batch, Converter
from pagefeed.planner import NO_UNIT

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
        dataset: What it reads.
        units: The documents.
        batch_rows: Documents of a batch.
        num_threads: Threads of the engine.
        memory: Bytes it may hold.
        dtype: Type of padded tokens.
        padding: Token that fills up short documents.
        convert: Makes arrays what is handed out.

    Raises:
        ColumnNotFoundError: If a column does not exist.
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        units: DocumentUnits,
        *,
        batch_rows: int,
        num_threads: int,
        memory: int,
        dtype: str,
        padding: int,
        convert: Converter,
    ) -> None:
        documents = units.documents
        if documents.columns is None:
            names = [dataset.column, *dataset.metadata]
        else:
            names = list(documents.columns)
        self._padded = documents.max_length is not None
        if self._padded:
            names = [
                dataset.column,
                *(name for name in names if name != dataset.column),
            ]
        self._names = names
        self._indexes = [dataset.column_index(name) for name in names]
        sizes = [len(index) for index in self._indexes]
        self._first_pages = np.cumsum([0, *sizes])
        self._dataset = dataset
        self._units = units
        self._batch_rows = batch_rows
        self._num_threads = num_threads
        self._memory = memory
        self._dtype = np.dtype(dtype)
        self._padding = padding
        self._convert = convert
        self._started: tuple[int, _core.RowEngine] | None = None

    def engine(self) -> _core.RowEngine:
        """Return this process's engine: threads do not survive a fork."""
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start()
        return self._started[1]

    def plan(self, units: Int64Array) -> RowPlan:
        """Plan batches of ``units``, in their order; ``NO_UNIT`` leaves a null row."""
        places = np.flatnonzero(units != NO_UNIT)
        rows = self._units.rows(units[places])
        cells = [self._cells(column, rows) for column in range(len(self._names))]
        batch, destination = np.divmod(places, self._batch_rows)
        num_columns = len(cells)
        borders = np.arange(len(units) // self._batch_rows + 1)
        # Column by column within a row: all cells of a batch stay together.
        page, row = (
            np.stack(part, axis=1).reshape(-1) for part in zip(*cells, strict=True)
        )
        return RowPlan(
            batch_offsets=(np.searchsorted(batch, borders) * num_columns).astype(
                np.uint32
            ),
            page=page.astype(np.uint64),
            row=row.astype(np.uint32),
            destination_row=np.repeat(destination, num_columns).astype(np.uint32),
            column=np.tile(np.arange(num_columns, dtype=np.uint32), len(places)),
        )

    def batch(self, columns: list[_core.ArrowArray]) -> Batch:
        """Make a batch of what the engine delivers."""
        batch: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        if not self._padded:
            return batch
        tokens = batch.pop(self._dataset.column)
        lengths = np.minimum(
            np.frombuffer(tokens.list_lengths(), dtype=np.int64), self._units.length
        )
        length = self._units.length
        if self._units.documents.pad == "longest":
            length = max(1, int(lengths.max(initial=0)))
        rows = np.empty((len(tokens), length), dtype=self._dtype)
        tokens.write_padded(rows, length, self._padding)
        return {
            "input_ids": self._convert(rows),
            "lengths": self._convert(lengths),
            **batch,
        }

    def _cells(self, column: int, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Page, numbered through all columns, and row in it, of rows of the files."""
        index = self._indexes[column]
        page = index.pages_of_rows(rows)
        return page + self._first_pages[column], rows - index.first_rows(page)

    def _start(self) -> _core.RowEngine:
        return _core.RowEngine(
            [index.core for index in self._indexes],
            num_columns=len(self._names),
            num_threads=self._num_threads,
            memory=self._memory,
            batch_rows=self._batch_rows,
            verify_checksums=self._dataset.verify_checksums,
        )
