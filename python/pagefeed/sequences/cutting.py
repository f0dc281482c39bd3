"""From a setting to the sequences of a dataset."""

from __future__ import annotations

from typing import TypeAlias, overload

from pagefeed.dataset import Spans
from pagefeed.errors import InvalidArgumentError
from pagefeed.sequences.document_batches import DocumentBatches, DocumentBatchIndex
from pagefeed.sequences.documents import DocumentIndex, Documents
from pagefeed.sequences.packed import Packed, PackedIndex
from pagefeed.sequences.sequence_index import SequenceIndex
from pagefeed.sequences.windows import WindowIndex, Windows

__all__ = ["SequenceSetting", "check_sequences", "cut_sequences"]

SequenceSetting: TypeAlias = Windows | Packed | Documents
"""How to cut a dataset into sequences."""


@overload
def cut_sequences(sequences: Windows, spans: Spans) -> WindowIndex: ...
@overload
def cut_sequences(sequences: Packed, spans: Spans) -> PackedIndex: ...
@overload
def cut_sequences(sequences: SequenceSetting, spans: Spans) -> SequenceIndex: ...
def cut_sequences(sequences: SequenceSetting, spans: Spans) -> SequenceIndex:
    """Cut the rows of ``spans`` into sequences, by the index alone.

    Raises:
        InvalidArgumentError: If rows are needed, and the index does not know them.
        UnsupportedError: If the column holds something else.
    """
    infill = getattr(spans.index, "infill", None)
    if infill is not None and infill.within == "sequence":
        _check_packed(sequences)
    if isinstance(sequences, Windows):
        return WindowIndex(spans, sequences)
    if isinstance(sequences, Packed):
        return PackedIndex(spans, sequences)
    if isinstance(sequences, DocumentBatches):
        return DocumentBatchIndex(spans, sequences)
    return DocumentIndex(spans, sequences)


def _check_packed(sequences: SequenceSetting) -> None:
    if not isinstance(sequences, Packed):
        raise InvalidArgumentError(
            "Infill(within='sequence') cuts what a packed sequence holds of a "
            f"document, and {sequences!r} packs none: give Packed(length), or "
            "within='document'"
        )


def check_sequences(sequences: object) -> None:
    """Refuse what does not cut a dataset.

    Raises:
        InvalidArgumentError: Saying what does.
    """
    if isinstance(sequences, Windows | Packed | Documents):
        return
    is_number = isinstance(sequences, int) and not isinstance(sequences, bool)
    length = sequences if is_number else 2048
    raise InvalidArgumentError(
        f"sequences={sequences!r} must say how to cut: Windows({length}), "
        f"Packed({length}) or Documents()"
    )
