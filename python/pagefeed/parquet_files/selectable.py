"""Showing and dividing rows of a dataset: methods of the public classes.

The room of selections is imported when one of them is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from pagefeed._removed import refuse_removed
from pagefeed.core._base import check_whole, lazy, require
from pagefeed.core.dataset import Dataset, folder_columns
from pagefeed.parquet_files.described_rows import DescribedRows

if TYPE_CHECKING:
    from pagefeed.selection import Constant, Expression, Files, Selection


class Selectable(Dataset):
    """A dataset whose rows can be shown and divided."""

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a row: the column and metadata as plain Python values.

        It reads only the pages that hold the row. To read many rows, use a loader or
        :class:`SequenceView`. All values of an erased row are None.

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
        from pagefeed.selection import checked_row

        return next(self._rows_at([checked_row(row, len(self))]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all rows in order, see :meth:`__getitem__`. Each page is read once."""
        return self._rows_at(range(len(self)))

    def _rows_at(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        from pagefeed.selection import rows_at

        beside = (column.column for column in self.aligned)
        names = (self.column, *beside, *self.metadata, *self.span_columns)
        gone = self._not_arranged()
        sources = {name: self.source_of(name) for name in names if name not in gone}
        return rows_at(sources, self.spans, numbers)

    def head(self, num_rows: int = 5) -> list[dict[str, Any]]:
        """Return the first rows, or all if there are fewer.

        ``pyarrow.Table.from_pylist`` and ``pandas.DataFrame`` make a table of them.

        Raises:
            InvalidArgumentError: If the number of rows is invalid.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> [sorted(row) for row in web.head(2)]  # doctest: +SKIP
            [['input_ids'], ['input_ids']]
        """
        least = check_whole(num_rows, "num_rows", least=0)
        return [*self._rows_at(range(min(least, len(self))))]

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
        from pagefeed.selection import by_length

        return self._parts(by_length(self.spans, edges))

    def split(
        self, *, by: str | None = None, seed: int = 0, **weights: float
    ) -> dict[str, Self]:
        """Divide the rows at random, in proportion to weights.

        With ``by``, the part of a row depends on the seed and the value of this column
        alone. So documents of one URL stay together, in every copy of the data, for
        ever. Without it, the part depends on the seed, the footer of the file and the
        number of the row in the file: it stays when files are added, removed, renamed
        or put in another order, and changes when a file is written again.

        Args:
            by: A column of texts, bytes or integers, such as ``"url"``.
                ``where("hash(url) % 100 < 5")`` uses its hash.
            seed: Another seed gives another division.
            weights: Share of the rows of each part, or with ``by`` of the values. If
                they sum to 1, every row is in exactly one part; else the remaining rows
                are in none.

        Returns:
            Datasets by the names given.

        Raises:
            InvalidArgumentError: If a share is not above 0, shares sum to more than 1,
                there are more than 65,535, or the column holds other values.
            DataError: When rows are read that have no value in the column.

        Example:
            >>> web.split(train=0.9, validation=0.1, by="url")  # doctest: +SKIP
        """
        from pagefeed.selection import by_weights

        return self._parts(by_weights(self.spans, weights, seed, by))

    def take(
        self,
        *,
        tokens: int | str | None = None,
        share: float | None = None,
        seed: int = 0,
    ) -> Self:
        """Return random whole rows that hold about ``tokens`` tokens.

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
            InvalidArgumentError: If not exactly one of ``tokens`` and ``share`` is
                given, or there are fewer tokens.

        Example:
            >>> web.take(tokens="10K", seed=1)  # doctest: +SKIP
            >>> web.take(share=0.01)  # doctest: +SKIP
        """
        from pagefeed.selection import taken

        return self._of(taken(self.spans, tokens, share, seed))

    if not TYPE_CHECKING:  # A type checker shall refuse them, too.

        def __getattr__(self, name: str) -> Any:
            refuse_removed(f"{type(self).__name__}.{name}")
            of_parquet = vars(SelectableParquet).get(name)
            if of_parquet is None or name.startswith("_"):
                return super().__getattribute__(name)
            raise AttributeError(
                f"{type(self).__name__} has no {name}, which reads columns of Parquet "
                "files: make Parquet of this dataset by pagefeed.prepare.convert",
                name=name,
                obj=self,
            )

    def _of(self, selection: Selection) -> Self:
        return replace(self, selection=selection)

    def _parts(self, selections: dict[str, Selection]) -> dict[str, Self]:
        return {name: self._of(selection) for name, selection in selections.items()}


class SelectableParquet(Selectable, DescribedRows):
    """Parquet files of which rows are selected by what other columns hold."""

    @lazy
    def schema(self) -> Any:
        """The columns of the first file and of folders: a ``pyarrow.Schema``.

        What ``where``, ``tiers`` and ``metadata`` can name; other files may differ.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        from pagefeed.selection import schema_of

        require("pyarrow", extra="pyarrow", purpose="the schema of files")
        return schema_of(self._named_files, 0, as_stored=True)

    @property
    def columns(self) -> list[str]:
        """Names of all columns, including those in folder names, see :attr:`schema`."""
        return list(self.schema.names)

    @property
    def _named_files(self) -> Files:
        """The files with their columns that are not stored in them."""
        from pagefeed.selection import Files

        table = self.table
        columns = folder_columns(self.files) if table is None else table.of_files
        return Files(self.storage, self.files, columns, table)

    def where(self, predicate: str | Expression) -> Self:
        """Select the rows for which a predicate over other columns is true.

        Folders such as ``lang=en/`` give columns as well. Only the columns of the
        predicate are read, once; with a cache folder the result is kept next to the
        index. A comparison with null is neither true nor false, as in SQL.

        For a table, the columns are read in this call, and files without a selected row
        are left out. The table's metadata rule out most of these before they are
        opened.

        Args:
            predicate: Text such as ``"quality > 0.8 and lang in ['en', 'de']"``, or a
                ``pyarrow.compute.Expression``. Columns are named as they are, nested
                ones by their dotted path, any other by ``column('any name')``.

        Returns:
            A dataset of these rows. After two calls, both predicates hold for its rows.

        Raises:
            InvalidArgumentError: If it is not a predicate over such columns.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> good = web.where("quality > 0.8 and lang == 'en'")  # doctest: +SKIP
            >>> len(good)  # doctest: +SKIP
        """
        from pagefeed.selection import files_that_may_match, where

        if not self._leaves_files_out:
            return self._of(where(self.spans, predicate))
        # Leave out all files without such rows, so that a run does not depend on what
        # the table can prove.
        numbers = files_that_may_match(self._named_files, predicate)
        pruned = self.with_files(numbers or [0], "pruned")
        chosen = where(pruned.spans, predicate)
        kept_files = chosen.files_with_rows or range(len(pruned.files))
        return replace(pruned, selection=chosen).with_files(kept_files, "without_rows")

    @property
    def _leaves_files_out(self) -> bool:
        """Whether files without selected rows are left out of the selection."""
        from pagefeed.selection import Selection

        chosen = self.selection
        counts_rows = isinstance(chosen, Selection) and chosen.counts_rows
        return self.table is not None and self.has_columns_of_files and not counts_rows

    def tiers(
        self,
        column: str,
        *,
        edges: Sequence[Constant] | None = None,
        quantiles: int | None = None,
    ) -> dict[str, Self]:
        """Divide the rows by the value of a column.

        Args:
            column: A column with one value per row, by its dotted path; or one that
                folders name (``year=2024/``).
            edges: Rising values. The first tier has the rows below the first edge, the
                next ones begin at an edge.
            quantiles: Instead, the number of tiers with equally many rows.

        Returns:
            Datasets by name, from the lowest values to the highest; each row is in one.
            The last one, ``"quality is null"``, has the rows without a value (null or
            NaN); it is left out if it is empty.

        Raises:
            InvalidArgumentError: If edges do not rise, or equal values would have to
                be divided.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> list(web.tiers("quality", edges=[0.3, 0.8]))  # doctest: +SKIP
            ['quality < 0.3', '0.3 <= quality < 0.8', 'quality >= 0.8']
        """
        from pagefeed.selection import by_tiers

        return self._parts(by_tiers(self.spans, column, edges, quantiles))

    def by_length(
        self, edges: Sequence[int], *, column: str | None = None
    ) -> dict[str, Self]:
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
        return super().by_length(edges)
