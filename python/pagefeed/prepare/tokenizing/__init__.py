"""Writes the tokens of texts of any input to Parquet files.

``job`` divides the inputs into tasks. ``task`` writes the shards of a task; a finished
shard is never written again. ``local`` and ``on_ray`` run tasks in parallel.
``folder`` records finished shards, and writes the manifest in the end.
"""

from pagefeed.prepare.tokenizing.folder import Tokenized
from pagefeed.prepare.tokenizing.tokenization import tokenize

__all__ = ["Tokenized", "tokenize"]
