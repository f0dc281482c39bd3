"""How rows become sequences: joined and cut, packed, or one by one.

A :class:`Cut` (:class:`Windows`, :class:`Packed`, :class:`Documents`) makes a
:class:`SequenceIndex` of the rows of a dataset: sequences numbered in
file order, grouped in blocks, each a few token ranges. No seed, no epoch, no data read.
"""

from pagefeed._names import name_as_imported
from pagefeed.core.sequences.blocks import Blocks, ExplicitBlocks
from pagefeed.core.sequences.bundles import Bundles, are_bundles, epochs_of_bundles
from pagefeed.core.sequences.cut import Cut, Delivers, TokenCut, check_sequences
from pagefeed.core.sequences.epochs import (
    EPOCH_SHIFT,
    epochs_of,
    numbers_of,
    with_epoch,
)
from pagefeed.core.sequences.joined import AnyIndex, JoinedIndex
from pagefeed.core.sequences.kept_numbers import (
    document_lengths,
    stored_numbers,
    sums_of_rows,
)
from pagefeed.core.sequences.lines import Lines
from pagefeed.core.sequences.packed import PACKING, Packed, PackedIndex, pack_lengths
from pagefeed.core.sequences.packed_counts import stored_counts
from pagefeed.core.sequences.page_runs import PackedRuns, block_starts
from pagefeed.core.sequences.sequence_index import (
    DocumentParts,
    Segments,
    SequenceIndex,
    SequenceLayout,
    with_erased,
)
from pagefeed.core.sequences.span_index import SpanIndex
from pagefeed.core.sequences.windows import Windows

__all__ = [
    "EPOCH_SHIFT",
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
    "Windows",
    "are_bundles",
    "block_starts",
    "check_sequences",
    "document_lengths",
    "epochs_of",
    "epochs_of_bundles",
    "numbers_of",
    "pack_lengths",
    "stored_counts",
    "stored_numbers",
    "sums_of_rows",
    "with_epoch",
    "with_erased",
]

name_as_imported(__name__)
