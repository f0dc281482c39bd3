"""How rows become sequences: joined and cut, packed, or one by one.

A :class:`Cut` (:class:`Windows`, :class:`Packed`, :class:`Documents`) makes a
:class:`SequenceIndex` of the rows of a dataset: sequences numbered in
file order, grouped in blocks, each a few token ranges. No seed, no epoch, no data read.
"""

from pagefeed._names import name_as_imported
from pagefeed.sequences.blocks import Blocks, ExplicitBlocks
from pagefeed.sequences.bundles import Bundles, are_bundles, epochs_of_bundles
from pagefeed.sequences.costs import SequenceCosts
from pagefeed.sequences.cut import Cut, check_sequences
from pagefeed.sequences.document_batches import DocumentBatchIndex
from pagefeed.sequences.document_index import DocumentIndex
from pagefeed.sequences.documents import DocumentBatches, Documents
from pagefeed.sequences.epochs import EPOCH_SHIFT, epochs_of, numbers_of, with_epoch
from pagefeed.sequences.joined import AnyIndex, JoinedIndex
from pagefeed.sequences.packed import Packed, PackedIndex
from pagefeed.sequences.sequence_index import (
    Segments,
    SequenceIndex,
    SequenceLayout,
    with_erased,
)
from pagefeed.sequences.windows import Windows

__all__ = [
    "EPOCH_SHIFT",
    "AnyIndex",
    "Blocks",
    "Bundles",
    "Cut",
    "DocumentBatchIndex",
    "DocumentBatches",
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
    "Windows",
    "are_bundles",
    "check_sequences",
    "epochs_of",
    "epochs_of_bundles",
    "numbers_of",
    "with_epoch",
    "with_erased",
]

name_as_imported(__name__)
