"""Parquet files as users name them: rows, with the methods of all rooms.

Each method imports its room when it is called. Other datasets derive from the same
classes: :class:`Selectable`, :class:`Erasable`, :class:`Infillable`.
"""

from pagefeed.parquet_files.described_rows import DescribedRows
from pagefeed.parquet_files.infillable import Infillable
from pagefeed.parquet_files.manifests import changed_files
from pagefeed.parquet_files.named_files import (
    Columns,
    check_wanted,
    named_dataset,
    parquet,
)
from pagefeed.parquet_files.parquet_dataset import Erasable, ParquetDataset
from pagefeed.parquet_files.selectable import Selectable
from pagefeed.parquet_files.tokenizable import RecordedTokenizer, Tokenizable

__all__ = [
    "Columns",
    "DescribedRows",
    "Erasable",
    "Infillable",
    "ParquetDataset",
    "RecordedTokenizer",
    "Selectable",
    "Tokenizable",
    "changed_files",
    "check_wanted",
    "named_dataset",
    "parquet",
]
