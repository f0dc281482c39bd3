"""Settings and training of tokenizers of each kind, with the same result every time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import Any, Literal, NamedTuple, TypeAlias

from pagefeed.core._base import require
from pagefeed.errors import InvalidArgumentError

Kind: TypeAlias = Literal["bpe", "wordpiece", "unigram"]
CHARACTERS = "bpe of characters"
"""BPE whose units are characters, and the bytes of rare ones."""

SPECIAL_TOKENS: dict[str, tuple[str, ...]] = {
    "bpe": ("<|endoftext|>",),
    "wordpiece": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "unigram": ("<unk>", "<s>", "</s>"),
    CHARACTERS: ("<unk>", "<s>", "</s>"),
}
"""Default special tokens of each kind."""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""Tokens for the bytes of characters that the vocabulary lacks."""

UNKNOWN = {"wordpiece": "[UNK]", "unigram": "<unk>", CHARACTERS: "<unk>"}
"""Tokens without which a kind cannot do."""
_DIGITS = 9
"""Digits of a score that do not depend on the order in which threads add up."""
_STEP = 1e-4
"""Step between the scores that the library gives to letters it kept unasked."""


class TrainingSettings(NamedTuple):
    """Settings of training."""

    kind: str
    """A :data:`Kind`, or ``CHARACTERS``."""
    vocab_size: int
    special_tokens: tuple[str, ...]
    pattern: str
    """Pattern that splits texts, for BPE and Unigram."""
    byte_fallback: bool
    """Whether unknown characters are written as bytes, where the kind is not of bytes.
    """
    coverage: float
    """Share of all characters that are tokens."""
    min_frequency: int
    """Occurrences of a pair before BPE or WordPiece joins it."""


def library() -> Any:
    """Return the package that trains.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    for module in ("models", "trainers", "pre_tokenizers", "normalizers", "decoders"):
        require(f"tokenizers.{module}", extra="tokenizers", purpose="training")
    return require("tokenizers", extra="tokenizers", purpose="training a tokenizer")


def train(settings: TrainingSettings, texts: Iterable[str]) -> str:
    """Train a tokenizer; ``texts`` are iterated once or twice.

    Returns:
        Its ``tokenizer.json``.

    Raises:
        InvalidArgumentError: If the vocabulary is too small for what it must hold.
    """
    return _TRAINERS[settings.kind](settings, texts)


def interruptible(work: Callable[[], str]) -> str:
    """Return what work returns; Ctrl-C ends the wait for it at once.

    The library serves no signals while it trains. Its thread ends with the process.
    """
    results: Queue[tuple[bool, Any]] = Queue()

    def run() -> None:
        try:
            results.put((True, work()))
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            results.put((False, error))

    Thread(target=run, name="pagefeed-training", daemon=True).start()
    while True:
        with suppress(Empty):
            is_done, result = results.get(timeout=0.1)
            break
    if not is_done:
        raise result
    return str(result)


def _bpe(settings: TrainingSettings, texts: Iterable[str]) -> str:
    lib = library()
    before = lib.pre_tokenizers
    tokenizer = lib.Tokenizer(lib.models.BPE())
    by_pattern = before.Split(lib.Regex(settings.pattern), "isolated")
    to_letters = before.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = before.Sequence([by_pattern, to_letters])
    tokenizer.decoder = lib.decoders.ByteLevel()
    _check_room(
        settings, 256 + len(settings.special_tokens), "256 bytes and special tokens"
    )
    trainer = lib.trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        special_tokens=list(settings.special_tokens),
        initial_alphabet=sorted(before.ByteLevel.alphabet()),
        min_frequency=settings.min_frequency,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())


def _characters(settings: TrainingSettings, texts: Iterable[str]) -> str:
    """Train what SentencePiece calls BPE; white space stays as it is."""
    lib = library()
    tokenizer = lib.Tokenizer(lib.models.BPE())
    by_pattern = lib.pre_tokenizers.Split(lib.Regex(settings.pattern), "isolated")
    tokenizer.pre_tokenizer = by_pattern
    tokenizer.decoder = lib.decoders.Sequence(
        [lib.decoders.ByteFallback(), lib.decoders.Fuse()]
    )
    letters, others, plain = _alphabet(settings, texts)
    special = settings.special_tokens
    trainer = lib.trainers.BpeTrainer(
        vocab_size=settings.vocab_size - len(others),
        special_tokens=list(special),
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        min_frequency=settings.min_frequency,
        show_progress=False,
    )
    tokenizer.train_from_iterator(plain, trainer)
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    learned = sorted(model["vocab"], key=model["vocab"].__getitem__)[len(special) :]
    # A text may hold the name of a byte token: no merge may make such a token.
    merges = [
        (left, right)
        for left, right in model["merges"]
        if not {left, right, left + right}.intersection(others)
    ]
    tokens = dict.fromkeys([*special, *others, *learned])
    content["model"] = model | {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": merges,
        "unk_token": UNKNOWN[CHARACTERS],
        "byte_fallback": bool(others),
    }
    return json.dumps(content)


def _wordpiece(settings: TrainingSettings, texts: Iterable[str]) -> str:
    lib = library()
    unknown = UNKNOWN["wordpiece"]
    tokenizer = lib.Tokenizer(lib.models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = lib.normalizers.BertNormalizer(
        lowercase=False, strip_accents=False
    )
    tokenizer.pre_tokenizer = lib.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = lib.decoders.WordPiece()
    words: Counter[str] = Counter()
    for text in texts:
        plain = tokenizer.normalizer.normalize_str(text)
        words.update(
            word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain)
        )
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            counts[letter] += count
    letters = letters_of(counts, settings.coverage)
    inner = {letter for word in words for letter in word[1:]}.intersection(letters)
    # Give them in order: otherwise a hash of words numbers them, and these numbers
    # decide between pairs that are equally frequent.
    first_tokens = [
        *settings.special_tokens,
        *letters,
        *(f"##{c}" for c in sorted(inner)),
    ]
    _check_room(
        settings,
        len(first_tokens),
        "special tokens and letters, at the begin of words and inside",
    )
    trainer = lib.trainers.WordPieceTrainer(
        vocab_size=settings.vocab_size,
        special_tokens=first_tokens,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        min_frequency=settings.min_frequency,
        show_progress=False,
    )
    repeated = (word for word in sorted(words) for _ in range(words[word]))
    tokenizer.train_from_iterator(repeated, trainer)
    content = json.loads(tokenizer.to_str())
    special = set(settings.special_tokens)
    content["added_tokens"] = [
        token for token in content["added_tokens"] if token["content"] in special
    ]
    return json.dumps(content)


def _unigram(settings: TrainingSettings, texts: Iterable[str]) -> str:
    lib = library()
    unknown = UNKNOWN["unigram"]
    tokenizer = lib.Tokenizer(lib.models.Unigram())
    tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence(
        [
            lib.pre_tokenizers.Split(lib.Regex(settings.pattern), "isolated"),
            lib.pre_tokenizers.Metaspace(prepend_scheme="never"),
        ]
    )
    tokenizer.decoder = lib.decoders.Sequence(
        [
            lib.decoders.Replace("▁", " "),
            lib.decoders.ByteFallback(),
            lib.decoders.Fuse(),
        ]
    )
    _, others, plain = _alphabet(settings, texts)
    trainer = lib.trainers.UnigramTrainer(
        vocab_size=settings.vocab_size - len(others),
        special_tokens=list(settings.special_tokens),
        unk_token=unknown,
        show_progress=False,
    )
    tokenizer.train_from_iterator(plain, trainer)
    content = json.loads(tokenizer.to_str())
    content["model"] |= _even_scores(content["model"], settings.special_tokens, others)
    return json.dumps(content)


def _even_scores(
    model: dict[str, Any], special: tuple[str, ...], others: tuple[str, ...]
) -> dict[str, Any]:
    """Return the vocabulary of Unigram with an order and scores that never change.

    Letters that no text needs have the lowest score.
    """
    scored = [(piece, score) for piece, score in model["vocab"] if piece not in special]
    least = min(score for _, score in scored)

    def even(piece: str, score: float) -> float:
        steps = (score - least) / _STEP
        is_kept = len(piece) == 1 and abs(steps - round(steps)) < 1e-3
        is_kept &= steps < len(scored)
        return round(least if is_kept else score, _DIGITS)

    pieces = [(piece, even(piece, score)) for piece, score in scored]
    pieces.sort(key=lambda pair: (-pair[1], pair[0]))
    before = [(piece, 0.0) for piece in (*special, *others)]
    unknown = special.index(UNKNOWN["unigram"])
    return {
        "vocab": [*before, *pieces],
        "unk_id": unknown,
        "byte_fallback": bool(others),
    }


def letters_of(counts: Counter[str], coverage: float) -> list[str]:
    """Return the most frequent characters that make up a share of all, in order.

    Example:
        >>> letters_of(Counter(a=90, b=9, c=1), 0.99)
        ['a', 'b']
    """
    least, covered, letters = coverage * counts.total(), 0, list[str]()
    for letter, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if covered >= least:
            break
        covered += count
        letters.append(letter)
    return sorted(letters)


def _alphabet(
    settings: TrainingSettings, texts: Iterable[str]
) -> tuple[list[str], tuple[str, ...], Iterator[str]]:
    """Return characters and bytes that are tokens, and texts without other characters.

    Spaces take the place of these.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    letters = letters_of(counts, settings.coverage)
    others = BYTES if settings.byte_fallback else ()
    least = len(settings.special_tokens) + len(others) + len(letters)
    _check_room(settings, least, "special tokens, bytes and letters")
    rare = dict.fromkeys(map(ord, set(counts).difference(letters)), " ")
    return letters, others, (text.translate(rare) for text in texts)


def _check_room(settings: TrainingSettings, least: int, what: str) -> None:
    if settings.vocab_size <= least:
        raise InvalidArgumentError(
            f"vocab_size={settings.vocab_size} is too small: {what} alone are "
            f"{least:,}; give more, or a lower character_coverage where there is one"
        )


_TRAINERS: dict[str, Callable[[TrainingSettings, Iterable[str]], str]] = {
    "bpe": _bpe,
    CHARACTERS: _characters,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
}
