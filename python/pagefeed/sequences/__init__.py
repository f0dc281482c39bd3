"""How rows become sequences: joined and cut, packed, or one by one.

A setting (:class:`Windows`, :class:`Packed`, :class:`Documents`) is bound to the rows
of a dataset and becomes a :class:`SequenceIndex`: sequences numbered in file order,
grouped in blocks, each a few token ranges. No seed, no epoch, no data read.
"""

from pagefeed.sequences.blocks import Blocks, ExplicitBlocks
from pagefeed.sequences.bundles import are_bundles
from pagefeed.sequences.costs import SequenceCosts
from pagefeed.sequences.documents import DocumentIndex, Documents
from pagefeed.sequences.joined import AnyIndex, JoinedIndex
from pagefeed.sequences.packed import Packed, PackedIndex
from pagefeed.sequences.sequence_index import (
    Segments,
    SequenceIndex,
    SequenceLayout,
    SequenceSetting,
    check_sequences,
)
from pagefeed.sequences.windows import Windows

__all__ = [
    "AnyIndex",
    "Blocks",
    "DocumentIndex",
    "Documents",
    "ExplicitBlocks",
    "JoinedIndex",
    "Packed",
    "PackedIndex",
    "Segments",
    "SequenceCosts",
    "SequenceIndex",
    "SequenceLayout",
    "SequenceSetting",
    "Windows",
    "are_bundles",
    "check_sequences",
]
