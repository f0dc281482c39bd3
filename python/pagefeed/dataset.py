"""What rows there are: Parquet files and the columns wanted of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pagefeed.errors import InvalidArgumentError
from pagefeed.index import PageIndex
from pagefeed.paths import PathLike, Paths, expand_paths
from pagefeed.spans import PageSpans, Spans

__all__ = ["ParquetDataset", "parquet"]


@dataclass(frozen=True, kw_only=True)
class ParquetDataset:
    """Parquet files read as one dataset; made by :func:`parquet`."""

    files: tuple[str, ...]
    """Absolute paths, in the order of the dataset."""
    column: str
    """The column that is fed: a list of tokens per row."""
    metadata: tuple[str, ...] = ()
    """Further columns of the same rows."""
    cache_dir: str | None = None
    """Folder of the page index."""
    page_index: bool = True
    """Use the files' own offset indexes."""
    verify_checksums: bool = True
    """Verify checksums where they are present."""

    @cached_property
    def index(self) -> PageIndex:
        """The page index of the column, built or opened on first use."""
        return PageIndex.build(
            self.files,
            self.column,
            self.cache_dir,
            page_index=self.page_index,
            verify_checksums=self.verify_checksums,
        )

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == self.column:
            return self.index
        if column not in self._column_indexes:
            self._column_indexes[column] = PageIndex.build(
                self.files,
                column,
                self.cache_dir,
                page_index=self.page_index,
                verify_checksums=self.verify_checksums,
            )
        return self._column_indexes[column]

    @cached_property
    def _column_indexes(self) -> dict[str, PageIndex]:
        return {}

    @cached_property
    def spans(self) -> Spans:
        """The rows of the dataset, as sequences are cut from them."""
        return PageSpans(self.index)

    @property
    def fingerprint(self) -> str:
        """What identifies the contents, see :attr:`PageIndex.fingerprint`."""
        return self.index.fingerprint

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.index.num_rows

    def __repr__(self) -> str:
        return f"ParquetDataset({len(self.files)} files, column={self.column!r})"


def parquet(
    paths: Paths,
    *,
    column: str,
    metadata: Iterable[str] = (),
    cache_dir: PathLike | None = None,
    page_index: bool = True,
    verify_checksums: bool = True,
) -> ParquetDataset:
    """Name a dataset of Parquet files, as they lie.

    Args:
        paths: Files; folders, for the ``.parquet`` and ``.parq`` files below them;
            patterns; or a list of these, whose order is kept.
        column: The token column: a list of integers per row.
        metadata: Further columns of the same rows.
        cache_dir: Folder for the page index, which every process of the machine then
            maps; by default ``$PAGEFEED_CACHE_DIR``, or memory.
        page_index: Use the files' own offset indexes where they have them.
        verify_checksums: Verify checksums of pages where the writer stored them.

    Returns:
        The dataset. No data is read before it is used.

    Raises:
        MissingFileError: If there is nothing at a path.

    Example:
        >>> web = parquet("corpus/web", column="input_ids")  # doctest: +SKIP
    """
    if isinstance(metadata, str):
        raise InvalidArgumentError(
            f"metadata={metadata!r} must be a list of columns, such as [{metadata!r}]"
        )
    return ParquetDataset(
        files=tuple(expand_paths(paths)),
        column=column,
        metadata=tuple(metadata),
        cache_dir=None if cache_dir is None else os.fspath(cache_dir),
        page_index=page_index,
        verify_checksums=verify_checksums,
    )
