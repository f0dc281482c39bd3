"""Types of datasets, for annotations, and functions that few users call."""

from pagefeed._removed import refuse_removed_of
from pagefeed.aligned import Aligned, AlignedColumn, AlignedColumnNames
from pagefeed.arrow_files import ArrowDataset, arrow
from pagefeed.core.dataset import (
    Dataset,
    FolderColumn,
    Page,
    PageIndex,
    Source,
    Spans,
)
from pagefeed.flat import (
    FlatDataset,
    MegatronDataset,
    StreamDataset,
    StreamWriter,
    mds,
    megatron,
    stream,
    tokens,
)
from pagefeed.infilling import Infill
from pagefeed.own_rows import RowDataset, rows
from pagefeed.parquet_files import ParquetDataset, RecordedTokenizer, parquet
from pagefeed.remote import IndexDifferences, WrittenIndex, check_index, write_index
from pagefeed.tables import delta, iceberg

__all__ = [
    "Aligned",
    "AlignedColumn",
    "AlignedColumnNames",
    "ArrowDataset",
    "Dataset",
    "FlatDataset",
    "FolderColumn",
    "IndexDifferences",
    "Infill",
    "MegatronDataset",
    "Page",
    "PageIndex",
    "ParquetDataset",
    "RecordedTokenizer",
    "RowDataset",
    "Source",
    "Spans",
    "StreamDataset",
    "StreamWriter",
    "WrittenIndex",
    "arrow",
    "check_index",
    "delta",
    "iceberg",
    "mds",
    "megatron",
    "parquet",
    "rows",
    "stream",
    "tokens",
    "write_index",
]
refuse_removed_of(__name__)
