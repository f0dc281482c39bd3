"""Rows of Parquet files: how their columns are indexed, and some of the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from pagefeed.core._base import Facts, is_made, lazy
from pagefeed.core.dataset.aligned import check_aligned_index
from pagefeed.core.dataset.dataset import Dataset
from pagefeed.core.dataset.folders import FolderColumn, folder_columns
from pagefeed.core.dataset.index_recipe import (
    IndexFolder,
    IndexRecipe,
    PageIndexUse,
    cache_folder,
    part_of,
)
from pagefeed.core.dataset.page_index import PageIndex
from pagefeed.core.dataset.source import SourceKind
from pagefeed.core.dataset.table_columns import TableColumns
from pagefeed.core.storage import Storage
from pagefeed.errors import ColumnNotFoundError, MissingFileError, UnsupportedError

__all__ = ["ParquetRows"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ParquetRows(Dataset):
    """Rows of Parquet files, in the order of the files."""

    _page_index: PageIndexUse = True
    """How pages are found."""
    verify_checksums: bool = True
    """Verify checksums where they are present."""
    storage: Storage = field(default_factory=Storage)
    """The storage of the files."""
    table: TableColumns | None = None
    """What a table says of its columns, if the files are of one."""
    shared: IndexFolder | None = None
    """The index that was written for all nodes, if it was given."""
    _of_more_files: Mapping[str, PageIndex] = field(default_factory=dict)
    """Indexes of columns of these files and of more, which need not be built again."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without indexes of other files."""
        return {**vars(self), "_of_more_files": {}}

    def _plain_index(self) -> PageIndex:
        index = self._build_index(self.column)
        # A column that does not exist is an error here.
        for name in (*self.metadata, *self.span_columns):
            if name != self.column:
                self.source_of(name)
        if self.table is not None and self.table.past is not None:
            self.table.past.keep_keys(index)
        return self._token_index(index)

    def _token_index(self, index: PageIndex) -> PageIndex:
        """Return the index of the tokens of the column: of tokens, the same."""
        for each in self.aligned:
            beside = self._build_index(each.column)
            check_aligned_index(index, beside, each)
            arranged = self._arranged_beside(beside, each.column)
            self._column_indexes[each.column] = arranged
        return index

    def _build_index(self, column: str) -> PageIndex:
        table = self.table
        recipe = IndexRecipe(
            files=self.files,
            storage=self.storage,
            column=column,
            cache_dir=cache_folder(self.cache_dir),
            page_index=self._page_index,
            verify_checksums=self.verify_checksums,
            table=table,
            shared=self.shared,
            constants=self._constants_of(column),
        )
        if table is not None:
            for path in table.inner_defaults_of(column):
                self._build_index(path)  # Refuses a file without it.
        if column in self._of_more_files:
            core = self._of_more_files[column].core
            return PageIndex(part_of(recipe, core), recipe)
        if table is None:
            return PageIndex.of(recipe)
        try:
            return PageIndex.of(recipe)
        except MissingFileError as error:
            error.add_note(
                f"the table had it at {table.snapshot}, and a compaction or a vacuum "
                "removed it: keep the files of a snapshot until the end of the runs "
                "that read it"
            )
            raise
        except ColumnNotFoundError as error:
            if column.partition(".")[0] not in table.types:
                raise
            if column in table.inner_defaults:
                raise UnsupportedError(
                    f"{error}; {column} has an initial-default, which pagefeed knows "
                    "of whole columns alone: write such files anew"
                ).at(file=error.file) from None
            error.add_note(
                "files that were written before a table got a column lack it: with "
                'missing="null" its rows are null for where() and metadata; tokens are '
                "not made up: write such files anew"
            )
            raise

    def with_files(
        self,
        numbers: Sequence[int],
        why: Literal["pruned", "without_rows"] | None = None,
    ) -> Self:
        """Return the same of some of its files.

        Args:
            numbers: Their numbers, rising.
            why: As what a table remembers the others.
        """
        if why is not None and len(numbers) == len(self.files):
            return self
        table = None if self.table is None else self.table.with_files(numbers)
        files = tuple(self.files[number] for number in numbers)
        if table is not None and why is not None:
            gone = getattr(table, why) | ({*self.files} - {*files})
            table = replace(table, **{why: gone})
        part = replace(
            self,
            files=files,
            table=table,
            selection=None,
            erasures=(),
            _of_more_files=self._indexes(),
        )
        return self._over(part)

    def _indexes(self) -> Mapping[str, PageIndex]:
        """Indexes that were built, of columns as the files have them."""
        if not self.has_columns_of_files:
            return {}
        is_built = is_made(self, "index") or (
            self.selection is not None and is_made(self.selection, "index")
        )
        own = {self.column: self.index} if is_built else {}
        return {**self._of_more_files, **self._column_indexes, **own}

    def _over(self, part: Self) -> Self:
        """Return a dataset with the selection and the erasures of this one."""
        if self.selection is None and not self.erasures:
            return part
        spans, chosen = part.spans, self.selection
        return replace(
            part,
            selection=None if chosen is None else chosen.over(spans),
            erasures=tuple(each.over(spans) for each in self.erasures),
        )

    @property
    def kind(self) -> SourceKind:
        """What it is: the table of options says what each kind can do."""
        return "tokens"

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == self.column:
            return self.index
        if column not in self._column_indexes:
            found = self._arranged_beside(self._index_beside(column), column)
            self._column_indexes[column] = found
        return self._column_indexes[column]

    def _index_beside(self, column: str) -> PageIndex:
        """Return the index of another column as the files have it."""
        return self._build_index(column)

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return where any column of the same rows comes from.

        Raises:
            ColumnNotFoundError: If neither the files nor the names of their folders
                have it, nor what a table says of them.
        """
        table = self.table
        if table is not None and table.decides(column):
            return table.of_files[column]
        try:
            return self.column_index(column)
        except ColumnNotFoundError:
            constants = self._constants_of(column)
            if constants is None and table is None:
                constants = folder_columns(self.files).get(column)
            if constants is None or constants.is_given is not None:
                raise
            return constants

    def _constants_of(self, column: str) -> FolderColumn | None:
        """Return what rows of files have that lack a column of a table."""
        of_tokens = {self.column, *(each.column for each in self.aligned)}
        if self.table is None or column in of_tokens:
            return None
        return self.table.constants_of(column, len(self.files))

    @lazy
    def _column_indexes(self) -> dict[str, PageIndex]:
        return {}

    def facts(self) -> Facts:
        """Return what is known without reading or building anything."""
        facts = dict(super().facts())
        table = None if self.table is None else self.table.snapshot
        pruned = None if self.table is None else len(self.table.pruned) or None
        column = facts.pop("column")
        return {"column": column, "table": table, "pruned": pruned, **facts}
