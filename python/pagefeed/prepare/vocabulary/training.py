"""Tokenizers trained on texts that are sampled straight from Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from pagefeed.core._base import check_choice, check_number, check_positive, check_whole
from pagefeed.core.storage import PathLike, is_url
from pagefeed.errors import InvalidArgumentError
from pagefeed.parquet_files import ParquetDataset
from pagefeed.prepare.vocabulary.recipes import (
    CHARACTERS,
    SPECIAL_TOKENS,
    UNKNOWN,
    Kind,
    TrainingSettings,
    interruptible,
    library,
    train,
)
from pagefeed.prepare.vocabulary.sampling import (
    MEMORY,
    Mixing,
    SampledSource,
    TextDatasets,
    drawn,
    texts_of,
    up_to,
)
from pagefeed.remote import StorageOptions, checked_output, output_file
from pagefeed.tokenizer import TokenIds, Tokenizer, pattern_of

Units: TypeAlias = Literal["bytes", "characters"]

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
    num_unknown: int
    """Tokens that stand for something unknown, such as ``[UNK]``."""

    @property
    def unknown_rate(self) -> float | None:
        """Share of the tokens that are unknown; None without a token."""
        return self.num_unknown / self.num_tokens if self.num_tokens else None

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
        TokenRate(**counts_of(tokenizer, source, some, tokenizer.encode_batch(some)))
        for source, some in texts.items()
    )


def counts_of(
    tokenizer: Tokenizer, source: str, texts: Sequence[str], ids: Sequence[TokenIds]
) -> dict[str, Any]:
    """Return the counts of a :class:`TokenRate` by their names."""
    unknown = tokenizer.unknown
    return {
        "source": source,
        "num_rows": len(texts),
        "num_bytes": sum(len(text.encode()) for text in texts),
        "num_words": sum(len(text.split()) for text in texts),
        "num_tokens": sum(map(len, ids)),
        "num_unknown": 0
        if unknown is None
        else sum(int((own == unknown).sum()) for own in ids),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedTokenizer:
    """Result of training a tokenizer."""

    path: str
    """Path of the ``tokenizer.json``."""
    model: Kind
    """Kind of the tokenizer."""
    vocab_size: int
    """Number of ids, fewer than asked for if the texts have no more."""
    fingerprint: str
    """See :attr:`Tokenizer.fingerprint`."""
    sources: tuple[SampledSource, ...]
    """Sources of the training texts."""
    held_out: tuple[TokenRate, ...]
    """Tokens for held-out texts of each source."""


def train_tokenizer(
    datasets: TextDatasets,
    output: PathLike,
    *,
    vocab_size: int,
    model: Kind = "bpe",
    units: Units = "bytes",
    source_column: str | None = None,
    temperature: float = 1.0,
    weights: Mapping[str, float] | None = None,
    sample: int | str = "256MiB",
    held_out: float = 0.01,
    special_tokens: Iterable[str] | None = None,
    pattern: str | None = None,
    byte_fallback: bool | None = None,
    character_coverage: float | None = None,
    min_frequency: int = 2,
    shuffle: Mixing = "page",
    seed: int = 0,
    memory: int | str = MEMORY,
    storage_options: StorageOptions | None = None,
) -> TrainedTokenizer:
    """Train a tokenizer on texts drawn at random, by the package ``tokenizers``.

    Texts are read in shuffled order, until each source has given its share. Some rows,
    chosen by a hash, are held out: they show how many tokens new texts become. The same
    files, arguments and seed give the same tokenizer.

    Args:
        datasets: A dataset of texts (``pagefeed.parquet(paths, column="text")``), or
            several by their names.
        output: Path of the ``tokenizer.json``, or its URL in a bucket; it appears when
            it is complete.
        vocab_size: Number of ids, special tokens and bytes included.
        model: ``"bpe"``; ``"wordpiece"``; or ``"unigram"``.
        units: For BPE: ``"bytes"``, or ``"characters"``, as SentencePiece has it.
        source_column: A column, or folder, such as ``"lang"``: its values are sources.
        temperature: Sources of n bytes are drawn in proportion to n ** (1 / T), as
            mixtures do it: 1 is proportional, more is more even. A source that is to
            give more than it has is repeated.
        weights: Share of each source by name, in place of the temperature. All sources
            are named, and 0 leaves one out.
        sample: Bytes of text to draw, at most those that there are.
        held_out: Share of the rows that is not learned from.
        special_tokens: Their names, which take the first ids; by default
            ``<|endoftext|>`` for BPE, and the usual ones of the others.
        pattern: For BPE and Unigram: how texts are split, as the name of one of
            tiktoken's encodings or a regular expression (``"cl100k_base"``; of
            characters ``"o200k_base"``, which keeps marks with their letters).
        byte_fallback: For Unigram and BPE of characters: write characters outside the
            vocabulary as tokens of their bytes, not as unknown (True). BPE of bytes
            always uses bytes, WordPiece never does.
        character_coverage: For all but BPE of bytes: share of all characters that are
            tokens (0.9995).
        min_frequency: For BPE and WordPiece: how often a pair must occur to be merged.
        shuffle: Draws ``"page"`` by page, mixed in a window; or ``"row"`` by row, which
            reads a page for each.
        seed: Another seed draws and holds out other rows.
        memory: Bytes that reading may hold. With less than about 512 MiB, large pages
            are read again.
        storage_options: Settings of remote storage, for an output there.

    Returns:
        What was trained.

    Raises:
        InvalidArgumentError: If an argument is invalid, or there are no texts.
        MissingDependencyError: If tokenizers or pyarrow are not installed.
        FileAccessError: If the file cannot be written.

    Example:
        >>> web = pagefeed.parquet("web/", column="text")  # doctest: +SKIP
        >>> train_tokenizer(  # doctest: +SKIP
        ...     web, "tokenizer.json", vocab_size=32_000, source_column="lang"
        ... ).held_out
    """
    library()
    check_choice(model, get_args(Kind), "model")
    kind = _kind(model, units)
    settings = TrainingSettings(
        kind=kind,
        vocab_size=check_positive(vocab_size, "vocab_size"),
        special_tokens=_special(special_tokens, kind),
        pattern=_pattern(pattern, kind),
        byte_fallback=_fallback(byte_fallback, kind),
        coverage=_coverage(character_coverage, kind),
        min_frequency=check_whole(min_frequency, "min_frequency", least=0),
    )
    path = checked_output(output, storage_options, "output")
    texts, others = drawn(
        datasets,
        source_column,
        sample=sample,
        held_out=held_out,
        temperature=temperature,
        shuffle=shuffle,
        seed=seed,
        weights=weights,
        memory=memory,
    )
    trained = interruptible(lambda: train(settings, texts))
    write_text(path, trained, storage_options)
    options = storage_options if is_url(path) else None
    tokenizer = Tokenizer(path, storage_options=options)
    return TrainedTokenizer(
        path=path,
        model=model,
        vocab_size=tokenizer.vocab_size,
        fingerprint=tokenizer.fingerprint,
        sources=texts.sources,
        held_out=rates_of(tokenizer, texts_held_out(others, seed)),
    )


def write_text(path: str, text: str, options: StorageOptions | None) -> None:
    """Write a file that appears when it is complete."""
    with output_file(path, options, "output") as out:
        out.write(text.encode())


def _kind(model: Kind, units: str) -> str:
    check_choice(units, get_args(Units), "units")
    if units == "bytes":
        return model
    if model != "bpe":
        raise InvalidArgumentError(
            f"units={units!r} is for model='bpe': {model} always works on characters"
        )
    return CHARACTERS


def _special(names: Iterable[str] | None, model: str) -> tuple[str, ...]:
    if names is None:
        return SPECIAL_TOKENS[model]
    tokens = (names,) if isinstance(names, str) else tuple(names)
    wrong = [name for name in tokens if not isinstance(name, str) or not name]
    if wrong or len(set(tokens)) < len(tokens):
        raise InvalidArgumentError(
            f"special_tokens={list(tokens)!r} must be names, each once"
        )
    unknown = UNKNOWN.get(model)
    return tokens if unknown is None or unknown in tokens else (unknown, *tokens)


def _pattern(pattern: str | None, model: str) -> str:
    if pattern is not None and model == "wordpiece":
        raise InvalidArgumentError(
            f"pattern={pattern!r} is for BPE and Unigram: WordPiece splits as BERT does"
        )
    usual = "o200k_base" if model == CHARACTERS else "cl100k_base"
    return pattern_of(pattern or usual)


def _fallback(byte_fallback: bool | None, model: str) -> bool:  # noqa: FBT001
    if model == "wordpiece" and byte_fallback:
        raise InvalidArgumentError(
            "byte_fallback=True: WordPiece has no byte fallback and writes [UNK]; "
            "choose model='unigram', or 'bpe', which is of bytes"
        )
    if model == "bpe" and byte_fallback is False:
        raise InvalidArgumentError(
            "byte_fallback=False: this BPE is of bytes; choose units='characters' for "
            "unknown characters"
        )
    return model in ("unigram", CHARACTERS) and byte_fallback is not False


def _coverage(share: float | None, model: str) -> float:
    if share is None:
        return 0.9995
    if model == "bpe":
        raise InvalidArgumentError(
            f"character_coverage={share!r}: BPE is of bytes, which cover all; leave it "
            "out, or choose units='characters'"
        )
    return check_number(share, "character_coverage", "a share", above=0, most=1)
