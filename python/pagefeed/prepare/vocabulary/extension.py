"""Extend tokenizers by frequent words of a domain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pagefeed.core._base import check_positive, check_whole
from pagefeed.core.storage import PathLike
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.parquet_files import ParquetDataset
from pagefeed.prepare.vocabulary.appending import Appending, appending_of
from pagefeed.prepare.vocabulary.recipes import library
from pagefeed.prepare.vocabulary.sampling import (
    Mixing,
    SampledSource,
    TextDatasets,
    drawn,
    sources_of,
)
from pagefeed.prepare.vocabulary.segmentation import best_joins
from pagefeed.prepare.vocabulary.training import (
    TokenRate,
    rates_of,
    texts_held_out,
    write_text,
)
from pagefeed.remote import StorageOptions, checked_output
from pagefeed.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class NewToken:
    """A token that was added."""

    id: int
    """Id of the token."""
    text: str
    """Text of the token, with U+FFFD for parts of characters."""
    gain: int
    """Tokens that it saves in the texts it was chosen by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendedTokenizer:
    """Result of extending a tokenizer: new tokens, and the tokens they save."""

    path: str
    """Path of the new ``tokenizer.json``."""
    vocab_size: int
    """Number of ids."""
    fingerprint: str
    """See :attr:`Tokenizer.fingerprint`."""
    new_tokens: tuple[NewToken, ...]
    """New tokens, by rising ids."""
    sources: tuple[SampledSource, ...]
    """The texts by which it was chosen."""
    before: tuple[TokenRate, ...]
    """Tokens for held-out texts of each source, with the old tokenizer."""
    held_out: tuple[TokenRate, ...]
    """Tokens for held-out texts of each source, with the new tokenizer."""


def extend_tokenizer(
    tokenizer: Tokenizer,
    domain: TextDatasets,
    output: PathLike,
    *,
    new_tokens: int = 2000,
    beside: TextDatasets | None = None,
    source_column: str | None = None,
    temperature: float = 1.0,
    sample: int | str = "256MiB",
    held_out: float = 0.01,
    min_gain: int = 10,
    shuffle: Mixing = "page",
    seed: int = 0,
    storage_options: StorageOptions | None = None,
) -> ExtendedTokenizer:
    """Add the tokens that save the most in the texts of a domain.

    It encodes the words of the domain, as the tokenizer splits texts. Then it repeats
    one step: it joins the two neighbouring tokens whose joining saves the most tokens.

    Existing ids stay. In BPE the new merges come after all others, so a text is encoded
    as before, and then some of its tokens are joined. In Unigram the tokens of a text
    change only if a new piece is part of the best split.

    Args:
        tokenizer: The tokenizer to extend: BPE or Unigram that a ``tokenizer.json`` can
            express, including tiktoken's ranks.
        domain: Texts of the domain: a dataset, or several by their names.
        output: Path of the new ``tokenizer.json``, or its URL in a bucket.
        new_tokens: How many tokens to add at most.
        beside: Other texts, which do not affect the choice. The result says how many
            tokens they take.
        source_column: A column of the domain whose values are sources. For this and the
            next arguments see :func:`train_tokenizer`.
        temperature: How sources are balanced.
        sample: Bytes of text to draw, at most those that there are.
        held_out: Share of the rows that does not affect the choice. The result says how
            many tokens they take, before and after.
        min_gain: Tokens that a new one must save in the sample.
        shuffle: ``"page"`` or ``"row"``.
        seed: Another seed draws and holds out other rows.
        storage_options: Settings of remote storage, for an output there.

    Returns:
        What was added, and what that saves.

    Raises:
        InvalidArgumentError: If an argument is invalid, or there are no texts.
        UnsupportedError: For WordPiece, SentencePiece models and functions, to which no
            token can be added without a change of others.
        MissingDependencyError: If tokenizers or pyarrow are not installed.
        FileAccessError: If the file cannot be written.

    Example:
        >>> law = pagefeed.parquet("law/", column="text")  # doctest: +SKIP
        >>> extend_tokenizer(  # doctest: +SKIP
        ...     Tokenizer("tokenizer.json"), law, "law.json", new_tokens=2000
        ... )
    """
    library()
    if not isinstance(tokenizer, Tokenizer):
        raise InvalidArgumentError(
            f"tokenizer={tokenizer!r:.60} must be a pagefeed.Tokenizer(path)"
        )
    appending = appending_of(tokenizer)
    most_new = check_positive(new_tokens, "new_tokens")
    least = check_whole(min_gain, "min_gain", least=1)
    path = checked_output(output, storage_options, "output")
    texts, others = drawn(
        domain,
        source_column,
        sample=sample,
        held_out=held_out,
        temperature=temperature,
        shuffle=shuffle,
        seed=seed,
    )
    words = _encoded_words(appending, texts)
    joins = best_joins(
        words,
        most_new,
        joined=appending.joined,
        existing=appending.tokens,
        least_gain=least,
    )
    content = appending.appended(joins, sum(len(w) * n for w, n in words.items()))
    measured = _measured(others, beside, seed)
    extended = _checked(json.dumps(content), tokenizer, measured)
    write_text(path, json.dumps(content), storage_options)
    first = appending.first_id
    return ExtendedTokenizer(
        path=path,
        vocab_size=extended.vocab_size,
        fingerprint=extended.fingerprint,
        new_tokens=tuple(
            NewToken(id=first + n, text=extended.decode([first + n]), gain=join.gain)
            for n, join in enumerate(joins)
        ),
        sources=texts.sources,
        before=rates_of(tokenizer, measured),
        held_out=rates_of(extended, measured),
    )


def _encoded_words(
    appending: Appending, texts: Iterable[str]
) -> Mapping[tuple[str, ...], int]:
    """Count each word of the texts, as a tuple of its tokens."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(appending.words(text))
    encoded: Counter[tuple[str, ...]] = Counter()
    for word, count in words.items():
        encoded[appending.encoded(word)] += count
    return encoded


def _measured(
    others: Mapping[str, ParquetDataset], beside: TextDatasets | None, seed: int
) -> dict[str, list[str]]:
    """Held-out texts of the domain, and texts of the other datasets."""
    measured = texts_held_out(others, seed)
    if beside is not None:
        more = texts_held_out(sources_of(beside, None), seed)
        measured |= {f"beside/{name}": texts for name, texts in more.items()}
    return measured


def _checked(
    content: str, before: Tokenizer, texts: Mapping[str, list[str]]
) -> Tokenizer:
    """Return the new tokenizer; check that texts without new tokens keep their ids."""
    extended = before.replaced(content)
    for some in texts.values():
        pairs = zip(before.encode_batch(some), extended.encode_batch(some), strict=True)
        for index, (old, new) in enumerate(pairs):
            is_new = (new >= before.vocab_size).any()
            if not is_new and old.tolist() != new.tolist():
                raise UnsupportedError(
                    f"{before.name} cannot be extended: {some[index]!r:.60} has no "
                    "new token and other ids than before"
                )
    return extended
