"""Datasets made from others: between Parquet, streams, and other token files.

``rows`` reads the documents of any dataset in order, ``outputs`` writes them in one of
the formats, and :func:`convert` puts the two together. :func:`tokenize` makes them of
texts: ``texts/`` reads these, ``tokenizing/`` writes their tokens; ``vocabulary/``
makes tokenizers for them.
"""

from pagefeed.prepare.conversion import Conversion, convert
from pagefeed.prepare.texts import FORMATS
from pagefeed.prepare.tokenizing import Tokenized, tokenize
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
    "FORMATS",
    "Conversion",
    "ExtendedEmbeddings",
    "ExtendedTokenizer",
    "NewToken",
    "SampledSource",
    "TokenRate",
    "Tokenized",
    "TrainedTokenizer",
    "convert",
    "extend_embeddings",
    "extend_tokenizer",
    "tokenize",
    "train_tokenizer",
]
