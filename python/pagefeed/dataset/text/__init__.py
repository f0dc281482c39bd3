"""Columns of text as columns of tokens: counted once, encoded as they are read.

:func:`tokenized` makes an index of texts one of tokens, which is all that sequences,
orders and loaders ask for; :func:`token_counts` is the one pass that it takes.
A :class:`TextStream` does without.
"""

from pagefeed.dataset.text.counts import TokenCounts, token_counts
from pagefeed.dataset.text.text_stream import TextStream
from pagefeed.dataset.text.tokenized_index import LABELS, TokenizedIndex, tokenized

__all__ = [
    "LABELS",
    "TextStream",
    "TokenCounts",
    "TokenizedIndex",
    "token_counts",
    "tokenized",
]
