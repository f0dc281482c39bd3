"""Datasets: files, the page index of a column, and spans of rows.

A dataset names files and a column. Its page index says where every page is stored. Its
spans are the rows that sequences are cut from. Other layers use only :class:`Dataset`,
:class:`PageIndex` and :class:`Spans`, for files of any format. :class:`ParquetRows` is
the dataset of Parquet files.
"""

from pagefeed.core.dataset.dataset import (
    Dataset,
    Source,
    SourceKind,
    check_dataset,
    known_vocab_size,
    wide_bytes,
)
from pagefeed.core.dataset.folders import (
    FolderColumn,
    column_of_values,
    folder_columns,
)
from pagefeed.core.dataset.identity import (
    identity_of_data,
    same_files,
    snapshot_in,
    what_changed,
)
from pagefeed.core.dataset.index_recipe import (
    IndexRecipe,
    PageIndexUse,
    Recipe,
    cache_folder,
    check_page_index,
    default_threads,
    footer_of,
)
from pagefeed.core.dataset.page_index import (
    BlockKind,
    OwnTokens,
    Page,
    PageIndex,
    Pieces,
    RowNumbers,
)
from pagefeed.core.dataset.parquet_rows import ParquetRows
from pagefeed.core.dataset.spans import (
    SpanParts,
    Spans,
    SpanSlices,
    cut_at,
    lengths_of_rows,
    refuse_null_tokens,
    refuse_nulls,
    refuse_texts,
    refuse_unknown_rows,
)

__all__ = [
    "BlockKind",
    "Dataset",
    "FolderColumn",
    "IndexRecipe",
    "OwnTokens",
    "Page",
    "PageIndex",
    "PageIndexUse",
    "ParquetRows",
    "Pieces",
    "Recipe",
    "RowNumbers",
    "Source",
    "SourceKind",
    "SpanParts",
    "SpanSlices",
    "Spans",
    "cache_folder",
    "check_dataset",
    "check_page_index",
    "column_of_values",
    "cut_at",
    "default_threads",
    "folder_columns",
    "footer_of",
    "identity_of_data",
    "known_vocab_size",
    "lengths_of_rows",
    "refuse_null_tokens",
    "refuse_nulls",
    "refuse_texts",
    "refuse_unknown_rows",
    "same_files",
    "snapshot_in",
    "what_changed",
    "wide_bytes",
]
