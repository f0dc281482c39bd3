"""Columns of text as columns of tokens: counted once, encoded as they are read.

:func:`tokenized` makes an index of texts one of tokens, which is all that sequences,
orders and loaders ask for; :func:`token_counts` is the one pass that it takes.
A :class:`UncountedText` does without.
"""

from pagefeed.dataset.text.counts import TokenCounts, token_counts
from pagefeed.dataset.text.tokenized_index import LABELS, TokenizedIndex, tokenized
from pagefeed.dataset.text.uncounted_text import UncountedText

__all__ = [
    "LABELS",
    "TokenCounts",
    "TokenizedIndex",
    "UncountedText",
    "token_counts",
    "tokenized",
]
