"""The interface of datasets that loaders use, whatever the files are."""

from __future__ import annotations

import os
from typing import Any, Protocol

from pagefeed._base import Facts
from pagefeed.dataset.aligned import AlignedColumn, AlignedSource
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.spans import Spans
from pagefeed.errors import InvalidArgumentError, UncountedError

__all__ = ["Dataset", "check_abilities", "check_dataset", "wide_bytes"]


class Dataset(Protocol):
    """Rows of tokens in a fixed order, and further columns of the same rows.

    Sequences are cut from a dataset, runs are planned over it, reports describe it.
    """

    @property
    def can_seek(self) -> bool:
        """Whether any row can be read without those before it."""

    @property
    def has_length(self) -> bool:
        """Whether the number of rows and tokens is known before they are read."""

    @property
    def column(self) -> str:
        """The column that is fed: a list of tokens per row."""

    @property
    def metadata(self) -> tuple[str, ...]:
        """Further columns of the same rows."""

    @property
    def span_columns(self) -> tuple[str, ...]:
        """Columns of ranges of tokens of the same row."""

    @property
    def aligned(self) -> tuple[AlignedColumn, ...]:
        """Columns with numbers for every token of the same row."""

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """The pages of the aligned columns."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, in the order of the dataset."""

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums are verified where they are present."""

    @property
    def fingerprint(self) -> str:
        """Identifies the contents: which rows, wherever the files are."""

    @property
    def index(self) -> PageIndex:
        """The index of the pages of the column."""

    @property
    def spans(self) -> Spans:
        """The rows, as sequences are cut from them."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def column_index(self, column: str) -> PageIndex:
        """Return the index of any column of the same rows."""

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return the pages of any column of the same rows, or its folder values."""

    def facts(self) -> Facts:
        """Return what is known without reading or building anything."""

    def check_not_empty(self) -> None:
        """Raise an EmptySelectionError if rows were selected and there are none."""


def check_dataset(dataset: object, name: str) -> None:
    """Refuse an object that is neither a dataset nor a mixture of datasets.

    Raises:
        InvalidArgumentError: The message says what to pass instead.
    """
    if hasattr(dataset, "can_seek"):
        check_abilities(dataset, name)
    elif not hasattr(dataset, "datasets"):
        shown = repr(dataset) if isinstance(dataset, str | os.PathLike) else "'corpus/'"
        raise InvalidArgumentError(
            f"{name}={dataset!r:.60} is no dataset: give pagefeed.parquet({shown}, "
            "column='input_ids')"
        )


def check_abilities(dataset: Any, name: str) -> None:
    """Refuse a dataset whose order cannot be planned or resumed.

    Raises:
        InvalidArgumentError: If it cannot seek, or does not know its length.
        UncountedError: If it holds texts whose tokens are not counted.
    """
    if hasattr(dataset, "datasets"):
        raise InvalidArgumentError(
            f"{name} is a mixture: give one of its datasets, {sorted(dataset.datasets)}"
        )
    if not dataset.has_length and hasattr(dataset, "tokenizer"):  # A UncountedText.
        raise UncountedError(
            f"{name}={dataset!r:.60} is not counted, and only a Loader reads it so: "
            "count its tokens, tokenize(tokenizer), ahead by `pagefeed count`"
        )
    if not (dataset.can_seek and dataset.has_length):
        raise InvalidArgumentError(
            f"{name}={dataset!r:.60} can only be read from its begin on, or does not "
            "know its length: sequences are shuffled and resumed over all rows; store "
            "its rows in files first"
        )


def wide_bytes(dataset: Dataset) -> int:
    """Return the bytes of a token in columns with several numbers for each."""
    both = zip(dataset.aligned, dataset.aligned_sources, strict=True)
    each = (
        column.token_bytes(source, dataset.index)
        for column, source in both
        if column.width(source, dataset.index) > 1
    )
    return sum(each)
