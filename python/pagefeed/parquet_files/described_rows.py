"""Rows of Parquet files that others describe: a table, a shared index, folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pagefeed import _core
from pagefeed.caches import part_of
from pagefeed.core._base import Facts, is_made, warn_user
from pagefeed.core.dataset import (
    FolderColumn,
    IndexRecipe,
    PageIndex,
    ParquetRows,
    cache_folder,
    folder_columns,
)
from pagefeed.errors import (
    ColumnNotFoundError,
    IndexWarning,
    MissingFileError,
)

if TYPE_CHECKING:
    from pagefeed.remote import ColumnIndex, SharedIndex
    from pagefeed.selection import Naming, TableColumns


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedRecipe(IndexRecipe):
    """Recipe of the index of a column that is described elsewhere, as in a table."""

    shared: SharedIndex | None = None
    """Folder with a shared index of these files, and possibly others."""
    constants: FolderColumn | None = None
    """Values for files of a table that lack the column."""
    kind: Any = None
    """The Arrow type that a table gives it; None to read it as files have it."""
    inside: str | None = None
    """Dotted path of the field in its structs that is meant, where files lack that."""
    defaults: Any = None
    """Values of its structs for fields that a file lacks: a ``pyarrow.Scalar``."""

    @property
    def naming(self) -> Naming | None:
        """Finds the column in files of a table; None: by its name."""
        return None if self.table is None else self.table.naming

    def _own_settings(self) -> list[str]:
        digests = [self._written.digest] if self._written else []
        nulls = ["missing as null"] * (self.constants is not None)
        naming = [] if self.naming is None else [self.naming.key_of(self.column)]
        return [*digests, *nulls, *naming]

    def _naming(self) -> dict[str, Any]:
        naming = None if self.naming is None else self.naming.core
        return {"missing_as_null": self.constants is not None, "naming": naming}

    @property
    def _written(self) -> ColumnIndex | None:
        """The shared index of the column."""
        if self.shared is None:
            return None
        return self.shared.find(self.column, self.page_index)

    def ready(self) -> _core.Index | None:
        """Return the shared index, if it has these files and no others."""
        written = self._written
        return written.core if written and written.core.is_of(self.files) else None

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:
        """Build the index; nothing is read of files that a shared index has."""
        if self._written is not None:
            return part_of(self, self._written.core)
        if self.shared is not None:
            warn_user(
                f"{self.shared.path} has no index of {self.column!r}: the "
                f"footers of {len(self.files)} files are read; write it with `pagefeed "
                f"index --column {self.column} --output`",
                IndexWarning,
            )
        return IndexRecipe.build(self, num_threads, advance)

    def completed(self, core: _core.Index) -> _core.Index:
        """Return the index with what a table says about the column.

        That is its type, and its values in files that lack it.

        Raises:
            ColumnNotFoundError: If a file lacks it and the table gives no value.
        """
        if self.kind is None:
            return core
        from pagefeed.selection import read_by_engines

        row, missing = self.defaults, None
        if self.constants is not None and (lacking := core.lacking_files()):
            self._check_lacking(self.constants, lacking)
            missing = self.constants.handle_of_files
        return core.with_type(
            read_by_engines([], self.kind),
            self.inside,
            missing,
            row and read_by_engines([row.as_py()], row.type),
        )

    def _check_lacking(self, constants: FolderColumn, lacking: Sequence[int]) -> None:
        """Refuse a file without the column, if the table gives it no value."""
        for file in lacking:
            if not constants.gives(file):
                path = self.files[file]
                raise ColumnNotFoundError(
                    f"{path}: there is no column {self.column!r}"
                ).at(file=path, column=self.column)


@dataclass(frozen=True, kw_only=True, repr=False)
class DescribedRows(ParquetRows):
    """Rows of Parquet files, and what others say of their columns."""

    table: TableColumns | None = None
    """Columns of the table, if the files belong to one."""
    shared: SharedIndex | None = None
    """The index that was written for all nodes, if it was given."""
    _of_more_files: Mapping[str, PageIndex] = field(default_factory=dict)
    """Indexes of columns of more files, out of which the index is taken."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without indexes of other files."""
        return {**vars(self), "_of_more_files": {}}

    def _build_index(self, column: str) -> PageIndex:
        table, kind = self.table, self._type_of(column)
        if table is not None and table.has_defaults_under(column):
            kind = table.type_of(column)  # Also of what is read as tokens.
        recipe = DescribedRecipe(
            files=self.files,
            storage=self.storage,
            column=column,
            cache_dir=cache_folder(self.cache_dir),
            page_index=self._page_index,
            verify_checksums=self.verify_checksums,
            table=table,
            shared=self.shared,
            constants=self._constants_of(column),
            kind=kind,
        )
        if table is not None and kind is not None:
            recipe = replace(recipe, defaults=table.defaults_inside(column))
            if table.has_default(column):
                return _index_with_default(recipe)
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
            error.add_note(
                "files that were written before a table got a column lack it: with "
                'missing="null" its rows are null for where() and metadata; tokens are '
                "not made up: write such files again"
            )
            raise

    def with_files(
        self,
        numbers: Sequence[int],
        why: Literal["pruned", "without_rows"] | None = None,
    ) -> Self:
        """Return the recipe for some of its files.

        Args:
            numbers: Numbers of these files, rising.
            why: Reason under which a table remembers the other files.
        """
        if why is not None and len(numbers) == len(self.files):
            return self
        table = None if self.table is None else self.table.with_files(numbers)
        files = tuple(self.files[file] for file in numbers)
        if table is not None and why is not None:
            gone = getattr(table, why) | ({*self.files} - {*files})
            table = replace(table, **{why: gone})
        recipe = replace(
            self,
            files=files,
            table=table,
            selection=None,
            erasures=(),
            _of_more_files=self._indexes(),
        )
        return self.over(recipe)

    def _indexes(self) -> Mapping[str, PageIndex]:
        """Indexes that were built, of columns as the files have them."""
        if not self.has_columns_of_files:
            return {}
        is_built = is_made(self, "index") or (
            self.selection is not None and is_made(self.selection, "index")
        )
        own = {self.column: self.index} if is_built else {}
        return {**self._of_more_files, **self._column_indexes, **own}

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return the source of another column of the same rows.

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
            if constants is None or not constants.is_complete:
                raise
            return constants

    def _constants_of(self, column: str) -> FolderColumn | None:
        """Return the values of a table's column in files that lack it."""
        if self.table is None or self._is_of_tokens(column):
            return None
        return self.table.constants_of(column, len(self.files))

    def _type_of(self, column: str) -> Any:
        """Return the type that a table gives a column other than the tokens."""
        if self.table is None or self._is_of_tokens(column):
            return None
        return self.table.type_of(column)

    def _is_of_tokens(self, column: str) -> bool:
        return column in (self.column, *(beside.column for beside in self.aligned))

    def facts(self) -> Facts:
        """Return facts that are known without reading or building anything."""
        table = self.table
        if table is None:
            return super().facts()
        about = {"table": table.snapshot or None, "pruned": len(table.pruned) or None}
        return {**super().facts(), **about}


def _index_with_default(recipe: DescribedRecipe) -> PageIndex:
    """Return the index of a field in a struct that has a default.

    Where files lack the field, whole structs are read: rows with one have the default.
    """
    try:
        return PageIndex.of(replace(recipe, constants=None))
    except ColumnNotFoundError:
        column = recipe.column.partition(".")[0]
        return PageIndex.of(replace(recipe, column=column, inside=recipe.column))
