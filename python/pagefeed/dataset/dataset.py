"""What a loader needs of a dataset, whatever its files are."""

from __future__ import annotations

import os
from typing import Any, Protocol

from pagefeed._base import Facts
from pagefeed.dataset.aligned import Aligned, AlignedSource
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.spans import Spans
from pagefeed.dataset.token_index import ColumnPages, TokenIndex
from pagefeed.errors import InvalidArgumentError, UncountedError

__all__ = ["Dataset", "check_abilities", "check_dataset"]


class Dataset(Protocol):
    """Rows of tokens, in a fixed order; further columns of the same rows.

    What sequences are cut from, runs are planned over and reports are about.
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
    def aligned(self) -> tuple[Aligned, ...]:
        """Columns with a number for every token of the same row."""

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """Where the numbers of these lie."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, in the order of the dataset."""

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums are verified where they are present."""

    @property
    def fingerprint(self) -> str:
        """What identifies the contents: which rows, not where they lie."""

    @property
    def index(self) -> TokenIndex:
        """Where the rows of the column lie."""

    @property
    def spans(self) -> Spans:
        """The rows, as sequences are cut from them."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def column_index(self, column: str) -> TokenIndex:
        """Return the index of any column of the same rows."""

    def source_of(self, column: str) -> ColumnPages | FolderColumn:
        """Return where any column of the same rows comes from."""

    def facts(self) -> Facts:
        """Return what is known by now, for people; nothing is read or built."""

    def check_not_empty(self) -> None:
        """Raise an EmptySelectionError if rows were selected and there are none."""


def check_dataset(dataset: object, name: str) -> None:
    """Refuse what is no dataset, nor a mixture of some.

    Raises:
        InvalidArgumentError: Saying what to write.
    """
    if hasattr(dataset, "can_seek"):
        check_abilities(dataset, name)
    elif not hasattr(dataset, "datasets"):
        shown = repr(dataset) if isinstance(dataset, str | os.PathLike) else "'corpus/'"
        raise InvalidArgumentError(
            f"{name}={dataset!r:.60} is no dataset: give pagefeed.parquet({shown}, "
            "column='input_ids')"
        )


def check_abilities(dataset: Any, name: str) -> None:  # noqa: ANN401
    """Refuse a dataset over which no order can be planned, nor resumed.

    Raises:
        InvalidArgumentError: If it cannot seek, or does not know its length.
        UncountedError: If it is texts whose tokens are not counted.
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
