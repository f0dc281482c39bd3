"""Inspect a dataset before training: how it is stored."""

from pagefeed.reports.inspection.footers import (
    NO_CHECKSUMS,
    ColumnFacts,
    FileFacts,
    checksum_share,
)
from pagefeed.reports.inspection.inspection import Inspection, PageSizes, inspect
from pagefeed.reports.inspection.lengths import DocumentLengths, measure_lengths
from pagefeed.reports.inspection.sizes import small_files_of

__all__ = [
    "NO_CHECKSUMS",
    "ColumnFacts",
    "DocumentLengths",
    "FileFacts",
    "Inspection",
    "PageSizes",
    "checksum_share",
    "inspect",
    "measure_lengths",
    "small_files_of",
]
