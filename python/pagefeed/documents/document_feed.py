"""Batches of documents: the rows of pages they need, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.aligned import AlignedColumns
from pagefeed.core._base import Int64Array, UInt32Array, distinct
from pagefeed.core.batches import (
    Batch,
    BatchPlan,
    EngineFeed,
    LoaderSettings,
    ProcessEngine,
)
from pagefeed.core.dataset import Dataset, FolderColumn, PageIndex
from pagefeed.core.run import NO_SEQUENCE, Run, Sequences
from pagefeed.core.sequences import Segments
from pagefeed.documents.budgets import DocumentBatchIndex
from pagefeed.documents.document_index import RowCut
from pagefeed.documents.row_columns import as_taken, row_columns, whole_columns
from pagefeed.errors import InvalidArgumentError

LONGEST = 8
"""Tokens of the longest document of a batch in those of a mean one, about: an estimate
for the memory that batches take."""


class DocumentFeed(EngineFeed):
    """Feeds batches of documents, with any of their columns.

    Args:
        settings: Those of the loader.
        run: The run to deliver.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        InvalidArgumentError: If columns cannot be had under one name or be cut.
    """

    _aligned: AlignedColumns
    """The aligned columns, which also give the types of document columns."""

    def __init__(self, settings: LoaderSettings, run: Run) -> None:
        super().__init__(settings, run)
        self._aligned = AlignedColumns.of(run.datasets, settings.dataset.fill)
        documents, datasets = cast("RowCut", settings.sequences), run.datasets
        self._documents, metadata = documents, self._metadata
        if metadata is not None:
            _refuse_infilled(datasets)
        _refuse_wide(datasets)
        self.names, called = row_columns(
            datasets,
            documents,
            self._aligned.names,
            tells_metadata=metadata is not None,
        )
        """Names of the columns in a batch."""
        settings.fields.check_given(self.names)
        self._run = run
        self._lacked = self._aligned.lacked
        if self._lacked and not documents.makes_tokens:
            raise InvalidArgumentError(
                f"fill={self._lacked} needs batches with padding, and {documents!r} "
                "delivers rows as the files have them: give a max_length"
            )
        sources, beside = [], []
        for member, (dataset, names) in enumerate(zip(datasets, called, strict=True)):
            nothing = FolderColumn((), _first_values(dataset))
            lacks = self._aligned.lacked_by(member)
            sources.append(
                [nothing if n in lacks else dataset.source_of(n) for n in names]
            )
            has = [
                replace(nothing, values=() if n in lacks else (1,))
                for n in self._lacked
            ]
            beside.append([*_columns_beside(dataset, metadata), *has])
        if not settings.drop_last or metadata is not None:
            for dataset, own_beside in zip(datasets, beside, strict=True):
                own_beside.append(FolderColumn((1,), _first_values(dataset)))
        both = zip(sources, beside, strict=True)
        self.sources = self._columns = [
            column for own, own_beside in both for column in (*own, *own_beside)
        ]
        names = (*self.names, *(f"metadata {n}" for n in range(len(beside[0]))))
        self._num_columns = len(names)
        infilled = [isinstance(c, PageIndex) and c.is_infilled for c in self._columns]
        self._is_infilled = np.reshape(infilled, (len(datasets), -1))
        """Whether each column of a dataset is infilled: bool [datasets, columns]."""
        self._first_pages = _first_pages(self._columns)
        self._takes_batches = run.takes_batches
        self._num_rows = settings.batch_size
        if self._takes_batches:
            indexes = cast("Sequence[DocumentBatchIndex]", run.indexes)
            self._num_rows = max(index.most_documents for index in indexes)
            if settings.fleet is not None:
                _check_shared(documents)
        joins = documents.pad is None and not self._takes_batches
        joins |= self._takes_batches and settings.fleet is not None
        is_mixed = len(datasets) > 1
        if joins and is_mixed and "dataset_ids" in settings.fields.names:
            raise InvalidArgumentError(
                "dataset_ids has one value per row, and a row joins documents of "
                "several datasets: give batch_tokens without global_batch_size, whose "
                "batches are of one dataset each"
            )
        if documents.pad is None and metadata is not None:
            raise InvalidArgumentError(
                "metadata needs a row for each document, and pad=None joins documents: "
                "leave metadata out, or give pad="
            )
        made = self._aligned.settings(settings.fields, run.index.layout)
        # The engine must not reference this feed: it ends when its feed is dropped.
        config: _core.EngineConfig = {
            "columns": [source.handle for source in self._columns],
            "names": names,
            "num_threads": settings.num_threads,
            "memory": settings.engine_bytes,
            "batch_rows": self._num_rows,
            "verify_checksums": [
                dataset.verify_checksums for dataset in datasets for _ in names
            ],
            "has_tokens": documents.makes_tokens,
            "vocab_size": self._vocab_size,
            "dtype": settings.dtype,
            "padding": settings.padding,
            **settings.rehearsal,  # type: ignore[typeddict-item]
            "fields": made["fields"],
            "loss_column": made.get("loss_column"),
            "documents": self._asked(len(beside[0]), metadata),
        }
        self._engine = ProcessEngine(partial(_core.Engine, config))

    def _asked(self, num_beside: int, metadata: Any) -> _core.DocumentsConfig:
        """Return what the engine makes of the lists in the columns.

        Args:
            num_beside: Columns that are not handed out.
            metadata: The metadata of the documents, if it was asked for.
        """
        documents, names = self._documents, self.names
        asked: _core.DocumentsConfig = {
            "max_length": documents.max_length,
            "pad": documents.pad,
            "num_named": len(names),
        }
        if not documents.makes_tokens:
            asked["pad"] = "max_length" if documents.max_length else "longest"
            padding = documents.padded_columns.items()
            asked["padded"] = [(names.index(name), number) for name, number in padding]
            return asked
        first = len(names) + (0 if metadata is None else len(metadata.names))
        has = {name: first + number for number, name in enumerate(self._lacked)}
        both = zip(self._aligned.names, self._aligned.per_token(), strict=True)
        asked["aligned"] = [
            (name, names.index(name), has.get(name), like) for name, like in both
        ]
        if metadata is not None:
            table = metadata.names, metadata.are_spans
            asked["metadata"] = (len(names), *table, len(names) + num_beside - 1)
        asked["has_tokens"] = True
        asked["only_filled"] = self._takes_batches
        asked["row_tokens"] = self._row_tokens()
        return asked

    def _row_tokens(self) -> int:
        """Return about how many tokens a row of a batch has, padding included."""
        documents, run = self._documents, self._run
        most = documents.max_length or 0
        if self._takes_batches:
            return run.index.length * self._settings.batch_size // self._num_rows
        if documents.pad == "max_length":
            return most
        indexes = [dataset.index for dataset in run.datasets]
        num_rows = sum(index.num_rows for index in indexes)
        mean = sum(index.num_values for index in indexes) // max(1, num_rows)
        return min(most, mean if documents.pad is None else LONGEST * mean)

    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan batches in the order of ``sequences``; ``NO_SEQUENCE`` is a null row."""
        num_batches, num_rows = sequences.numbers.shape
        slots = np.flatnonzero(sequences.numbers != NO_SEQUENCE)
        given = sequences.reshape(-1)[slots]
        documents = self._run.index.documents_of(given.numbers)
        rows, dataset, which, are_left = documents
        slots = slots[which]
        if self._takes_batches:
            # A sequence is a batch: join the rows of the step's batches.
            batch = slots // num_rows
            slot = np.arange(len(batch)) - np.searchsorted(batch, batch)
            num_rows = max(self._num_rows, int(slot.max(initial=0)) + 1)
            slots = batch * num_rows + slot
        slots, dataset = slots[are_left], dataset[are_left]
        page, row = self._cells(rows[are_left], dataset)
        num_columns = self._num_columns
        epoch = None
        if given.epochs is not None:
            epochs = given.epochs[which][are_left][:, None]
            epoch = np.where(self._is_infilled[dataset], epochs, 0).reshape(-1)
        columns = np.arange(num_columns, dtype=np.uint32)
        return BatchPlan(
            segments=Segments(
                sequence=np.repeat(slots, num_columns),
                page=page.reshape(-1),
                row=row.reshape(-1),
                first_token=np.zeros(page.size, dtype=np.uint32),
                num_tokens=np.ones(page.size, dtype=np.uint32),
                offset=np.tile(columns, len(slots)),
            ),
            num_batches=num_batches,
            epoch=epoch,
            batch_rows=num_rows,
        )

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of what the engine delivers."""
        documents, rows = self._documents, delivered.num_rows
        memory, columns = memoryview(delivered), dict[str, Any].fromkeys(self.names)
        whole = whole_columns(self.names, documents, self._aligned.names)
        columns |= zip(whole, delivered.take_columns(), strict=True)
        if not documents.makes_tokens:
            for number, name in enumerate(documents.padded_columns):
                shape = rows, delivered.row_lengths[number]
                start, lengths = map(
                    delivered.aligned_offset, (2 * number, 2 * number + 1)
                )
                columns[name] = np.ndarray(shape, np.int64, memory, start)
                columns[f"{name}_lengths"] = np.ndarray(rows, np.int64, memory, lengths)
            return self._taken(columns, documents.max_length or 0)
        fields, dtype = self._settings.fields, self._settings.dtype
        [length] = delivered.row_lengths
        shape = (1 if documents.pad is None else rows), length
        given = self._aligned.arrays(delivered, shape)
        result: Batch = dict.fromkeys(fields.made)
        result |= fields.arrays(delivered, shape, dtype, given)
        lengths = delivered.aligned_offset(len(given))
        result["lengths"] = np.ndarray(rows, np.int64, memory, lengths)
        if self._metadata is not None:
            result["metadata"] = delivered.take_metadata()
        # The user's columns replace made fields of the same name.
        del columns[self.names[0]]
        result |= columns
        result |= given
        return self._aligned.typed(self._taken(result, length))

    def dataset_ids(
        self, batch: Batch, of_sequences: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """Return the dataset of each row of a batch."""
        if self._documents.pad is None:  # One row; null rows follow.
            return of_sequences[:1]
        if self._takes_batches:
            return np.repeat(of_sequences.max(), len(batch["lengths"]))
        return of_sequences

    def _taken(self, batch: Batch, length: int) -> Batch:
        """Return the values of rows of ``length`` tokens, converted."""
        taken = {
            name: as_taken(value) if isinstance(value, _core.ArrowArray) else value
            for name, value in batch.items()
        }
        return self._handed_out(taken, length)

    def _cells(
        self, all_rows: Int64Array, dataset: Int64Array
    ) -> tuple[Int64Array, UInt32Array]:
        """Return page and row in the page of each cell: [documents, columns] each."""
        num_columns = self._num_columns
        page = np.empty((len(all_rows), num_columns), dtype=np.int64)
        row = np.empty((len(all_rows), num_columns), dtype=np.uint32)
        for member in distinct(dataset).tolist():
            which = np.flatnonzero(dataset == member)
            index = self._run.datasets[member].index
            rows = all_rows[which]
            for column in range(num_columns):
                entry = member * num_columns + column
                source = self._columns[entry]
                if isinstance(source, FolderColumn):
                    local = np.zeros_like(rows)
                    row[which, column] = source.number_of_file[
                        index.files_of_rows(rows)
                    ]
                else:
                    local = source.pages_of_rows(rows)
                    row[which, column] = rows - source.first_rows(local)
                page[which, column] = local + self._first_pages[entry]
        return page, row


def _check_shared(documents: RowCut) -> None:
    """Refuse padding to the longest document if several batches are joined."""
    if documents.pad == "longest":
        raise InvalidArgumentError(
            "pad='longest' fills the documents of a batch, which are of like length, "
            "and with global_batch_size= ranks join several such batches: give "
            "pad=None, which fills nothing, or pad='max_length'"
        )


def _refuse_infilled(datasets: Sequence[Dataset]) -> None:
    """Refuse infilled documents, whose metadata describe parts of documents."""
    for dataset in datasets:
        if dataset.index.is_infilled:
            raise InvalidArgumentError(
                "fields=('metadata',) tells where parts of infilled documents are in "
                "sequences of Windows or Packed: with Documents leave it out; "
                "columns=[...] gives columns of the documents"
            )


def _refuse_wide(datasets: Sequence[Dataset]) -> None:
    """Refuse infilled documents whose columns stay as the files have them."""
    for dataset in datasets:
        if not dataset.index.is_infilled:
            continue
        both = zip(dataset.aligned, dataset.aligned_sources, strict=True)
        for aligned, source in both:
            if aligned.filling(source) is None:
                raise InvalidArgumentError(
                    f"column {aligned.column!r} cannot be infilled in Documents: it "
                    "has several numbers a token, or width, first, count, scale or "
                    "of_next are set. Give Windows or Packed, or leave the column out"
                )


def _columns_beside(dataset: Dataset, metadata: Any) -> list[PageIndex | FolderColumn]:
    """Return the sources of the metadata of a dataset."""
    if metadata is None:
        return []
    nothing = FolderColumn((), _first_values(dataset))
    named = {*dataset.metadata, *dataset.span_columns}
    return [
        dataset.source_of(name) if name in named else nothing for name in metadata.names
    ]


def _first_values(dataset: Dataset) -> Int64Array:
    """Return the number of the first value of each file."""
    return np.zeros(len(dataset.files), dtype=np.int64)


def _first_pages(columns: Sequence[PageIndex | FolderColumn]) -> Int64Array:
    """Return the number of the first page of each column.

    Values in folder names are one page.
    """
    sizes = np.array([1 if isinstance(c, FolderColumn) else len(c) for c in columns])
    return np.cumsum(sizes) - sizes
