"""How many tokens a tokenizer needs for texts, by their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pagefeed.dataset import ParquetDataset
from pagefeed.prepare.vocabulary.sampling import some_texts
from pagefeed.tokenizer import Tokenizer

__all__ = ["TokenRate", "rate_of", "rates_of", "texts_held_out"]

BATCH = 256
"""Texts encoded together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRate:
    """What some texts come to."""

    source: str
    """Where they are from."""
    num_rows: int
    """Number of texts."""
    num_bytes: int
    """Bytes of their UTF-8."""
    num_words: int
    """Runs of characters between white space."""
    num_tokens: int
    """Tokens that they come to."""

    @property
    def tokens_per_byte(self) -> float | None:
        """Tokens for a byte; None without a text."""
        return self.num_tokens / self.num_bytes if self.num_bytes else None

    @property
    def tokens_per_word(self) -> float | None:
        """Tokens for a word; None without a word."""
        return self.num_tokens / self.num_words if self.num_words else None


def texts_held_out(
    sources: Mapping[str, ParquetDataset], num_bytes: int, seed: int
) -> dict[str, list[str]]:
    """Return some texts of each source, of ``num_bytes`` at most but for the last."""
    return {
        name: some_texts(dataset, num_bytes, seed) for name, dataset in sources.items()
    }


def rates_of(
    tokenizer: Tokenizer, texts: Mapping[str, list[str]]
) -> tuple[TokenRate, ...]:
    """Return what the texts of each source come to."""
    return tuple(rate_of(tokenizer, name, some) for name, some in texts.items())


def rate_of(tokenizer: Tokenizer, source: str, texts: list[str]) -> TokenRate:
    """Return what the texts of one source come to."""
    num_tokens = 0
    for first in range(0, len(texts), BATCH):
        encoded = tokenizer.encode_batch(texts[first : first + BATCH])
        num_tokens += sum(map(len, encoded))
    return TokenRate(
        source=source,
        num_rows=len(texts),
        num_bytes=sum(len(text.encode()) for text in texts),
        num_words=sum(len(text.split()) for text in texts),
        num_tokens=num_tokens,
    )
