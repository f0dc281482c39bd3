"""A cut of one's own: the first tokens of every row, and nothing of the rest."""

from dataclasses import dataclass

import numpy as np

from pagefeed.contract import (
    DocumentParts,
    Segments,
    SequenceLayout,
    SpanIndex,
    Spans,
    TokenCut,
    lengths_of_rows,
)


@dataclass(frozen=True, repr=False)
class FirstTokens(TokenCut):
    """The first ``length`` tokens of each row are a sequence."""

    def index(self, spans: Spans) -> "FirstTokensIndex":
        return FirstTokensIndex(spans, self)


class FirstTokensIndex(SpanIndex):
    """Sequence i is the beginning of row i."""

    def __init__(self, spans: Spans, cut: FirstTokens) -> None:
        self.spans, self.erased, self.length = spans, spans.erased, cut.length
        self.layout = SequenceLayout()
        self.num_sequences = spans.num_rows
        lengths = lengths_of_rows(spans, 0, len(spans))
        self._lengths = np.minimum(lengths, cut.length)
        self.num_dropped_tokens = spans.num_values - self.num_delivered_tokens
        places = self.num_sequences * cut.length
        self.num_padding_tokens = places - self.num_delivered_tokens

    @property
    def num_tokens(self) -> int:
        return self.spans.num_values

    @property
    def num_delivered_tokens(self) -> int:
        return int(self._lengths.sum())

    def first_of_spans(self, spans: np.ndarray) -> np.ndarray:
        return self.spans.first_rows(spans)

    def spans_of(self, sequences: np.ndarray) -> np.ndarray:
        return self.spans.spans_of_rows(sequences)

    def segments(self, sequences: np.ndarray) -> Segments:
        page, row = self._places(sequences)
        nothing = np.zeros(len(page), dtype=np.uint32)
        return Segments(
            sequence=np.arange(len(sequences)),
            page=page,
            row=row.astype(np.uint32),
            first_token=nothing,
            num_tokens=self._lengths[sequences].astype(np.uint32),
            offset=nothing,
        )

    def parts(self, sequence: int) -> DocumentParts:
        page, row = self._places(np.array([sequence]))
        zero = np.zeros(1, dtype=np.int64)
        return DocumentParts(page, row, zero, self._lengths[[sequence]], zero)

    def sequences_of_row(self, row: int) -> np.ndarray:
        return np.array([row])

    def erased_sequences(self) -> np.ndarray:
        return np.concatenate([np.arange(*run) for run in [(0, 0), *self.erased_runs]])

    def _places(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        span = self.spans.spans_of_rows(sequences)
        page, first_row = self.spans.places(span)
        return page, first_row + sequences - self.spans.first_rows(span)
