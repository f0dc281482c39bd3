"""Cuts of rows into sequences: joined and cut, packed, or one by one.

A :class:`Cut` (:class:`Windows`, :class:`Packed`, :class:`Documents`) makes a
:class:`SequenceIndex` of the rows of a dataset: sequences numbered in file order and
grouped in blocks, each a few token ranges. The index does not depend on seed or epoch.
"""

from pagefeed.core.sequences.bundles import Bundles, are_bundles, page_numbers
from pagefeed.core.sequences.cut import Cut, Delivers, TokenCut, check_sequences
from pagefeed.core.sequences.joined import AnyIndex, JoinedIndex
from pagefeed.core.sequences.lines import Lines, PackedRuns, block_starts
from pagefeed.core.sequences.packed import PACKING, Packed, PackedIndex, pack_lengths
from pagefeed.core.sequences.sequence_index import (
    Blocks,
    DocumentParts,
    ExplicitBlocks,
    Segments,
    SequenceIndex,
    SequenceLayout,
    SpanIndex,
    with_erased,
)
from pagefeed.core.sequences.windows import WindowIndex, Windows

__all__ = [
    "PACKING",
    "AnyIndex",
    "Blocks",
    "Bundles",
    "Cut",
    "Delivers",
    "DocumentParts",
    "ExplicitBlocks",
    "JoinedIndex",
    "Lines",
    "Packed",
    "PackedIndex",
    "PackedRuns",
    "Segments",
    "SequenceIndex",
    "SequenceLayout",
    "SpanIndex",
    "TokenCut",
    "WindowIndex",
    "Windows",
    "are_bundles",
    "block_starts",
    "check_sequences",
    "pack_lengths",
    "page_numbers",
    "with_erased",
]
