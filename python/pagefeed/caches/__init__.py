"""Indexes and numbers of rows, kept on disk; output files that appear whole or not.

One process makes them, and the others wait and map the same files. A result of another
version, or a damaged one, is made again.
"""

from pagefeed.caches.arrays import (
    ArrayFolder,
    ArrayWriter,
    CheckedArray,
    IsSound,
    WholeWriter,
    are_rising,
    are_sums,
    find_arrays,
    keeps_arrays,
    remove_arrays,
    stored_arrays,
)
from pagefeed.caches.counted_index import CountedIndex
from pagefeed.caches.derived import (
    derived_arrays,
    derived_key,
)
from pagefeed.caches.indexes import cached_index, kept_index, part_of
from pagefeed.caches.lease import (
    check_owned,
    is_taken,
    open_lock,
)
from pagefeed.caches.sequence_numbers import (
    SPANS_AT_ONCE,
    NumbersOfRows,
    document_lengths,
    stored_counts,
    stored_numbers,
)

__all__ = [
    "SPANS_AT_ONCE",
    "ArrayFolder",
    "ArrayWriter",
    "CheckedArray",
    "CountedIndex",
    "IsSound",
    "NumbersOfRows",
    "WholeWriter",
    "are_rising",
    "are_sums",
    "cached_index",
    "check_owned",
    "derived_arrays",
    "derived_key",
    "document_lengths",
    "find_arrays",
    "is_taken",
    "keeps_arrays",
    "kept_index",
    "open_lock",
    "part_of",
    "remove_arrays",
    "stored_arrays",
    "stored_counts",
    "stored_numbers",
]
