"""Columns beside the tokens in a batch: aligned ones, and metadata of its documents.

:class:`Aligned` says what a column has for each token. The core takes what batches have
of such columns, and the table of metadata, by :mod:`pagefeed.rooms`.
"""

from pagefeed._names import name_as_imported
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

name_as_imported(__name__)
