"""Makes datasets: converts token files, tokenizes texts, and trains tokenizers.

:func:`convert` reads the documents of any dataset in order and writes them in one of
:data:`TOKEN_FORMATS`. :func:`tokenize` writes the tokens of texts: ``texts/`` reads
the inputs, ``tokenizing/`` writes the files. ``vocabulary/`` trains, extends
and compares tokenizers.
"""

from pagefeed.prepare.conversion import TOKEN_FORMATS, Conversion, convert
from pagefeed.prepare.exporting import Exported, export
from pagefeed.prepare.samples import are_samples
from pagefeed.prepare.staging import Staged, stage
from pagefeed.prepare.texts import FORMATS
from pagefeed.prepare.tokenizing import Tokenized, tokenize
from pagefeed.prepare.vocabulary import (
    ComparedSource,
    ComparedTokenizer,
    ExtendedTokenizer,
    NewToken,
    SampledSource,
    TokenRate,
    TrainedTokenizer,
    compare_tokenizers,
    extend_embeddings,
    extend_tokenizer,
    train_tokenizer,
)

__all__ = [
    "FORMATS",
    "TOKEN_FORMATS",
    "ComparedSource",
    "ComparedTokenizer",
    "Conversion",
    "Exported",
    "ExtendedTokenizer",
    "NewToken",
    "SampledSource",
    "Staged",
    "TokenRate",
    "Tokenized",
    "TrainedTokenizer",
    "are_samples",
    "compare_tokenizers",
    "convert",
    "export",
    "extend_embeddings",
    "extend_tokenizer",
    "stage",
    "tokenize",
    "train_tokenizer",
]
