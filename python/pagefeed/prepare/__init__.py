"""Datasets made from others: between Parquet, streams, and other token files.

``rows`` reads the documents of any dataset in order, :data:`TOKEN_FORMATS` names the
formats that they are written in, and :func:`convert` puts the two together.
:func:`tokenize` makes them of texts: ``texts/`` reads these, ``tokenizing/`` writes
their tokens; ``vocabulary/`` makes tokenizers for them.
"""

from pagefeed.prepare.conversion import TOKEN_FORMATS, Conversion, convert
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
    "TOKEN_FORMATS",
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
