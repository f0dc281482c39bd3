"""Vocabularies: tokenizers trained on texts of Parquet, and extended for a domain.

``sampling`` draws texts at random, balanced by their sources. ``training`` trains on
them by the ``recipes``, and counts the tokens of held-out texts. ``segmentation``
chooses tokens to add for a domain, ``appending`` adds them to each kind of tokenizer,
and ``embeddings`` adds rows for them to the tensors of a model. ``comparison`` holds
tokenizers side by side.
"""

from pagefeed.prepare.vocabulary.comparison import (
    ComparedSource,
    ComparedTokenizer,
    compare_tokenizers,
)
from pagefeed.prepare.vocabulary.embeddings import extend_embeddings
from pagefeed.prepare.vocabulary.extension import (
    ExtendedTokenizer,
    NewToken,
    extend_tokenizer,
)
from pagefeed.prepare.vocabulary.sampling import SampledSource
from pagefeed.prepare.vocabulary.training import (
    TokenRate,
    TrainedTokenizer,
    train_tokenizer,
)

__all__ = [
    "ComparedSource",
    "ComparedTokenizer",
    "ExtendedTokenizer",
    "NewToken",
    "SampledSource",
    "TokenRate",
    "TrainedTokenizer",
    "compare_tokenizers",
    "extend_embeddings",
    "extend_tokenizer",
    "train_tokenizer",
]
