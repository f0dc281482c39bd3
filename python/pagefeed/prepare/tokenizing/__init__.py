"""Texts of any input to Parquet files of tokens, once and for all.

``job`` plans tasks, each some pieces of the inputs; ``task`` turns them into shards, of
which every one is finished for good; ``local`` and ``on_ray`` run tasks side by side;
``folder`` keeps account of what is done, and writes the manifest in the end.
"""

from pagefeed.prepare.tokenizing.folder import Tokenized
from pagefeed.prepare.tokenizing.tokenization import tokenize

__all__ = ["Tokenized", "tokenize"]
