"""Rows of Parquet files: how their columns are indexed, and some of the files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pagefeed.core._base import lazy
from pagefeed.core.dataset.dataset import Dataset, SourceKind
from pagefeed.core.dataset.index_recipe import (
    IndexRecipe,
    PageIndexUse,
    cache_folder,
)
from pagefeed.core.dataset.page_index import PageIndex
from pagefeed.core.storage import Storage


@dataclass(frozen=True, kw_only=True, repr=False)
class ParquetRows(Dataset):
    """Rows of Parquet files, in the order of the files."""

    _page_index: PageIndexUse = True
    """Way to locate pages."""
    verify_checksums: bool = True
    """Verify checksums where they are present."""
    storage: Storage = field(default_factory=Storage)
    """The storage of the files."""

    def _plain_index(self) -> PageIndex:
        index = self._build_index(self.column)
        self._look_at(index)
        return self._token_index(index)

    def _look_at(self, index: PageIndex) -> None:  # noqa: ARG002 - others do
        """Refuse columns that do not exist, when the index is opened."""
        for name in (*self.metadata, *self.span_columns):
            if name != self.column:
                self.source_of(name)

    def _token_index(self, index: PageIndex) -> PageIndex:
        """Return the index of tokens: a column of tokens is its own index."""
        for column in self.aligned:
            beside = self._build_index(column.column)
            column.check(index, beside)
            arranged = self._arranged_beside(beside, column.column)
            self._column_indexes[column.column] = arranged
        return index

    def _build_index(self, column: str) -> PageIndex:
        recipe = IndexRecipe(
            files=self.files,
            storage=self.storage,
            column=column,
            cache_dir=cache_folder(self.cache_dir),
            page_index=self._page_index,
            verify_checksums=self.verify_checksums,
        )
        return PageIndex.of(recipe)

    def over(self, subset: Self) -> Self:
        """Return ``subset`` with the selection and the erasures of this dataset."""
        if self.selection is None and not self.erasures:
            return subset
        spans, chosen = subset.spans, self.selection
        return replace(
            subset,
            selection=None if chosen is None else chosen.over(spans),
            erasures=tuple(erasure.over(spans) for erasure in self.erasures),
        )

    @property
    def kind(self) -> SourceKind:
        """Kind of the source, a column of the table of options."""
        return "tokens"

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == self.column:
            return self.index
        if column not in self._column_indexes:
            arranged = self._arranged_beside(self._index_beside(column), column)
            self._column_indexes[column] = arranged
        return self._column_indexes[column]

    def _index_beside(self, column: str) -> PageIndex:
        """Return the index of another column, as the files have it."""
        return self._build_index(column)

    @lazy
    def _column_indexes(self) -> dict[str, PageIndex]:
        return {}
