"""Columns of text as columns of tokens: counted once, encoded when they are read.

:func:`tokenized` turns an index of texts into one of tokens, which sequences, orders
and loaders use like any other. :func:`token_counts` counts the tokens in one pass.
"""

from pagefeed.text.counts import TextColumn, TokenCounts, token_counts
from pagefeed.text.tokenized_index import TokenizedIndex, tokenized

__all__ = [
    "TextColumn",
    "TokenCounts",
    "TokenizedIndex",
    "token_counts",
    "tokenized",
]
