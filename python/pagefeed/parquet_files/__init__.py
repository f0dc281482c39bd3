"""Parquet files as users name them: rows, with the methods of all rooms."""

from pagefeed._names import name_as_imported
from pagefeed.parquet_files.named_files import (
    Columns,
    check_wanted,
    named_dataset,
    parquet,
)
from pagefeed.parquet_files.parquet_dataset import ParquetDataset

__all__ = [
    "Columns",
    "ParquetDataset",
    "check_wanted",
    "named_dataset",
    "parquet",
]

name_as_imported(__name__)
