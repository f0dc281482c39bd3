"""What rows there are: Parquet files, the index of their pages, and parts of them.

A dataset names files and a column; its page index says where every page lies; its
spans are the rows that sequences are cut from. :mod:`pagefeed.dataset.select` divides
rows by predicates, tiers, lengths and hashes.
"""

from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.page_index import BlockKind, Page, PageIndex
from pagefeed.dataset.parquet_dataset import ParquetDataset, check_dataset, parquet
from pagefeed.dataset.row_lengths import length_counts
from pagefeed.dataset.spans import Spans, refuse_null_tokens

__all__ = [
    "BlockKind",
    "FolderColumn",
    "Page",
    "PageIndex",
    "ParquetDataset",
    "Spans",
    "check_dataset",
    "length_counts",
    "parquet",
    "refuse_null_tokens",
]
