"""Sources and datasets: rows that are read and described, of files of any kind."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pagefeed.core._base import (
    Facts,
    check_column,
    is_made,
    lazy,
    text_of,
)
from pagefeed.core.dataset.folders import FolderColumn
from pagefeed.core.dataset.page_index import PageIndex
from pagefeed.core.dataset.spans import Spans
from pagefeed.core.storage import PathLike, local_path
from pagefeed.core.wiring import make_erased
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.aligned import AlignedColumn, AlignedSource
    from pagefeed.core.batches import Feed, LoaderSettings
    from pagefeed.core.run import Run
    from pagefeed.infilling import Infill
    from pagefeed.tokenizer import Tokenizer

SourceKind: TypeAlias = Literal["tokens", "flat", "text", "mixture"]
"""Kinds of sources: token columns, token files, texts with a tokenizer, mixtures."""


class Source(ABC):
    """A source of sequences for a loader: a dataset or a mixture."""

    has_end: bool = True
    """Whether an epoch ends."""
    fill: tuple[str, ...] = ()
    """Aligned columns that a dataset may lack: its tokens then have padding."""

    @property
    @abstractmethod
    def kind(self) -> SourceKind:
        """Kind of the source, a column of the table of options."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Dataset]:
        """The datasets that are read, by name; "" is that of one dataset."""

    @property
    def recorded_vocab_size(self) -> int | None:
        """Size of the vocabulary as recorded in the files; None if they record none."""
        return None

    @property
    def infilling(self) -> Infill | None:
        """Settings of infilling; None without infilling."""
        return None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the column, if it holds texts; None of tokens."""
        return None

    @property
    def recorded_tokenizer(self) -> Any:
        """The tokenizer of the tokens, as their files record it; None if unknown."""
        return None

    def make_run(self, settings: Mapping[str, Any]) -> Run | None:  # noqa: ARG002
        """Return the run of these settings; None for the usual run of one dataset."""
        return None

    def feed(
        self,
        settings: LoaderSettings,  # noqa: ARG002
        run: Run,  # noqa: ARG002
        make: Callable[[LoaderSettings, Run], Feed],  # noqa: ARG002
    ) -> Feed | None:
        """Return a feed for a source whose batches hold more than its cut provides.

        Args:
            settings: The settings of the loader.
            run: The run to deliver. This source is one of its datasets.
            make: Returns the feed of the cut alone, from settings and a run.

        Returns:
            A feed; None to use the feed of the cut.
        """
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class Dataset(Source):
    """Rows of tokens in a fixed order, and further columns of the same rows.

    A dataset has all rows of an index, or a selection of them. Sequences are cut from
    it, runs are planned over it, and reports describe it. Derived classes add the
    methods for users, such as selecting rows.
    """

    files: tuple[str, ...]
    """Absolute paths of the files with the tokens, in the order of the dataset."""
    column: str
    """The column that is fed: a list of tokens per row."""
    metadata: tuple[str, ...] = ()
    """Further columns of the same rows, for the documents in a batch."""
    span_columns: tuple[str, ...] = ()
    """Columns with ranges of tokens of the same row."""
    aligned: tuple[AlignedColumn, ...] = ()
    """Columns with numbers for every token of the same row. The core uses the
    attributes ``column``, ``width`` and ``token_bytes`` of each."""
    cache_dir: PathLike | None = None
    """Folder of the index."""
    verify_checksums: bool = False
    """Verify checksums where they are present."""
    selection: Spans | None = None
    """The selected rows; None for all rows of the files."""
    erasures: tuple[Spans, ...] = ()
    """Rows that each call of ``erase`` removed."""

    def __post_init__(self) -> None:
        check_column(self.column, "column")
        if self.cache_dir is not None:
            folder = local_path(self.cache_dir, "cache_dir")
            object.__setattr__(self, "cache_dir", folder)

    @property
    def kind(self) -> SourceKind:
        """Kind of the source, a column of the table of options."""
        return "flat"

    @property
    def draws(self) -> bool:
        """Whether a function of the user draws random numbers for its rows."""
        return False

    @property
    def parts(self) -> Mapping[str, Dataset]:
        """This dataset, which has no name."""
        return {"": self}

    @lazy
    def index(self) -> PageIndex:
        """The page index of the column, built or opened on first use.

        For tokenized texts, first use also counts their tokens.
        """
        if self.selection is not None:
            return self.selection.index
        return self._arranged(self._plain_index())

    def _arranged(self, index: PageIndex) -> PageIndex:
        """Return the index of the tokens as delivered: here, unchanged."""
        return index

    def _arranged_beside(self, index: PageIndex, column: str) -> PageIndex:  # noqa: ARG002
        """Return the index of another column as delivered: here, unchanged."""
        return index

    def labels_end(self, token: int) -> bool:  # noqa: ARG002
        """Whether the rows have labels that teach ``token`` at their end."""
        return False

    def _not_arranged(self) -> set[str]:
        """Return the names of columns that rows lack where tokens are rearranged."""
        return set()

    @property
    def has_columns_of_files(self) -> bool:
        """Whether the indexes of its columns are those of the files."""
        return True

    @abstractmethod
    def _plain_index(self) -> PageIndex:
        """Build or open the index of the column of the files."""

    @abstractmethod
    def column_index(self, column: str) -> PageIndex:
        """Return the index of any column of the same rows."""

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return the pages of a column, or its values if folder names give them."""
        return self.column_index(column)

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """The pages of the aligned columns."""
        return tuple(self.column_index(aligned.column) for aligned in self.aligned)

    @lazy
    def spans(self) -> Spans:
        """The rows of the dataset, as sequences are cut from them."""
        spans = Spans(self.index) if self.selection is None else self.selection
        if self.erasures:
            spans = copy.copy(spans)
            spans.erased = make_erased(spans, self.erasures)
        return spans

    @property
    def fingerprint(self) -> str:
        """Digest of the contents, see :attr:`PageIndex.fingerprint`.

        Two selections of the same rows have the same fingerprint, however they were
        made.
        """
        return self.spans.fingerprint

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.spans.num_rows

    def facts(self) -> Facts:
        """Return facts that are known without reading or building anything."""
        selection, chosen = self.selection, None
        rows = tokens = None
        if selection is not None:
            rows, tokens = selection.known_rows, selection.known_tokens
            chosen = selection.names
        elif is_made(self, "index"):
            rows, tokens = self.index.num_rows, self.index.num_values
        if is_made(self, "index") and self.index.value_bytes == 0:
            tokens = None  # Tokens of texts are not counted yet.
        return {
            "column": self.column,
            "metadata": list(self.metadata) or None,
            "spans": list(self.span_columns) or None,
            "aligned": [entry.column for entry in self.aligned] or None,
            "files": len(self.files),
            "selected": chosen and list(chosen),
            "erased": [name for entry in self.erasures for name in entry.names] or None,
            "rows": rows,
            "tokens": tokens,
        }

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.facts())

    def check_not_empty(self) -> None:
        """Raise an error if rows were selected and none are left.

        Raises:
            EmptySelectionError: If so; the message says which values the columns of the
                predicate hold.
        """
        if self.selection is not None:
            self.selection.check_not_empty()


def check_dataset(dataset: object, name: str) -> None:
    """Raise an error for an object that is not a dataset with an index.

    Raises:
        InvalidArgumentError: If it is a mixture or anything else.
    """
    if isinstance(dataset, Source) and dataset.kind == "mixture":
        raise InvalidArgumentError(
            f"{name} is a mixture: give one of its datasets, {sorted(dataset.parts)}"
        )
    if not isinstance(dataset, Source):
        shown = repr(dataset) if isinstance(dataset, str | os.PathLike) else "'corpus/'"
        advice = f"give pagefeed.parquet({shown}, column='input_ids')"
        if isinstance(dataset, list | tuple | dict):
            advice += (
                "; a Loader takes several as pagefeed.mix({'web': (web, 0.7), ...})"
            )
        raise InvalidArgumentError(f"{name}={dataset!r:.60} is not a dataset: {advice}")


def known_vocab_size(datasets: Sequence[Dataset]) -> int | None:
    """Return a vocabulary size above all token ids; None if a dataset records none.

    Reads the first file of each dataset, once.
    """
    sizes = [dataset.recorded_vocab_size for dataset in datasets]
    recorded = [size for size in sizes if size is not None]
    return max(recorded) if recorded and len(recorded) == len(sizes) else None


def wide_bytes(dataset: Dataset) -> int:
    """Return the bytes a token has in aligned columns of several values."""
    both = zip(dataset.aligned, dataset.aligned_sources, strict=True)
    sizes_of = (
        column.token_bytes(source, dataset.index)
        for column, source in both
        if column.width(source, dataset.index) > 1
    )
    index = dataset.spans.index
    return sum(sizes_of) + index.bytes_beside // max(1, index.num_values)
