"""Vocabularies: tokenizers trained on texts of Parquet, and extended for a domain.

``sampling`` draws texts at random, balanced by their sources, ``recipes`` trains on
them, and ``rates`` says what texts that were held out come to.
"""

from pagefeed.prepare.vocabulary.rates import TokenRate
from pagefeed.prepare.vocabulary.sampling import SampledSource
from pagefeed.prepare.vocabulary.training import TrainedTokenizer, train_tokenizer

__all__ = ["SampledSource", "TokenRate", "TrainedTokenizer", "train_tokenizer"]
