"""What reports ask of a tokenizer: `pagefeed.Tokenizer` has it, others may."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["TextTokenizer"]


class TextTokenizer(Protocol):
    """What reports ask of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens: all are below it."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens, special ones included."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, without adding special ones."""
