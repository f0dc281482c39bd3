"""Vocabularies: tokenizers trained on texts of Parquet, and extended for a domain.

``sampling`` draws texts at random, balanced by their sources, ``recipes`` trains on
them, and ``rates`` says what texts that were held out come to. ``segmentation`` chooses
what to add for a domain, ``appending`` adds it to each kind, and ``embeddings`` gives
``checkpoints`` rows for it.
"""

from pagefeed.prepare.vocabulary.embeddings import (
    ExtendedEmbeddings,
    extend_embeddings,
)
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
    "ExtendedEmbeddings",
    "ExtendedTokenizer",
    "NewToken",
    "SampledSource",
    "TokenRate",
    "TrainedTokenizer",
    "extend_embeddings",
    "extend_tokenizer",
    "train_tokenizer",
]
