"""The tokenizer that shows tokens as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from pagefeed.core.dataset import Dataset
from pagefeed.mixture import Mixture
from pagefeed.parquet_files import ParquetDataset
from pagefeed.remote import StorageOptions
from pagefeed.tokenizer import Tokenizer


class TextTokenizer(Protocol):
    """Methods of a tokenizer that reports need."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens: all ids are below it."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special ones included."""

    def encode(self, text: str) -> Iterable[int]:
        """Return the tokens of a text, without adding special ones."""


def load_tokenizer(
    path: str | os.PathLike[str],
    data: Dataset | Mixture | None = None,
    storage_options: StorageOptions | None = None,
) -> Tokenizer:
    """Load a tokenizer, and check that it made the tokens of a dataset.

    Raises:
        InvalidArgumentError: If there is no tokenizer in the file, or the dataset's
            files say that another one made their tokens.
    """
    tokenizer = Tokenizer(path, storage_options=storage_options)
    for dataset in () if data is None else data.parts.values():
        if isinstance(dataset, ParquetDataset) and dataset.tokenizer is None:
            dataset.check_tokenizer(tokenizer)
    return tokenizer
