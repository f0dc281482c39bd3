"""Tokens as text, with the tokenizer that made them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pagefeed._base import require
from pagefeed.dataset import Dataset, ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import Mixture
from pagefeed.storage import local_path
from pagefeed.tokenizer import Tokenizer

__all__ = ["TextTokenizer", "load_tokenizer", "recorded_vocab_size"]


class TextTokenizer(Protocol):
    """What reports ask of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens: all are below it."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens, special ones included."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, without adding special ones."""


class _HubTokenizer:
    """A ``tokenizer.json``, read by the library ``tokenizers``."""

    def __init__(self, path: str) -> None:
        library: Any = require(
            "tokenizers", extra="tokenizers", purpose="decoding tokens"
        )
        try:
            self._tokenizer = library.Tokenizer.from_file(path)
        except Exception as error:  # The library raises nothing more exact.
            raise InvalidArgumentError(
                f"{path} is not a tokenizer.json of the library tokenizers: {error}"
            ) from error
        self.vocab_size = int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens, special ones included."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def encode(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, without adding special ones."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def load_tokenizer(
    path: str | os.PathLike[str], data: Dataset | Mixture | None = None
) -> TextTokenizer:
    """Load a tokenizer from its file: that of a dataset's tokens, if one is given.

    Raises:
        InvalidArgumentError: If it is no such file, or the dataset's files say that
            another tokenizer made their tokens.
        MissingDependencyError: If the library is not installed.
    """
    for dataset in [] if data is None else _parts(data):
        if dataset.recorded_tokenizer is not None:
            dataset.check_tokenizer(Tokenizer(path))
    return _HubTokenizer(local_path(path, "tokenizer"))


def recorded_vocab_size(data: Dataset | Mixture) -> int | None:
    """Return the size of the vocabulary, as files say it; None if none says it."""
    found = (dataset.recorded_tokenizer for dataset in _parts(data))
    return max((one.vocab_size for one in found if one is not None), default=None)


def _parts(data: Dataset | Mixture) -> list[ParquetDataset]:
    """The datasets of token columns in Parquet files."""
    datasets = data.datasets.values() if isinstance(data, Mixture) else [data]
    return [
        dataset
        for dataset in datasets
        if isinstance(dataset, ParquetDataset) and dataset.tokenizer is None
    ]
