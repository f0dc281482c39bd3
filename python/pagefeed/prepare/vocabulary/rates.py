"""Numbers of tokens that a tokenizer needs for the texts of each source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pagefeed.parquet_files import ParquetDataset
from pagefeed.prepare.vocabulary.sampling import texts_of, up_to
from pagefeed.tokenizer import Tokenizer

__all__ = ["TokenRate", "rates_of", "texts_held_out"]

HELD_OUT_BYTES = 1 << 20
"""Bytes of held-out texts that are encoded for each source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRate:
    """Texts of a source, and the tokens they need."""

    source: str
    """Name of the source."""
    num_rows: int
    """Number of texts."""
    num_bytes: int
    """Bytes of their UTF-8."""
    num_words: int
    """Runs of characters between white space."""
    num_tokens: int
    """Tokens of the texts."""

    @property
    def tokens_per_byte(self) -> float | None:
        """Tokens for a byte; None without a text."""
        return self.num_tokens / self.num_bytes if self.num_bytes else None

    @property
    def tokens_per_word(self) -> float | None:
        """Tokens for a word; None without a word."""
        return self.num_tokens / self.num_words if self.num_words else None


def texts_held_out(
    sources: Mapping[str, ParquetDataset], seed: int
) -> dict[str, list[str]]:
    """Return held-out texts of each source, drawn by pages."""
    return {
        name: [text for text, _ in up_to(texts_of(dataset, seed=seed), HELD_OUT_BYTES)]
        for name, dataset in sources.items()
    }


def rates_of(
    tokenizer: Tokenizer, texts: Mapping[str, list[str]]
) -> tuple[TokenRate, ...]:
    """Return the number of tokens for the texts of each source."""
    return tuple(
        TokenRate(
            source=source,
            num_rows=len(some),
            num_bytes=sum(len(text.encode()) for text in some),
            num_words=sum(len(text.split()) for text in some),
            num_tokens=sum(map(len, tokenizer.encode_batch(some))),
        )
        for source, some in texts.items()
    )
