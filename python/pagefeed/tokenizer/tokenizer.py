"""The tokenizer: one face over all sources."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed._base import (
    Facts,
    Int64Array,
    check_choice,
    check_positive,
    html_of,
    lazy,
    text_of,
)
from pagefeed.errors import InvalidArgumentError, TokenRangeError, UnsupportedError
from pagefeed.tokenizer.refusal import no_text
from pagefeed.tokenizer.sources import Definition, as_bytes, define, sentence_pieces
from pagefeed.tokenizer.trials import trial_texts

__all__ = ["Tokenizer"]

TokenIds = npt.NDArray[np.uint32]
SpecialTokens = Literal["as_token", "as_text"]

_BEGINS = ("<s>", "<|begin_of_text|>", "<|bos|>", "<bos>", "[CLS]", "<|startoftext|>")
_ENDS = (
    *("</s>", "<|end_of_text|>", "<|endoftext|>", "<|eos|>", "<eos>", "[SEP]"),
    "<|im_end|>",
)
_PROBES = ("", "Hello, world!", " a\tb\n\n 0123", "naïve Ünïcödé 漢字 👩‍💻", "xyz" * 50)
"""Texts whose ids tell one function from another."""


Engine = Literal["auto", "tokenizers"]


class _Settings(NamedTuple):
    """What a tokenizer is pickled as."""

    definition: Definition
    special_tokens: SpecialTokens
    vocab_size: int | None
    eos: int | str | None
    bos: int | str | None
    name: str | None
    engine: Engine


class Tokenizer:
    """Texts to token ids, as the library of the tokenizer gives them.

    No special tokens are added: sequences do that (``Windows(length, eos=tok.eos)``).
    Texts are never cut off or padded, whatever the source says of it.

    Two engines of the data plane encode, on its own threads and without the GIL:
    ``fastokens`` where it has given the same ids as ``tokenizers`` on a fixed set of
    hard texts when the tokenizer is made, and on the first documents; ``tokenizers``
    for all else, see :attr:`engine`. Both encode one document in some thousand for as
    long as it runs: the first difference is an :class:`UnsupportedError`.
    SentencePiece models and functions run in Python, one text at a time.

    Args:
        source: A ``tokenizer.json`` or its folder, a SentencePiece ``.model`` or a file
            of tiktoken's ranks, by its path; an object of ``tokenizers``,
            ``transformers``, ``sentencepiece`` or ``tiktoken``; or a function of a text
            that returns its ids.
        special_tokens: What special tokens written in a text are: ``"as_token"``, or
            ``"as_text"``, as any other characters. By default as the library does it:
            tokens, but text for tiktoken.
        pattern: Of tiktoken's ranks: the name of an encoding with the rules of
            splitting (``"gpt2"``, ``"cl100k_base"``, ``"o200k_base"``), or a regular
            expression.
        special_ids: Of tiktoken's ranks: special tokens and their ids.
        vocab_size: Number of ids; by default one more than the largest. A function
            must have it said.
        eos: End of a document, by its id or name; by default as the source or custom
            has it.
        bos: Begin of one, likewise.
        name: Of a function: what identifies it, so that counts are found again.
        engine: ``"auto"``, or ``"tokenizers"`` to leave ``fastokens`` out.

    Raises:
        InvalidArgumentError: If the source is none of these, or cannot be read.
        MissingFileError: If there is no such file.
        MissingDependencyError: If a SentencePiece model is given, and its package is
            not installed.

    Example:
        >>> tok = Tokenizer("tokenizer.json")  # doctest: +SKIP
        >>> tok.decode(tok.encode("Hello, world!"))  # doctest: +SKIP
        'Hello, world!'
    """

    def __init__(
        self,
        source: object,
        *,
        special_tokens: SpecialTokens | None = None,
        pattern: str | None = None,
        special_ids: Mapping[str, int] | None = None,
        vocab_size: int | None = None,
        eos: int | str | None = None,
        bos: int | str | None = None,
        name: str | None = None,
        engine: Engine = "auto",
    ) -> None:
        check_choice(engine, ("auto", "tokenizers"), "engine")
        definition = define(source, pattern, special_ids)
        is_plain = definition.kind == "tiktoken"
        if special_tokens is None:
            special_tokens = "as_text" if is_plain else "as_token"
        check_choice(special_tokens, ("as_token", "as_text"), "special_tokens")
        if vocab_size is not None:
            check_positive(vocab_size, "vocab_size")
        self._load(
            _Settings(definition, special_tokens, vocab_size, eos, bos, name, engine)
        )

    def _load(self, settings: _Settings) -> None:
        self._settings = settings
        kind, name, data, *_ = settings.definition
        as_text = settings.special_tokens == "as_text"
        self._pieces: Any = None
        if kind in ("tokenizers", "tiktoken"):
            trials = trial_texts if settings.engine == "auto" else None
            self.handle = _core.Tokenizer.from_json(
                data, as_text=as_text, trials=trials
            )
            """The tokenizer as the data plane takes it."""
        elif kind == "sentencepiece":
            if settings.special_tokens == "as_text":
                raise InvalidArgumentError(
                    "special_tokens='as_text' is not known for SentencePiece models, "
                    "which take control symbols in a text for text anyhow"
                )
            self._pieces = sentence_pieces(data, name)
            self.handle = _core.Tokenizer.from_function(as_bytes(self._pieces.encode))
        else:
            if settings.vocab_size is None:
                raise InvalidArgumentError(
                    f"a function does not tell its vocabulary: give vocab_size, one "
                    f"more than the largest id that {name} returns"
                )
            self.handle = _core.Tokenizer.from_function(as_bytes(data))
        for given in (settings.eos, settings.bos):  # Told here, not when they are used.
            self._id_of(given, None, ())

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[Any, ...]]:
        """Pickle as what it is made of; a function must pickle itself."""
        return _rebuild, (type(self), self._settings)

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "name": self.name,
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "engine": self.engine,
            "special_tokens": self._settings.special_tokens,
        }

    @property
    def name(self) -> str:
        """Name for people: of a file, of an object, or as it was given."""
        return self._settings.name or self._settings.definition.name

    @property
    def kind(self) -> str:
        """Where it comes from: tokenizers, tiktoken, sentencepiece or function."""
        return self._settings.definition.kind

    @property
    def config(self) -> Mapping[str, Any]:
        """What ``tokenizer_config.json`` says: special tokens, and chat_template."""
        return self._settings.definition.config or {}

    @property
    def takes_special_tokens(self) -> bool:
        """Whether special tokens written in a text are tokens."""
        return self._settings.special_tokens == "as_token"

    @property
    def record(self) -> dict[str, Any]:
        """What files of its tokens say of it, as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "eos": self.eos,
            "bos": self.bos,
            "special_ids": self.special_ids,
        }

    @property
    def engine(self) -> str:
        """What encodes: ``"fastokens"``, ``"tokenizers"`` or ``"python"``."""
        return self.handle.engine()[0]

    @property
    def engine_reason(self) -> str:
        """Why this engine encodes, in words."""
        return self.handle.engine()[1]

    def to_json(self) -> str:
        """Return the ``tokenizer.json`` that says it.

        Raises:
            UnsupportedError: Of SentencePiece models and functions, which have none.
        """
        definition = self._settings.definition
        if definition.kind in ("tokenizers", "tiktoken"):
            return str(definition.data)
        raise UnsupportedError(
            f"{self.name} is {definition.kind}: no tokenizer.json says the same"
        )

    def replaced(self, content: str) -> Tokenizer:
        """Return a tokenizer of another ``tokenizer.json``, with settings as this one.

        Raises:
            InvalidArgumentError: If it is none.
        """
        definition = self._settings.definition._replace(data=content)
        settings = self._settings._replace(definition=definition, vocab_size=None)
        return _rebuild(type(self), settings)

    @lazy
    def vocab_size(self) -> int:
        """Number of ids: one more than the largest, or as it was given."""
        if self._settings.vocab_size is not None:
            return self._settings.vocab_size
        if self._pieces is not None:
            return int(self._pieces.vocab_size())
        return self.handle.vocab_size

    @lazy
    def special_ids(self) -> dict[str, int]:
        """Special tokens and their ids, by rising ids."""
        if self._pieces is not None:
            return {
                self._pieces.id_to_piece(number): number
                for number in range(self.vocab_size)
                if self._pieces.is_control(number) or self._pieces.is_unknown(number)
            }
        if self.kind == "function":
            return {}
        tokens = self.handle.added_tokens()
        return {content: number for number, content, special in tokens if special}

    @lazy
    def eos(self) -> int | None:
        """Id of the token that ends a document; None if there is none."""
        definition = self._settings.definition
        return self._id_of(self._settings.eos, definition.end, _ENDS)

    @lazy
    def bos(self) -> int | None:
        """Id of the token that begins a document; None if there is none."""
        definition = self._settings.definition
        return self._id_of(self._settings.bos, definition.beginning, _BEGINS)

    def _id_of(
        self, given: int | str | None, told: str | None, usual: Iterable[str]
    ) -> int | None:
        if isinstance(given, str):
            found = self._find(given)
            if found is None:
                raise InvalidArgumentError(
                    f"{given!r} is no token of {self.name}; special ones are "
                    f"{list(self.special_ids)[:20]}"
                )
            return found
        if given is not None:
            return int(given)
        if told is not None and self._find(told) is not None:
            return self._find(told)
        known = (self.special_ids.get(name) for name in usual)
        return next((number for number in known if number is not None), None)

    def _find(self, token: str) -> int | None:
        if self._pieces is not None:
            number = int(self._pieces.piece_to_id(token))
            return number if self._pieces.id_to_piece(number) == token else None
        return None if self.kind == "function" else self.handle.token_to_id(token)

    @lazy
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify it: equal wherever it gives equal ids.

        Digest of all that decides on ids; not of names, nor of what merely decodes. Of
        a function: of its name and vocabulary, and the ids of some texts.
        """
        digest = hashlib.blake2b(digest_size=16)
        definition = self._settings.definition
        digest.update(f"1 {self._settings.special_tokens} ".encode())
        if self.kind == "sentencepiece":
            digest.update(b"sentencepiece " + definition.data)
        elif self.kind == "function":
            ids = [self.encode(text).tolist() for text in _PROBES]
            told = ["function", self.name, self.vocab_size, ids]
            digest.update(json.dumps(told).encode())
        else:
            digest.update(self.handle.canonical().encode())
        return digest.hexdigest()

    def encode(self, text: str) -> TokenIds:
        """Return the ids of a text: uint32 [tokens].

        Raises:
            InvalidArgumentError: If it is no text, or holds half of a surrogate pair,
                which no UTF-8 has.
        """
        try:
            return np.frombuffer(self.handle.encode(text), dtype=np.uint32)
        except (TypeError, UnicodeEncodeError) as problem:
            raise no_text([text]) from problem

    def encode_batch(
        self, texts: Sequence[str], *, num_threads: int | None = None
    ) -> list[TokenIds]:
        """Return the ids of several texts, in their order.

        Args:
            texts: Any number of texts.
            num_threads: Threads to use at most; by default one per CPU.

        Returns:
            uint32 [tokens] for each text, read-only parts of one array.

        Raises:
            InvalidArgumentError: As of :meth:`encode`, with the number of the text.
        """
        if num_threads is None:
            num_threads = len(os.sched_getaffinity(0))
        check_positive(num_threads, "num_threads")
        given = [] if isinstance(texts, str) else list(texts)
        if isinstance(texts, str):
            raise InvalidArgumentError("encode_batch takes a list of texts, not a text")
        try:
            ids, counts = self.handle.encode_batch(given, num_threads)
        except (TypeError, UnicodeEncodeError) as problem:
            raise no_text(given) from problem
        ends = np.cumsum(np.frombuffer(counts, dtype=np.uint32), dtype=np.int64)
        numbers = np.frombuffer(ids, dtype=np.uint32)
        borders = itertools.pairwise([0, *ends.tolist()])
        return [numbers[begin:end] for begin, end in borders]

    def places(self, text: str) -> Int64Array | None:
        """Return where in a text each of its tokens comes from.

        Returns:
            Bytes of the text, begin and end: int64 [tokens, 2]. Tokens that are parts
            of one character have all of its bytes. None for SentencePiece models and
            functions, which do not tell.
        """
        if self.engine == "python":
            return None
        found = np.array(self.handle.places(text), dtype=np.int64)
        return found.reshape(-1, 2)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of ids, special tokens included.

        Bytes that are no UTF-8 become U+FFFD.

        Raises:
            TokenRangeError: If an id is not in the vocabulary.
            InvalidArgumentError: Of a function, which only encodes.
        """
        numbers = np.asarray(ids).astype(np.int64).tolist()
        wrong = [number for number in numbers if not 0 <= number < self.vocab_size]
        if wrong:
            raise TokenRangeError(
                f"{wrong[0]} is no token id: {self.name} has 0 to {self.vocab_size - 1}"
            )
        if self._pieces is not None:
            return str(self._pieces.decode(numbers))
        if self.kind == "function":
            raise InvalidArgumentError(f"{self.name} is a function: it only encodes")
        return self.handle.decode(numbers)


def _rebuild(kind: type[Tokenizer], settings: _Settings) -> Tokenizer:
    made = kind.__new__(kind)
    made._load(settings)  # noqa: SLF001 - as the constructor does
    return made
