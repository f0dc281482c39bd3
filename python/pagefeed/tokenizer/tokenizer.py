"""The tokenizer, for all sources."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import (
    Facts,
    Int64Array,
    check_choice,
    check_positive,
    check_vocab_size,
    lazy,
    num_processors,
    text_of,
)
from pagefeed.errors import InvalidArgumentError, TokenRangeError, UnsupportedError
from pagefeed.remote import StorageOptions
from pagefeed.tokenizer.sources import (
    as_bytes,
    content_of,
    define,
    sentence_pieces,
)
from pagefeed.tokenizer.trials import trial_texts

TokenIds = npt.NDArray[np.uint32]
SpecialTokens = Literal["as_token", "as_text"]

_BEGINS = ("<s>", "<|begin_of_text|>", "<|bos|>", "<bos>", "[CLS]", "<|startoftext|>")
_ENDS = (
    *("</s>", "<|end_of_text|>", "<|endoftext|>", "<|eos|>", "<eos>", "[SEP]"),
    "<|im_end|>",
)
_PROBES = ("", "Hello, world!", " a\tb\n\n 0123", "naïve Ünïcödé 漢字 👩‍💻", "xyz" * 50)
"""Texts whose ids identify a function."""


Engine = Literal["auto", "tokenizers"]


class Tokenizer:
    """Encodes texts as token ids, the same ids that the tokenizer's library gives.

    It adds no special tokens: sequences do that (``Windows(length, eos=tok.eos)``). It
    never truncates or pads, even if the source says so.

    The data plane has two engines, which run on its own threads without the GIL.
    ``fastokens`` encodes if it gives the same ids as ``tokenizers`` for a fixed set of
    hard texts and for the first documents; otherwise ``tokenizers`` does, see
    :attr:`engine`. Afterwards both encode one document in some thousand; the first
    difference is an :class:`UnsupportedError`. SentencePiece models and functions run
    in Python, one text at a time.

    Args:
        source: A ``tokenizer.json`` or its folder, a SentencePiece ``.model`` or a file
            of tiktoken's ranks, by its path or URL; an object of ``tokenizers``,
            ``transformers``, ``sentencepiece`` or ``tiktoken``; or a function of a text
            that returns its ids.
        special_tokens: ``"as_token"`` encodes special tokens in a text as tokens,
            ``"as_text"`` like any other characters. The default is that of the library:
            text for tiktoken, tokens elsewhere.
        pattern: For tiktoken's ranks: the name of an encoding that splits texts alike
            (``"gpt2"``, ``"cl100k_base"``, ``"o200k_base"``), or a regular expression.
        special_ids: For tiktoken's ranks: special tokens and their ids.
        vocab_size: Number of ids; by default one more than the largest. Required for a
            function.
        eos: Token that ends a document, by id or name; by default that of the source,
            or one with a usual name.
        bos: Token that begins a document, likewise.
        name: Identifies a function, so that counts of its tokens are found again.
        engine: ``"auto"``, or ``"tokenizers"`` to leave ``fastokens`` out.
        storage_options: For a URL: settings of remote storage, as of a dataset.

    Raises:
        InvalidArgumentError: If the source is unknown, or cannot be read.
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
        storage_options: StorageOptions | None = None,
    ) -> None:
        check_choice(engine, ("auto", "tokenizers"), "engine")
        self._definition = define(source, pattern, special_ids, storage_options)
        kind, source_name, data, *_ = self._definition
        self.kind: str = kind
        """Library of the tokenizer: tokenizers, tiktoken, sentencepiece or function."""
        if special_tokens is None:
            special_tokens = "as_text" if kind == "tiktoken" else "as_token"
        check_choice(special_tokens, ("as_token", "as_text"), "special_tokens")
        self.takes_special_tokens = special_tokens == "as_token"
        """Whether special tokens written in a text are tokens."""
        self._vocab_size = check_vocab_size(vocab_size)
        self.name = name or source_name
        """Name for messages: as given, else that of the file or object."""
        self._settings: dict[str, Any] = {
            "special_tokens": special_tokens,
            "vocab_size": vocab_size,
            "eos": eos,
            "bos": bos,
            "name": name,
            "engine": engine,
        }
        self._pieces: Any = None
        self.handle = self._loaded(data)
        """The tokenizer as the data plane takes it."""
        for role in ("eos", "bos"):  # A wrong one is an error now, not when it is used.
            self._id_of(role, ())

    def _loaded(self, data: Any) -> _core.Tokenizer:
        as_text = not self.takes_special_tokens
        if self.kind in ("tokenizers", "tiktoken"):
            trials = trial_texts if self._settings["engine"] == "auto" else None
            return _core.Tokenizer.from_json(data, as_text=as_text, trials=trials)
        if self.kind == "sentencepiece":
            if as_text:
                raise InvalidArgumentError(
                    "special_tokens='as_text' is not for SentencePiece models, which "
                    "encode control symbols in a text as text anyhow: leave it out"
                )
            self._pieces = sentence_pieces(data, self._definition.name)
            return _core.Tokenizer.from_function(as_bytes(self._pieces.encode))
        if self._vocab_size is None:
            raise InvalidArgumentError(
                "a function does not tell its number of ids: give vocab_size, one more "
                f"than the largest id that {self._definition.name} returns"
            )
        return _core.Tokenizer.from_function(as_bytes(data))

    def __reduce__(self) -> tuple[Callable[[], Tokenizer], tuple[()]]:
        """Pickle as its arguments; a function must be picklable."""
        return partial(type(self), self._definition, **self._settings), ()

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "name": self.name,
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "engine": self.engine,
            "special_tokens": self._settings["special_tokens"],
        }

    @property
    def config(self) -> Mapping[str, Any]:
        """Special tokens and chat template of ``tokenizer_config.json``."""
        return self._definition.config or {}

    @property
    def record(self) -> dict[str, Any]:
        """The record of the tokenizer in files of its tokens, as JSON types."""
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
        """Engine that encodes: ``"fastokens"``, ``"tokenizers"`` or ``"python"``."""
        return self.handle.engine()[0]

    @property
    def engine_reason(self) -> str:
        """Why this engine encodes."""
        return self.handle.engine()[1]

    def to_json(self) -> str:
        """Return the ``tokenizer.json`` of the tokenizer.

        Raises:
            UnsupportedError: For SentencePiece models and functions, which have none.
        """
        if self.kind in ("tokenizers", "tiktoken"):
            return str(self._definition.data)
        raise UnsupportedError(
            f"{self.name} is {self.kind}: no tokenizer.json can express it"
        )

    def replaced(self, content: str) -> Tokenizer:
        """Return a tokenizer with equal settings and another ``tokenizer.json``.

        Raises:
            InvalidArgumentError: If it is not a valid ``tokenizer.json``.
        """
        settings = self._settings | {"vocab_size": None}
        return type(self)(self._definition._replace(data=content), **settings)

    @lazy
    def vocab_size(self) -> int:
        """Number of ids: the given number, or one more than the largest id."""
        if self._vocab_size is not None:
            return self._vocab_size
        if self._pieces is not None:
            return int(self._pieces.vocab_size())
        return self.handle.vocab_size

    @lazy
    def special_ids(self) -> dict[str, int]:
        """Special tokens and their ids, in the order of ids."""
        if self._pieces is not None:
            return {
                self._pieces.id_to_piece(token_id): token_id
                for token_id in range(self.vocab_size)
                if self._pieces.is_control(token_id)
                or self._pieces.is_unknown(token_id)
            }
        if self.kind == "function":
            return {}
        tokens = self.handle.added_tokens()
        return {content: token_id for token_id, content, special in tokens if special}

    @lazy
    def eos(self) -> int | None:
        """Id of the token that ends a document; None if there is none."""
        return self._id_of("eos", _ENDS)

    @lazy
    def bos(self) -> int | None:
        """Id of the token that begins a document; None if there is none."""
        return self._id_of("bos", _BEGINS)

    @lazy
    def unknown(self) -> int | None:
        """Id of the unknown token, such as ``[UNK]``; None if there is none."""
        if self._pieces is not None:
            return int(self._pieces.unk_id())
        if self.kind != "tokenizers":
            return None
        model = json.loads(self.to_json())["model"]
        if model["type"] == "Unigram":
            unknown: int | None = model.get("unk_id")
            return unknown
        token = model.get("unk_token")
        return None if token is None else self._find(token)

    def _id_of(self, name: str, usual: Iterable[str]) -> int | None:
        """Return the id of a token as given, of the source, or of a usual name."""
        given = self._settings[name]
        if isinstance(given, str):
            token_id = self._find(given)
            if token_id is None:
                raise InvalidArgumentError(
                    f"{given!r} is not a token of {self.name}; special ones are "
                    f"{list(self.special_ids)[:20]}"
                )
            return token_id
        if given is not None:
            return int(given)
        configured = content_of(self.config.get(f"{name}_token"))
        if configured is not None and (token_id := self._find(configured)) is not None:
            return token_id
        usual_ids = (self.special_ids.get(name) for name in usual)
        return next((usual_id for usual_id in usual_ids if usual_id is not None), None)

    def _find(self, token: str) -> int | None:
        if self.kind == "function":
            return None
        try:
            token.encode()
        except UnicodeEncodeError:  # No vocabulary has half of a surrogate pair.
            return None
        if self._pieces is not None:
            token_id = int(self._pieces.piece_to_id(token))
            return token_id if self._pieces.id_to_piece(token_id) == token else None
        return self.handle.token_to_id(token)

    @lazy
    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal for tokenizers with equal ids.

        A digest of everything that decides on ids, without names and decoders. For a
        function: a digest of its name, vocabulary size and the ids of some texts.
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"1 {self._settings['special_tokens']} ".encode())
        if self.kind == "sentencepiece":
            digest.update(b"sentencepiece " + self._definition.data)
        elif self.kind == "function":
            ids = [self.encode(text).tolist() for text in _PROBES]
            facts = ["function", self.name, self.vocab_size, ids]
            digest.update(json.dumps(facts).encode())
        else:
            digest.update(self.handle.canonical().encode())
        return digest.hexdigest()

    def encode(self, text: str) -> TokenIds:
        """Return the ids of a text: uint32 [tokens].

        Raises:
            InvalidArgumentError: If it is not text, or has half of a surrogate pair,
                which UTF-8 cannot encode.
        """
        try:
            return np.frombuffer(self.handle.encode(text), dtype=np.uint32)
        except (TypeError, UnicodeEncodeError) as problem:
            raise _no_text([text]) from problem

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
            num_threads = num_processors()
        check_positive(num_threads, "num_threads")
        if isinstance(texts, str):
            raise InvalidArgumentError(
                "encode_batch takes a list of texts, found one text: write "
                "encode_batch([text]), or encode(text)"
            )
        given = list(texts)
        try:
            ids, counts = self.handle.encode_batch(given, num_threads)
        except (TypeError, UnicodeEncodeError) as problem:
            raise _no_text(given) from problem
        ends = np.cumsum(np.frombuffer(counts, dtype=np.uint32), dtype=np.int64)
        numbers = np.frombuffer(ids, dtype=np.uint32)
        borders = itertools.pairwise([0, *ends.tolist()])
        return [numbers[begin:end] for begin, end in borders]

    def offsets(self, text: str) -> Int64Array | None:
        """Return the range of characters of each token in a text.

        Returns:
            Begin and end in bytes of the text: int64 [tokens, 2]. Tokens that are parts
            of one character have all of its bytes. None for SentencePiece models and
            functions, which do not tell.
        """
        if self.engine == "python":
            return None
        ranges = np.array(self.handle.offsets(text), dtype=np.int64)
        return ranges.reshape(-1, 2)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of ids, special tokens included.

        Bytes that are not UTF-8 become U+FFFD.

        Raises:
            TokenRangeError: If an id is not in the vocabulary.
            InvalidArgumentError: For a function, which cannot decode.
        """
        numbers = np.asarray(ids).astype(np.int64).tolist()
        wrong = [
            token_id for token_id in numbers if not 0 <= token_id < self.vocab_size
        ]
        if wrong:
            raise TokenRangeError(
                f"{wrong[0]} is not a token id: {self.name} has 0 to "
                f"{self.vocab_size - 1}"
            )
        if self._pieces is not None:
            return str(self._pieces.decode(numbers))
        if self.kind == "function":
            raise InvalidArgumentError(f"{self.name} is a function: it only encodes")
        return self.handle.decode(numbers)


def require_tokenizer(value: object) -> Tokenizer:
    """Return a tokenizer.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    if isinstance(value, Tokenizer):
        return value
    raise InvalidArgumentError(
        f"tokenizer={value!r:.60} is not a Tokenizer: give pagefeed.Tokenizer(...) of "
        "a tokenizer.json, a model, or a function"
    )


def _no_text(texts: Sequence[object]) -> InvalidArgumentError:
    """Return the error of the first item that is not text."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            return InvalidArgumentError(
                f"text {index} is {type(text).__name__}, not str: decode bytes first"
            )
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            return InvalidArgumentError(
                f"text {index} is not Unicode text: {problem}; read it with "
                "errors='replace', or leave it out"
            )
    return InvalidArgumentError("texts must be a list of str")
