"""Tokenizers compared on the same texts, source by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pagefeed.core._base import check_positive, check_whole, parse_bytes
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare.vocabulary.sampling import (
    TextDatasets,
    sources_of,
    texts_of,
    up_to,
)
from pagefeed.prepare.vocabulary.training import TokenRate, counts_of
from pagefeed.tokenizer import TokenIds, Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedSource(TokenRate):
    """Tokens that one tokenizer needs for texts of a source."""

    num_characters: int
    """Unicode characters of the texts."""
    num_whole_words: int
    """Words that are one token, alone or after a space."""
    median_tokens: float
    """Tokens of a text: half have fewer."""
    p99_tokens: float
    """Tokens of a text: 99 of 100 have fewer."""
    num_restored: int | None
    """Texts that decoding gives back; None if the tokenizer cannot decode."""

    @property
    def tokens_per_character(self) -> float | None:
        """Tokens for a character; None without a text."""
        return self.num_tokens / self.num_characters if self.num_characters else None

    @property
    def restored_rate(self) -> float | None:
        """Share of the texts that decoding gives back; None if unknown."""
        restored, most = self.num_restored, self.num_rows
        return None if restored is None or not most else restored / most

    @property
    def whole_word_rate(self) -> float | None:
        """Share of the words that are one token; None without a word."""
        return self.num_whole_words / self.num_words if self.num_words else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedTokenizer:
    """One of several tokenizers, and what it makes of each source."""

    name: str
    """Name of the tokenizer."""
    kind: str
    """Its library, see :attr:`Tokenizer.kind`."""
    vocab_size: int
    """Number of ids."""
    embedding_parameters: int | None
    """Numbers in an embedding of its ids; None if no ``hidden`` was given."""
    sources: tuple[ComparedSource, ...]
    """Its tokens, by source."""


def compare_tokenizers(
    tokenizers: Mapping[str, Tokenizer] | Iterable[Tokenizer],
    datasets: TextDatasets,
    *,
    source_column: str | None = None,
    hidden: int | None = None,
    sample: int | str = "1MiB",
    seed: int = 0,
) -> tuple[ComparedTokenizer, ...]:
    """Return how many tokens each tokenizer needs for the same texts.

    Args:
        tokenizers: Tokenizers by name, or a list of them, whose names differ.
        datasets: A dataset of texts (``pagefeed.parquet(paths, column="text")``), or
            several by their names.
        source_column: A column, or folder, such as ``"lang"``: its values are sources.
        hidden: Width of the model, for the size of its embedding.
        sample: Bytes of text of each source, drawn at random by pages.
        seed: Another seed draws other texts.

    Raises:
        InvalidArgumentError: If an argument is invalid, or there are no texts.
        MissingDependencyError: If pyarrow is not installed.

    Example:
        >>> web = pagefeed.parquet("web/", column="text")  # doctest: +SKIP
        >>> compare_tokenizers(  # doctest: +SKIP
        ...     [Tokenizer("a.json"), Tokenizer("b.json")], web, source_column="lang"
        ... )[0].sources[0].tokens_per_byte
    """
    named = _named(tokenizers)
    width = None if hidden is None else check_positive(hidden, "hidden")
    most = parse_bytes(sample, name="sample")
    seed = check_whole(seed, "seed")
    texts = {
        name: [text for text, _ in up_to(texts_of(dataset, seed=seed), most)]
        for name, dataset in sources_of(datasets, source_column).items()
    }
    if not any(texts.values()):
        raise InvalidArgumentError(f"there are no texts in {', '.join(texts)}")
    return tuple(
        ComparedTokenizer(
            name=name,
            kind=tokenizer.kind,
            vocab_size=tokenizer.vocab_size,
            embedding_parameters=width and width * tokenizer.vocab_size,
            sources=tuple(_compared(tokenizer, *source) for source in texts.items()),
        )
        for name, tokenizer in named.items()
    )


def _named(
    tokenizers: Mapping[str, Tokenizer] | Iterable[Tokenizer],
) -> dict[str, Tokenizer]:
    """Return tokenizers by name."""
    given = tokenizers.items() if isinstance(tokenizers, Mapping) else tokenizers
    pairs = [(e.name, e) if isinstance(e, Tokenizer) else e for e in given]
    is_right = all(isinstance(p, tuple) and isinstance(p[-1], Tokenizer) for p in pairs)
    named = dict(pairs) if is_right else {}
    if not named or len(named) < len(pairs):
        raise InvalidArgumentError(
            f"tokenizers={tokenizers!r:.80} must be tokenizers of different names: "
            "give {'old': pagefeed.Tokenizer('a.json'), 'new': ...}"
        )
    return named


def _compared(
    tokenizer: Tokenizer, source: str, texts: Sequence[str]
) -> ComparedSource:
    ids = tokenizer.encode_batch(texts)
    lengths = [len(own) for own in ids] or [0]
    median, p99 = np.percentile(lengths, [50, 99]).tolist()
    restored = None
    if tokenizer.kind != "function":
        both = zip(ids, texts, strict=True)
        restored = sum(tokenizer.decode(own) == text for own, text in both)
    return ComparedSource(
        **counts_of(tokenizer, source, texts, ids),
        num_characters=sum(map(len, texts)),
        num_whole_words=_whole_words(tokenizer, texts),
        median_tokens=median,
        p99_tokens=p99,
        num_restored=restored,
    )


def _whole_words(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return how many words are one known token."""
    counts = Counter(word for text in texts for word in text.split())

    def is_whole(ids: TokenIds) -> bool:
        return len(ids) == 1 and ids[0] != tokenizer.unknown

    alone = tokenizer.encode_batch([*counts])
    spaced = tokenizer.encode_batch([f" {word}" for word in counts])
    both = zip(counts.values(), alone, spaced, strict=True)
    return sum(n for n, own, other in both if is_whole(own) or is_whole(other))
