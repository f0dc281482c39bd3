"""Columns of a batch with its tokens: aligned columns, and metadata of documents.

:class:`Aligned` holds the settings of such a column, :class:`AlignedColumns` makes the
aligned columns of a batch.
"""

from pagefeed.aligned.aligned import (
    Aligned,
    AlignedColumn,
    AlignedColumnNames,
    AlignedSource,
    check_aligned_index,
    parse_aligned,
)
from pagefeed.aligned.columns import AlignedColumns

__all__ = [
    "Aligned",
    "AlignedColumn",
    "AlignedColumnNames",
    "AlignedColumns",
    "AlignedSource",
    "check_aligned_index",
    "parse_aligned",
]
