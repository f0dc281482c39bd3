"""Columns beside the tokens in a batch: aligned ones, and metadata of its documents.

:class:`Aligned` holds the settings of such a column. The core gets the aligned columns
of a batch, and the table of metadata, through :mod:`pagefeed.rooms`.
"""

from pagefeed.aligned.aligned import (
    Aligned,
    AlignedColumn,
    AlignedColumnNames,
    AlignedSource,
    check_aligned_index,
    parse_aligned,
)

__all__ = [
    "Aligned",
    "AlignedColumn",
    "AlignedColumnNames",
    "AlignedSource",
    "check_aligned_index",
    "parse_aligned",
]
