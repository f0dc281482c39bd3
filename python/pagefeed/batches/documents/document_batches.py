"""Batches of documents: which rows of which pages, and what is made of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from pagefeed import _core
from pagefeed._base import Int64Array, UInt32Array, UInt64Array, distinct
from pagefeed.batches.aligned import AlignedColumns
from pagefeed.batches.documents.row_columns import (
    as_taken,
    check_aligned,
    row_columns,
)
from pagefeed.batches.engines import ProcessEngine
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import Batch, Converter
from pagefeed.batches.metadata import Metadata
from pagefeed.dataset import Dataset, FolderColumn, PageIndex
from pagefeed.run import NO_SEQUENCE, BatchPlan
from pagefeed.sequences import AnyIndex, DocumentIndex, Documents, JoinedIndex

__all__ = ["DocumentFeed"]


class DocumentFeed:
    """Feeds batches of documents, with any of their columns.

    Args:
        datasets: What it reads.
        index: Their documents, numbered through.
        documents: What a batch holds of them.
        batch_rows: Documents of a batch.
        num_threads: Threads of the engine.
        memory: Bytes it may hold.
        dtype: Type of padded tokens.
        padding: Token that fills up short documents.
        fields: What padded documents come with.
        aligned: Columns that come with the tokens.
        metadata: What is told of the documents.
        has_padding: Whether rows of a batch may be no documents.
        convert: Makes arrays what is handed out.
        vocab_size: Ids of padded tokens are below it; None for all not negative.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        InvalidArgumentError: If columns cannot be had under one name or be cut.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        index: AnyIndex,
        documents: Documents,
        *,
        batch_rows: int,
        num_threads: int,
        memory: int,
        dtype: str,
        padding: int,
        fields: Fields,
        aligned: AlignedColumns,
        metadata: Metadata | None,
        has_padding: bool,
        convert: Converter,
        vocab_size: int | None = None,
    ) -> None:
        self._documents = documents
        columns = row_columns(datasets, documents, tells_metadata=metadata is not None)
        self._names = columns.names
        fields.check_given(columns.names)
        self._metadata = metadata
        parts = index.parts if isinstance(index, JoinedIndex) else (index,)
        self._parts = cast("tuple[DocumentIndex, ...]", parts)
        self._first_sequences = np.cumsum(
            [0, *(part.num_sequences for part in self._parts)]
        )
        sources = [
            [dataset.source_of(name) for name in names]
            for dataset, names in zip(datasets, columns.of, strict=True)
        ]
        beside = [_told(dataset, metadata) for dataset in datasets]
        if has_padding or metadata is not None:
            for dataset, told in zip(datasets, beside, strict=True):
                told.append(FolderColumn((1,), _first_values(dataset)))
        self._columns = list(
            itertools.chain.from_iterable(
                (*own, *told) for own, told in zip(sources, beside, strict=True)
            )
        )
        names = (*self._names, *(f"metadata {n}" for n in range(len(beside[0]))))
        self._num_columns = len(names)
        self._given = aligned
        self._first_pages = _first_pages(self._columns)
        self._batch_rows = batch_rows
        self._dtype = dtype
        self._padding = padding
        self._fields = fields
        self._convert = convert
        # Of nothing that knows this feed: an engine ends with the last use of its feed.
        start = partial(
            _core.Engine,
            [],
            columns=[
                (*source.values, None)
                if isinstance(source, FolderColumn)
                else source.handle
                for source in self._columns
            ],
            names=names,
            num_threads=num_threads,
            memory=memory,
            batch_rows=batch_rows,
            verify_checksums=[
                dataset.verify_checksums for dataset in datasets for _ in names
            ],
            has_tokens=documents.makes_tokens,
            vocab_size=vocab_size,
        )
        self._engine = ProcessEngine(start)

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns of a batch are called."""
        return self._names

    def engine(self) -> _core.Engine:
        """Return this process's engine: threads do not survive a fork."""
        return self._engine.get()

    def close(self) -> None:
        """End this process's engine."""
        self._engine.close()

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Plan batches in the order of ``sequences``; ``NO_SEQUENCE`` is a null row."""
        places = np.flatnonzero(sequences != NO_SEQUENCE)
        page, row = self._cells(sequences[places])
        num_columns = self._num_columns
        columns = np.arange(num_columns, dtype=np.uint32)
        return BatchPlan(
            num_batches=len(sequences) // self._batch_rows,
            page=page.reshape(-1),
            row=row.reshape(-1),
            first_token=None,
            num_tokens=None,
            destination=np.repeat(places, num_columns),
            destination_offset=np.tile(columns, len(places)),
        )

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of what the engine delivers."""
        columns = delivered.take_columns()
        told = columns[len(self._names) :]
        del columns[len(self._names) :]
        there = told.pop() if told else None
        batch: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        most = self._documents.max_length
        if most is None or not self._documents.makes_tokens:
            return self._taken(batch | self._padded(batch))
        whole = np.frombuffer(columns[0].list_lengths(), dtype=np.int64)
        lengths = np.minimum(whole, most)
        length = most
        if self._documents.pad == "longest":
            length = max(1, int(lengths.max(initial=0)))
        shape = len(whole), length
        memory = columns[0].padded(
            length, self._padding, self._dtype, **self._fields.settings
        )
        made: Batch = self._fields.arrays(memory, shape, self._dtype)
        made |= {"lengths": lengths}
        if self._metadata is not None and there is not None:
            made["metadata"] = self._metadata.of_documents(told, there, whole, most)
        # Columns called like what is made are the user's.
        del batch[self._names[0]]
        made |= batch
        for name, dtype, padding in self._given.each:
            check_aligned(name, whole, batch[name])
            memory = batch[name].padded_numbers(length, padding)
            made[name] = np.ndarray(shape, dtype, memoryview(memory))
        made |= self._given.loss_mask(made)
        return self._taken(made)

    def _taken(self, made: Batch) -> Batch:
        """Return values as they are handed out."""
        taken = {
            name: as_taken(value) if isinstance(value, _core.ArrowArray) else value
            for name, value in made.items()
        }
        return {
            name: self._convert(value) if isinstance(value, np.ndarray) else value
            for name, value in taken.items()
        }

    def _padded(self, columns: dict[str, Any]) -> Batch:
        """Return the columns that are filled up each by its own token."""
        made: dict[str, Any] = {}
        for name, filling in self._documents.padded_columns.items():
            found = np.frombuffer(columns[name].list_lengths(), dtype=np.int64)
            length = self._documents.max_length or max(1, int(found.max(initial=0)))
            memory = columns[name].padded(length, filling, "int64")
            shape = len(found), length
            array = np.ndarray(shape, np.int64, memoryview(memory))
            made[name] = array
            made[f"{name}_lengths"] = np.minimum(found, length)
        return made

    def _cells(self, sequences: Int64Array) -> tuple[UInt64Array, UInt32Array]:
        """Page, numbered through, and row in it: [sequences, columns] each."""
        num_columns = self._num_columns
        page = np.empty((len(sequences), num_columns), dtype=np.uint64)
        row = np.empty((len(sequences), num_columns), dtype=np.uint32)
        part = np.searchsorted(self._first_sequences, sequences, side="right") - 1
        for number in distinct(part).tolist():
            which = np.flatnonzero(part == number)
            index = self._parts[number].spans.index
            rows = self._parts[number].rows(
                sequences[which] - self._first_sequences[number]
            )
            for column in range(num_columns):
                place = number * num_columns + column
                source = self._columns[place]
                if isinstance(source, FolderColumn):
                    local = np.zeros_like(rows)
                    row[which, column] = source.number_of_file[
                        index.files_of_rows(rows)
                    ]
                else:
                    local = source.pages_of_rows(rows)
                    row[which, column] = rows - source.first_rows(local)
                page[which, column] = local + self._first_pages[place]
        return page, row


def _told(
    dataset: Dataset, metadata: Metadata | None
) -> list[PageIndex | FolderColumn]:
    """Where its metadata comes from."""
    if metadata is None:
        return []
    nothing = FolderColumn((), _first_values(dataset))
    named = {*dataset.metadata, *dataset.span_columns}
    return [
        dataset.source_of(name) if name in named else nothing for name in metadata.names
    ]


def _first_values(dataset: Dataset) -> Int64Array:
    """The number of the first value, for each file."""
    return np.zeros(len(dataset.files), dtype=np.int64)


def _first_pages(columns: Sequence[PageIndex | FolderColumn]) -> Int64Array:
    """Number of the first page of each: the values of folders are one."""
    sizes = np.array([1 if isinstance(c, FolderColumn) else len(c) for c in columns])
    first: Int64Array = np.cumsum(sizes) - sizes
    return first
