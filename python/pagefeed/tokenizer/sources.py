"""What a tokenizer is made of, from whatever a caller has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np

from pagefeed._base import require
from pagefeed.errors import (
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
)
from pagefeed.storage import LocalStorage, local_path
from pagefeed.tokenizer.ranks import ENCODINGS, Encoding, as_json, parse_ranks

__all__ = ["Definition", "Encode", "define", "sentence_pieces"]

Encode = Callable[[str], Any]
"""A function of a text that returns its ids."""


class Definition(NamedTuple):
    """All it takes to make the same tokenizer in another process."""

    kind: Literal["tokenizers", "tiktoken", "sentencepiece", "function"]
    name: str
    """For people: a file, or what an object calls itself."""
    data: Any
    """The text of a ``tokenizer.json``, the bytes of a model, or the function."""
    beginning: str | None = None
    """Name of the token that begins a document, if the source tells."""
    end: str | None = None
    """Name of the token that ends one, likewise."""
    config: Mapping[str, Any] | None = None
    """What ``tokenizer_config.json`` says, of chats and special tokens."""


def define(
    source: object, pattern: str | None, special_tokens: Mapping[str, int] | None
) -> Definition:
    """Recognize a source.

    Raises:
        InvalidArgumentError: If it is none that is known, or pattern and tokens are
            missing, or given where they mean nothing.
        MissingFileError: If it is a file that does not exist.
    """
    found = _defined(source, pattern, special_tokens)
    if found.kind != "tiktoken" and (pattern or special_tokens):
        raise InvalidArgumentError(
            f"pattern and special ids go with tiktoken's ranks alone, {found.name} "
            "brings its own"
        )
    return found


def _defined(
    source: Any,  # noqa: ANN401 - any object of any library
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
) -> Definition:
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(source), pattern, special_tokens)
    inner = getattr(source, "backend_tokenizer", source)  # Of transformers.
    if hasattr(inner, "to_str") and hasattr(inner, "token_to_id"):
        name = f"{type(source).__module__}.{type(source).__name__}"
        config: dict[str, Any] = dict(getattr(source, "special_tokens_map", {}))
        config["chat_template"] = getattr(source, "chat_template", None)
        begin, end = config.get("bos_token"), config.get("eos_token")
        return Definition("tokenizers", name, inner.to_str(), begin, end, config)
    if hasattr(source, "_mergeable_ranks"):  # tiktoken.Encoding
        encoding = Encoding(_known_pattern(source), dict(source._special_tokens))  # noqa: SLF001
        if pattern is not None:
            encoding = encoding._replace(pattern=_pattern(pattern))
        ranks = source._mergeable_ranks  # noqa: SLF001 - it has no other face
        return Definition(
            "tiktoken", source.name, as_json(ranks, encoding, source.name)
        )
    if hasattr(source, "serialized_model_proto"):
        return Definition("sentencepiece", "model", source.serialized_model_proto())
    if callable(source):
        name = getattr(source, "__qualname__", type(source).__name__)
        return Definition("function", name, source)
    raise InvalidArgumentError(
        f"{source!r:.60} is no tokenizer: give the path of a tokenizer.json, of a "
        "SentencePiece .model or of tiktoken's ranks, an object of one of these "
        "libraries, or a function of a text that returns its ids"
    )


def _from_file(
    path: str, pattern: str | None, special_tokens: Mapping[str, int] | None
) -> Definition:
    storage = LocalStorage()
    if path in ENCODINGS:
        raise InvalidArgumentError(
            f"{path!r} names an encoding, whose ranks are a file: give its path, and "
            f"pattern={path!r} unless the file is named {path}.tiktoken"
        )
    path, data = _found(storage, storage.name_of(local_path(path, "source")))
    name = os.path.basename(path)
    if data.lstrip()[:1] == b"{":
        config = _configured(storage, path)
        begin, end = (_content(config.get(f"{name}_token")) for name in ("bos", "eos"))
        return Definition("tokenizers", name, _text(data, name), begin, end, config)
    if name.endswith(".tiktoken") or _are_ranks(data):
        return _from_ranks(data, name, pattern, special_tokens)
    return Definition("sentencepiece", name, data)


def _found(storage: LocalStorage, path: str) -> tuple[str, bytes]:
    """A file, or the ``tokenizer.json`` of a folder."""
    try:
        return path, _read(storage, path)
    except MissingFileError as problem:
        error = MissingFileError(
            f"{path} does not exist: give the path of a tokenizer.json or its folder, "
            "of a SentencePiece .model, or of tiktoken's ranks"
        )
        error.file = path
        raise error from problem
    except FileAccessError:
        if path.endswith(_JSON):
            raise
        return _found(storage, f"{path}{_JSON}")


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise InvalidArgumentError(f"{name} is not UTF-8: {problem}") from problem


def _are_ranks(data: bytes) -> bool:
    """Whether the first line is a token in base64 and a number."""
    parts = data[:1024].split(b"\n", 1)[0].split()
    return len(parts) == 2 and parts[0].isascii() and parts[1].isdigit()


def _from_ranks(
    data: bytes, name: str, pattern: str | None, specials: Mapping[str, int] | None
) -> Definition:
    known = ENCODINGS.get(pattern or name.removesuffix(".tiktoken"))
    if known is None and pattern is None:
        raise InvalidArgumentError(
            f"{name} holds ranks alone: say what texts are split by, "
            f"pattern={' or '.join(map(repr, ENCODINGS))}, or a regular expression"
        )
    ranks = parse_ranks(data, name)
    if known is None or len(ranks) > min(known.special_tokens.values()):
        # Another vocabulary by the same rules, as many have.
        known = Encoding(
            _pattern(pattern or "") if known is None else known.pattern, {}
        )
    if specials is not None:
        known = known._replace(special_tokens=dict(specials))
    return Definition("tiktoken", name, as_json(ranks, known, name))


def _pattern(pattern: str) -> str:
    known = ENCODINGS.get(pattern)
    return pattern if known is None else known.pattern


def _known_pattern(encoding: Any) -> str:  # noqa: ANN401 - tiktoken's
    """The pattern of an encoding; of known ones as tokenizers reads it."""
    known = ENCODINGS.get("gpt2" if encoding.name in _LIKE_GPT2 else encoding.name)
    return str(encoding._pat_str if known is None else known.pattern)  # noqa: SLF001


_JSON = "/tokenizer.json"
_LIKE_GPT2 = ("gpt2", "r50k_base", "p50k_base", "p50k_edit")


def _configured(storage: LocalStorage, path: str) -> dict[str, Any]:
    """What the files beside a tokenizer.json say of special tokens and chats."""
    folder = os.path.dirname(path)
    name = f"{folder}/tokenizer_config.json"
    config: Any = {}
    try:
        with suppress(MissingFileError):
            config = json.loads(_text(_read(storage, name), name))
    except (ValueError, RecursionError) as problem:
        raise InvalidArgumentError(
            f"{name} is no JSON: {problem}; repair or remove it"
        ) from problem
    if not isinstance(config, dict):
        raise InvalidArgumentError(
            f"{name} holds {type(config).__name__}, no object: repair or remove it"
        )
    with suppress(MissingFileError):
        name = f"{folder}/chat_template.jinja"
        config["chat_template"] = _text(_read(storage, name), name)
    known = {k: v for k, v in config.items() if k.endswith("_token") and v is not None}
    return {**known, "chat_template": config.get("chat_template")}


def _read(storage: LocalStorage, path: str) -> bytes:
    return storage.read(path, 0, storage.size(path))


def _content(token: object) -> str | None:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def sentence_pieces(data: bytes, name: str) -> Any:  # noqa: ANN401 - it has no types
    """Load a model of SentencePiece.

    Raises:
        InvalidArgumentError: If it is none.
        MissingDependencyError: If sentencepiece is not installed.
    """
    library = require(
        "sentencepiece", extra="sentencepiece", purpose="a SentencePiece model"
    )
    try:
        return library.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError, TypeError) as problem:
        raise InvalidArgumentError(
            f"{name} is no tokenizer.json, no ranks of tiktoken and no SentencePiece "
            f"model: {problem}"
        ) from problem


def as_bytes(encode: Encode) -> Callable[[str], bytes]:
    """Wrap a function of ids: the data plane takes them as bytes of uint32."""

    def encoded(text: str) -> bytes:
        ids = np.asarray(encode(text))
        if ids.size and (ids.dtype.kind not in "iu" or ids.ndim != 1):
            raise InvalidArgumentError(
                f"a tokenizer returns a list of whole numbers, not {ids.dtype} "
                f"{list(ids.shape)}"
            )
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 1 << 32:
            raise InvalidArgumentError(f"{int(ids.min())} is no token id")
        return ids.astype(np.uint32).tobytes()

    return encoded
