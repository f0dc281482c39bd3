"""Datasets: rows that are read, divided and described, whatever the files are."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pagefeed._base import (
    Facts,
    check_column,
    check_whole,
    html_of,
    is_made,
    lazy,
    text_of,
)
from pagefeed.dataset import select
from pagefeed.dataset.aligned import AlignedColumn, AlignedSource
from pagefeed.dataset.erasing import erased_rows
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.infill import Infill
from pagefeed.dataset.infilled_index import InfilledIndex
from pagefeed.dataset.infilled_rows import (
    Arrange,
    arrange_numbers,
    arrange_spans,
)
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.row_reader import checked_row, rows_at
from pagefeed.dataset.select import Expression, Selection
from pagefeed.dataset.source import Source, SourceKind
from pagefeed.dataset.spans import (
    Erased,
    Spans,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.errors import InvalidArgumentError, UncountedError
from pagefeed.storage import PathLike, local_path

__all__ = ["Dataset", "check_dataset", "wide_bytes"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Dataset(Source):
    """Rows of tokens in a fixed order, and further columns of the same rows.

    All rows that an index holds, or a selection of them. Sequences are cut from a
    dataset, runs are planned over it, reports describe it.
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
    """Columns with numbers for every token of the same row."""
    cache_dir: PathLike | None = None
    """Folder of the index."""
    verify_checksums: bool = False
    """Verify checksums where they are present."""
    selection: Selection | None = None
    """The selected rows; None for all rows of the files."""
    erasures: tuple[Selection, ...] = ()
    """Rows of the files that were erased, by each call."""

    infilling: Infill | None = None
    """How documents are infilled; None leaves them as they are."""

    def __post_init__(self) -> None:
        check_column(self.column, "column")
        if self.cache_dir is not None:
            folder = local_path(self.cache_dir, "cache_dir")
            object.__setattr__(self, "cache_dir", folder)

    @property
    def kind(self) -> SourceKind:
        """What it is: the table of options says what each kind can do."""
        return "flat"

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
        plain = self._plain_index()
        return plain if self.infilling is None else InfilledIndex(plain, self.infilling)

    @property
    def plain_index(self) -> PageIndex:
        """The index of the column as the files have it."""
        index = self.index
        return index.plain if isinstance(index, InfilledIndex) else index

    def _beside(self, column: str, index: PageIndex) -> PageIndex:
        """Return the index of a column, if it is aligned infilled like the tokens."""
        found = [each for each in self.aligned if each.column == column]
        if self.infilling is None or not found:
            return index
        filling = found[0].filling(index)
        return (
            index if filling is None else InfilledIndex(index, self.infilling, filling)
        )

    @abstractmethod
    def _plain_index(self) -> PageIndex:
        """Build or open the index of the column as it is."""

    @abstractmethod
    def column_index(self, column: str) -> PageIndex:
        """Return the index of any column of the same rows."""

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return the pages of any column of the same rows, or its folder values."""
        return self.column_index(column)

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """The pages of the aligned columns."""
        return tuple(self.column_index(each.column) for each in self.aligned)

    @lazy
    def spans(self) -> Spans:
        """The rows of the dataset, as sequences are cut from them."""
        spans = Spans(self.index) if self.selection is None else self.selection
        if self.erasures:
            spans = copy.copy(spans)
            spans.erased = Erased(spans, self.erasures)
        return spans

    @property
    def fingerprint(self) -> str:
        """Identifies the contents, see :attr:`PageIndex.fingerprint`.

        Two selections of the same rows have the same one, however they were made.
        """
        return self.spans.fingerprint

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.spans.num_rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a row: the column and metadata as plain Python values.

        Reads the pages that hold it: a loader, or :class:`SequenceView`, reads many. Of
        an erased row all values are None.

        Args:
            row: Number of the row in this dataset; negative ones count from the end.

        Raises:
            OutOfRangeError: If there is no such row.
            InvalidArgumentError: If it is a slice: use :meth:`head`.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> len(web[0]["input_ids"])  # doctest: +SKIP
            300
        """
        return next(self._rows_at([checked_row(row, len(self))]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all rows in order, see :meth:`__getitem__`; each page is read once."""
        return self._rows_at(range(len(self)))

    def _rows_at(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        beside = (each.column for each in self.aligned)
        names = (self.column, *beside, *self.metadata, *self.span_columns)
        sources = {name: self.source_of(name) for name in names}
        return rows_at(sources, self.spans, numbers, self._arranged_rows())

    def _arranged_rows(self) -> dict[str, Arrange]:
        """What puts rows that stay as the files have them beside infilled tokens."""
        if self.infilling is None:
            return {}
        both = zip(self.aligned, self.aligned_sources, strict=True)
        found = {
            each.column: arrange_numbers(each, source, self.index)
            for each, source in both
            if each.filling(source) is None
        }
        return found | dict.fromkeys(self.span_columns, arrange_spans)

    def head(self, num_rows: int = 5) -> list[dict[str, Any]]:
        """Return the first rows, or all if there are fewer.

        ``pyarrow.Table.from_pylist`` and ``pandas.DataFrame`` make a table of them.

        Raises:
            InvalidArgumentError: If it is no number of rows.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> [sorted(row) for row in web.head(2)]  # doctest: +SKIP
            [['input_ids'], ['input_ids']]
        """
        least = check_whole(num_rows, "num_rows", least=0)
        return [*self._rows_at(range(min(least, len(self))))]

    def facts(self) -> Facts:
        """Return what is known without reading or building anything."""
        known, chosen = self.selection, None
        rows = tokens = None
        if known is not None:
            rows, tokens, chosen = known.known_rows, known.known_tokens, known.names
        elif is_made(self, "index"):
            rows, tokens = self.index.num_rows, self.index.num_values
        if is_made(self, "index") and self.index.value_bytes == 0:
            tokens = None  # Tokens of texts are not counted yet.
        return {
            "column": self.column,
            "metadata": list(self.metadata) or None,
            "spans": list(self.span_columns) or None,
            "aligned": [each.column for each in self.aligned] or None,
            "files": len(self.files),
            "selected": chosen and list(chosen),
            "erased": [name for each in self.erasures for name in each.names] or None,
            "infill": self.infilling and self.infilling.identity,
            "rows": rows,
            "tokens": tokens,
        }

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self.facts())

    def by_length(self, edges: Sequence[int]) -> dict[str, Self]:
        """Divide the rows by their number of tokens; reads all pages, once.

        Args:
            edges: Rising numbers of tokens.

        Returns:
            Datasets by name, from short rows to long ones; each row is in one.

        Raises:
            InvalidArgumentError: If edges are not rising numbers.

        Example:
            >>> list(web.by_length([512, 4096]))  # doctest: +SKIP
            ['tokens < 512', '512 <= tokens < 4096', 'tokens >= 4096']
        """
        return self._parts(select.by_length(self.spans, edges))

    def split(self, *, seed: int = 0, **weights: float) -> dict[str, Self]:
        """Divide the rows at random, in proportion to weights.

        Where a row goes depends on the seed, the footer of its file and its number in
        the file alone: it stays there when files are added, removed, renamed or put
        in another order.

        Args:
            seed: Another seed divides otherwise.
            weights: Share of the rows of each part. If they sum to 1, every row is in
                exactly one part; else the remaining rows are in none.

        Returns:
            Datasets by the names given.

        Raises:
            InvalidArgumentError: If shares are not above 0, exceed 1, or are > 65,535.

        Example:
            >>> web.split(train=0.99, validation=0.01, seed=1)  # doctest: +SKIP
        """
        return self._parts(select.by_weights(self.spans, weights, seed))

    def take(
        self,
        *,
        tokens: int | str | None = None,
        share: float | None = None,
        seed: int = 0,
    ) -> Self:
        """Take random whole rows that hold so many tokens.

        Subsets of one seed are nested: a smaller one is part of a larger one. Which
        rows are taken depends on the seed and the number of each row in the files of
        the dataset, not on how the rows are cut into files. All pages are read, once,
        for the lengths of the rows.

        Args:
            tokens: Tokens to take: a number, or text such as ``"10B"`` or ``"500M"``.
                The last row that is taken may exceed it.
            share: Instead, the share of all tokens, above 0 and at most 1.
            seed: Another seed takes other rows.

        Returns:
            A dataset of these rows, in the order of the files.

        Raises:
            InvalidArgumentError: If not exactly one of both is given, or there are
                fewer tokens.

        Example:
            >>> web.take(tokens="10K", seed=1)  # doctest: +SKIP
            >>> web.take(share=0.01)  # doctest: +SKIP
        """
        return self._of(select.taken(self.spans, tokens, share, seed))

    def erase(
        self,
        *,
        where: str | Expression | None = None,
        rows: Mapping[str, Iterable[int]] | None = None,
        snapshot: Dataset | None = None,
        key: str | None = None,
    ) -> Self:
        """Leave documents out of all batches, and all others where they are.

        A run that began without it goes on: its state loads, every other sequence keeps
        its place, and from then on states record what is erased, so that none loads
        without it. Tokens of an erased document become padding without loss; one of
        :class:`Documents` is an empty row. Nothing is told of it in metadata. Its
        numbers and lengths count as before. Call it again for further documents, after
        those of before, in their order.

        Args:
            where: A predicate, see :meth:`ParquetDataset.where`.
            rows: Rows of files, by the paths of these: ``{"web/a.parquet": [17]}``.
            snapshot: Of a table, a dataset of a later snapshot: documents that it does
                not have any more.
            key: With ``snapshot``, a column whose values tell rows apart: it finds rows
                again that were rewritten, as by a compaction.

        Returns:
            A dataset of the same rows.

        Raises:
            InvalidArgumentError: If not one of them is given, or it cannot be right.
            UnsupportedError: If rows of the snapshot were rewritten, and there is no
                key.
            MissingDependencyError: If pyarrow, which evaluates predicates, is missing.

        Example:
            >>> without = web.erase(rows={web.files[0]: [17]})  # doctest: +SKIP
            >>> without[17]["input_ids"] is None  # doctest: +SKIP
            True
        """
        found = erased_rows(self.index, where, rows, snapshot, key)
        return replace(self, erasures=(*self.erasures, found))

    def infill(self, infill: Infill) -> Self:
        """Rearrange documents so that a model learns to fill in the middle.

        Args:
            infill: Special tokens, shares, and what is cut.

        Returns:
            A dataset of the same rows. Those that are chosen hold their parts in
            another order, with special tokens between, cut elsewhere in every epoch;
            indexing, :meth:`head` and iteration show epoch 0.

        Raises:
            InvalidArgumentError: If the documents are infilled already, or not known.
            UnsupportedError: If the column holds no tokens.

        Example:
            >>> from pagefeed import Infill
            >>> code.infill(Infill(prefix=1, middle=2, suffix=3))  # doctest: +SKIP
        """
        if not isinstance(infill, Infill):
            raise InvalidArgumentError(
                f"infill({infill!r:.60}): give pagefeed.Infill(prefix=, middle=, "
                "suffix=), with the special tokens of your tokenizer"
            )
        if self.infilling is not None:
            raise InvalidArgumentError(
                f"{self!r:.60} is infilled already, by {self.infilling.identity}: "
                "infill the dataset that it was made of"
            )
        refuse_texts(self.index, "infill")
        refuse_unknown_rows(self.spans, "infill")
        rows = replace(self, selection=None, infilling=infill)
        if self.selection is None:
            return rows
        return replace(rows, selection=self.selection.over(rows.spans))

    def check_not_empty(self) -> None:
        """Raise if rows were selected and there are none.

        Raises:
            EmptySelectionError: Saying what the columns of the predicate hold.
        """
        if self.selection is not None:
            self.selection.check_not_empty()

    def _of(self, selection: Selection) -> Self:
        return replace(self, selection=selection)

    def _parts(self, selections: dict[str, Selection]) -> dict[str, Self]:
        return {name: self._of(selection) for name, selection in selections.items()}


def check_dataset(dataset: Any, name: str) -> None:
    """Refuse what is no dataset whose order can be planned and resumed.

    Raises:
        InvalidArgumentError: If it is a mixture or anything else, cannot seek, or does
            not know its length.
        UncountedError: If it holds texts whose tokens are not counted.
    """
    if getattr(dataset, "kind", None) == "mixture":
        raise InvalidArgumentError(
            f"{name} is a mixture: give one of its datasets, {sorted(dataset.datasets)}"
        )
    if not isinstance(dataset, Source):
        shown = repr(dataset) if isinstance(dataset, str | os.PathLike) else "'corpus/'"
        raise InvalidArgumentError(
            f"{name}={dataset!r:.60} is no dataset: give pagefeed.parquet({shown}, "
            "column='input_ids')"
        )
    if dataset.kind == "uncounted":
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
