"""Datasets made from others: between Parquet, streams, and other token files.

``rows`` reads the documents of any dataset in order, ``outputs`` writes them in one of
the formats, and :func:`convert` puts the two together.
:mod:`pagefeed.prepare.vocabulary` makes tokenizers for their texts.
"""

from pagefeed.prepare.conversion import Conversion, convert
from pagefeed.prepare.vocabulary import (
    ExtendedEmbeddings,
    ExtendedTokenizer,
    NewToken,
    SampledSource,
    TokenRate,
    TrainedTokenizer,
    extend_embeddings,
    extend_tokenizer,
    train_tokenizer,
)

__all__ = [
    "Conversion",
    "ExtendedEmbeddings",
    "ExtendedTokenizer",
    "NewToken",
    "SampledSource",
    "TokenRate",
    "TrainedTokenizer",
    "convert",
    "extend_embeddings",
    "extend_tokenizer",
    "train_tokenizer",
]
