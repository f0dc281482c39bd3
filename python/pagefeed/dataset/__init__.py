"""What rows there are: Parquet files, the index of their pages, and parts of them.

A dataset names files and a column; its page index says where every page lies; its
spans are the rows that sequences are cut from. :class:`Dataset`, :class:`TokenIndex`
and :class:`Spans` are what other layers need of these, whatever the files are;
:mod:`pagefeed.dataset.select` divides rows by predicates, tiers, lengths and hashes.
"""

from pagefeed.dataset.aligned import Aligned
from pagefeed.dataset.dataset import Dataset, check_abilities, check_dataset
from pagefeed.dataset.derived import derived_arrays, derived_key
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.named_files import parquet
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.dataset.row_lengths import length_counts
from pagefeed.dataset.spans import Spans, refuse_null_tokens
from pagefeed.dataset.text import TokenizedIndex
from pagefeed.dataset.token_index import BlockKind, Page, SpanParts, TokenIndex

__all__ = [
    "Aligned",
    "BlockKind",
    "Dataset",
    "FolderColumn",
    "Page",
    "PageIndex",
    "ParquetDataset",
    "SpanParts",
    "Spans",
    "TokenIndex",
    "TokenizedIndex",
    "check_abilities",
    "check_dataset",
    "derived_arrays",
    "derived_key",
    "length_counts",
    "parquet",
    "refuse_null_tokens",
]
