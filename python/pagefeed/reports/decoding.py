"""Tokens as text, with the tokenizer that made them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pagefeed._base import require
from pagefeed.errors import InvalidArgumentError

__all__ = ["TextTokenizer", "load_tokenizer"]


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


def load_tokenizer(path: str | os.PathLike[str]) -> TextTokenizer:
    """Load a tokenizer from its file.

    Raises:
        InvalidArgumentError: If it is no such file.
        MissingDependencyError: If the library is not installed.
    """
    return _HubTokenizer(os.fspath(path))
