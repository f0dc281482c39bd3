"""What rows there are: Parquet files and the columns wanted of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from pagefeed._base import (
    Facts,
    check_column,
    check_columns,
    check_flag,
    check_whole,
    html_of,
    is_made,
    lazy,
    require,
    text_of,
)
from pagefeed.dataset import select
from pagefeed.dataset.aligned import Aligned, check_aligned_index, parse_aligned
from pagefeed.dataset.folders import FolderColumn, folder_columns
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.row_reader import checked_row, rows_at
from pagefeed.dataset.select import Constant, Expression, Selection
from pagefeed.dataset.spans import PageSpans, Spans
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError
from pagefeed.storage import (
    LocalStorage,
    Located,
    PathLike,
    Paths,
    Storage,
    StorageOptions,
    located,
    plain_path,
)

__all__ = ["ParquetDataset", "parquet"]


class _Listed(NamedTuple):
    """Files before they are indexed, as their schema is read."""

    storage: Storage
    files: Sequence[str]
    folder_columns: Mapping[str, FolderColumn]


@dataclass(frozen=True, kw_only=True)
class ParquetDataset:
    """Parquet files read as one dataset; made by :func:`parquet`."""

    files: tuple[str, ...]
    """Absolute paths, in the order of the dataset."""
    column: str
    """The column that is fed: a list of tokens per row."""
    metadata: tuple[str, ...] = ()
    """Further columns of the same rows, for :class:`Documents`."""
    aligned: tuple[Aligned, ...] = ()
    """Columns with a number for every token of the same row."""
    cache_dir: str | None = None
    """Folder of the page index."""
    page_index: bool = True
    """Use the files' own offset indexes."""
    verify_checksums: bool = True
    """Verify checksums where they are present."""
    storage: Storage = field(default_factory=LocalStorage)
    """Where the files lie."""
    selection: Selection | None = None
    """The rows, if these are not all rows of the files."""

    @property
    def can_seek(self) -> bool:
        """Whether any row can be read without those before it: always."""
        return True

    @property
    def has_length(self) -> bool:
        """Whether the number of rows is known before they are read: always."""
        return True

    @lazy
    def index(self) -> PageIndex:
        """The page index of the column, built or opened on first use."""
        if self.selection is not None:
            return cast("PageIndex", self.selection.index)  # Made below, of one.
        index = self._build_index(self.column)
        for name in self.metadata:  # Those that do not exist are told here.
            if name not in index.folder_columns:
                self.column_index(name)
        for each in self.aligned:
            other = self._column_indexes[each.column] = self._build_index(each.column)
            check_aligned_index(index, other)
        return index

    @property
    def aligned_indexes(self) -> tuple[PageIndex, ...]:
        """The page indexes of the columns with a number for every token."""
        return tuple(self.column_index(each.column) for each in self.aligned)

    def _build_index(self, column: str) -> PageIndex:
        return PageIndex.of(
            Located(self.storage, self.files),
            column,
            self.cache_dir,
            page_index=self.page_index,
            verify_checksums=self.verify_checksums,
        )

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == self.column:
            return self.index
        if column not in self._column_indexes:
            self._column_indexes[column] = self._build_index(column)
        return self._column_indexes[column]

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return where any column of the same rows comes from.

        Raises:
            ColumnNotFoundError: If neither the files nor the names of their folders
                have it.
        """
        try:
            return self.column_index(column)
        except ColumnNotFoundError:
            if column not in self.index.folder_columns:
                raise
            return self.index.folder_columns[column]

    @lazy
    def _column_indexes(self) -> dict[str, PageIndex]:
        return {}

    @lazy
    def spans(self) -> Spans:
        """The rows of the dataset, as sequences are cut from them."""
        if self.selection is not None:
            return self.selection
        return PageSpans(self.index)

    @property
    def fingerprint(self) -> str:
        """What identifies the contents, see :attr:`PageIndex.fingerprint`.

        Of selected rows it says which they are, not how they were selected.
        """
        if self.selection is not None:
            return self.selection.fingerprint
        return self.index.fingerprint

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.spans.num_rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a row: the column and metadata as plain Python values.

        Reads the pages that hold it, so it is for a look at the data: a loader, or
        :class:`SequenceView`, is made to read many.

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
        return next(rows_at(self, [checked_row(row, len(self))]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all rows in order, see :meth:`__getitem__`; each page is read once."""
        return rows_at(self, range(len(self)))

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
        return [*rows_at(self, range(min(least, len(self))))]

    @lazy
    def schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The columns of the first file and of folders: a ``pyarrow.Schema``.

        These are what ``where``, ``tiers`` and ``metadata`` can name. Only the footer
        of a file is read; other files may have other columns.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        require("pyarrow", extra="pyarrow", purpose="the schema of files")
        listed = _Listed(self.storage, self.files, self.folder_columns)
        return select.schema_of(listed, 0).remove_metadata()

    @property
    def columns(self) -> list[str]:
        """Names of all columns, those of folders included, see :attr:`schema`."""
        return list(self.schema.names)

    @lazy
    def folder_columns(self) -> dict[str, FolderColumn]:
        """Columns that lie in the names of folders (``lang=en/``), by their names."""
        return folder_columns(self.files)

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self.facts())

    def facts(self) -> Facts:
        """Return what is known by now, for people; nothing is read or built."""
        known, chosen = self.selection, None
        rows = tokens = None
        if known is not None:
            rows, tokens, chosen = known.known_rows, known.known_tokens, known.names
        elif is_made(self, "index"):
            rows, tokens = self.index.num_rows, self.index.num_values
        return {
            "column": self.column,
            "metadata": list(self.metadata) or None,
            "aligned": [each.column for each in self.aligned] or None,
            "files": len(self.files),
            "selected": chosen and list(chosen),
            "rows": rows,
            "tokens": tokens,
        }

    def where(self, predicate: str | Expression) -> ParquetDataset:
        """Select the rows for which a predicate over other columns is true.

        Folders such as ``lang=en/`` give columns as well. Only these columns are read,
        once; with a cache folder the result is kept beside the index. A comparison with
        null is neither true nor false, as in SQL.

        Args:
            predicate: Text such as ``"quality > 0.8 and lang in ['en', 'de']"``, or a
                ``pyarrow.compute.Expression``. Columns are named as they are, nested
                ones by their dotted path, any other by ``column('any name')``.

        Returns:
            A dataset of these rows. Of two predicates one after the other, both hold.

        Raises:
            InvalidArgumentError: If it is not a predicate over such columns.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> good = web.where("quality > 0.8 and lang == 'en'")  # doctest: +SKIP
            >>> len(good)  # doctest: +SKIP
        """
        return self._of(select.where(self.spans, predicate))

    def tiers(
        self,
        column: str,
        *,
        edges: Sequence[Constant] | None = None,
        quantiles: int | None = None,
    ) -> dict[str, ParquetDataset]:
        """Divide the rows by the value of a column.

        Args:
            column: A column with one value per row, by its dotted path; or one that
                folders name (``year=2024/``).
            edges: Rising values: rows below the first one, from the first one on, ...
            quantiles: Instead, the number of tiers with equally many rows.

        Returns:
            Datasets by name, from the lowest values to the highest; each row is in
            one. Rows without a value (null or NaN) are the last one, ``"quality is
            null"``, which is left out if there are none.

        Raises:
            InvalidArgumentError: If edges do not rise, or equal values would have to
                be divided.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> list(web.tiers("quality", edges=[0.3, 0.8]))  # doctest: +SKIP
            ['quality < 0.3', '0.3 <= quality < 0.8', 'quality >= 0.8']
        """
        return self._parts(select.by_tiers(self.spans, column, edges, quantiles))

    def by_length(
        self, edges: Sequence[int], *, column: str | None = None
    ) -> dict[str, ParquetDataset]:
        """Divide the rows by their number of tokens.

        Args:
            edges: Rising numbers of tokens.
            column: A column that has the number. Without one the pages of all rows
                are read, once.

        Returns:
            Datasets by name, from short rows to long ones; each row is in one.

        Raises:
            InvalidArgumentError: If edges are not rising numbers.

        Example:
            >>> list(web.by_length([512, 4096]))  # doctest: +SKIP
            ['tokens < 512', '512 <= tokens < 4096', 'tokens >= 4096']
        """
        if column is not None:
            return self.tiers(column, edges=edges)
        return self._parts(select.by_length(self.spans, edges))

    def split(self, *, seed: int = 0, **weights: float) -> dict[str, ParquetDataset]:
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
            InvalidArgumentError: If shares are not above 0 or exceed 1 together, or
                there are more than 65,535 parts.

        Example:
            >>> web.split(train=0.99, validation=0.01, seed=1)  # doctest: +SKIP
        """
        return self._parts(select.by_weights(self.spans, weights, seed))

    def check_not_empty(self) -> None:
        """Raise if rows were selected and there are none.

        Raises:
            EmptySelectionError: Saying what the columns of the predicate hold.
        """
        if self.selection is not None:
            self.selection.check_not_empty()

    def _of(self, selection: Selection) -> ParquetDataset:
        return replace(self, selection=selection)

    def _parts(self, selections: dict[str, Selection]) -> dict[str, ParquetDataset]:
        return {name: self._of(selection) for name, selection in selections.items()}


def parquet(
    paths: Paths,
    *,
    column: str,
    aligned: Iterable[str] | Mapping[str, float] = (),
    metadata: Iterable[str] = (),
    cache_dir: PathLike | None = None,
    page_index: bool = True,
    verify_checksums: bool = True,
    storage_options: StorageOptions | None = None,
) -> ParquetDataset:
    """Name a dataset of Parquet files, as they lie.

    Args:
        paths: Files; folders, for the ``.parquet`` and ``.parq`` files below them;
            patterns; or a list of these, whose order is kept. URLs are such as well:
            ``s3://``, ``gs://``, ``az://``, ``https://`` and ``hf://datasets/``.
        column: The token column: a list of integers per row.
        aligned: Further columns with a number for every token of the same row, such as
            labels and loss weights. They take every cut of the tokens and arrive as
            ``batch["labels"]`` [batch_size, length], of the type that the files have.
            Where there is no token of a row, in padding and separators, they hold -100
            if they are called ``labels``, else 0, or what is given:
            ``aligned={"labels": -100, "loss_weight": 0.5}``.
        metadata: Further columns of the same rows, which batches of
            :class:`Documents` hold. Token sequences cannot carry them yet: a loader
            of these refuses a dataset with metadata.
        cache_dir: Folder for the page index, which every process of the machine then
            maps; by default ``$PAGEFEED_CACHE_DIR``, or memory.
        page_index: Use the files' own offset indexes where they have them.
        verify_checksums: Verify checksums of pages where the writer stored them.
        storage_options: Settings of remote storage: ``endpoint_url``, ``region``,
            credentials, ``deadline`` in seconds. What is not given comes from the
            usual variables of the environment.

    Returns:
        The dataset. No data is read before it is used.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If metadata or aligned are no lists of other columns.

    Example:
        >>> web = parquet("corpus/web", column="input_ids")  # doctest: +SKIP
    """
    others = check_columns(metadata, "metadata")
    if column in others or len(set(others)) < len(others):
        raise InvalidArgumentError(
            f"metadata={list(others)} must name further columns, beside {column!r}, "
            "each once"
        )
    found = located(paths, storage_options)
    return ParquetDataset(
        files=found.files,
        storage=found.storage,
        column=check_column(column, "column"),
        aligned=parse_aligned(aligned, (column, *others)),
        metadata=others,
        cache_dir=None if cache_dir is None else plain_path(cache_dir, "cache_dir"),
        page_index=check_flag(page_index, "page_index"),
        verify_checksums=check_flag(verify_checksums, "verify_checksums"),
    )
