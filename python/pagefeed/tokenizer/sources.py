"""Recognizes the sources of tokenizers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np

from pagefeed.core._base import require
from pagefeed.core.storage import Storage, is_url, located_exactly, plain_paths
from pagefeed.errors import (
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    shown_path,
)
from pagefeed.parsing import json_value
from pagefeed.remote import StorageOptions
from pagefeed.tokenizer.ranks import (
    ENCODINGS,
    Encoding,
    parse_ranks,
    pattern_of,
    tokenizer_json,
)

WRAPPED = ("enc", "encoding", "tokenizer", "processor", "_tokenizer", "sp_model")
"""Attributes in which a wrapper may keep the tokenizer of a library."""
KNOWN_BY = (
    *("backend_tokenizer", "to_str", "_mergeable_ranks", "serialized_model_proto"),
)
"""Attributes by which objects of known libraries are recognised."""

Encode = Callable[[str], Any]
"""Returns the ids of a text."""


class Definition(NamedTuple):
    """Everything needed to make an equal tokenizer in another process."""

    kind: Literal["tokenizers", "tiktoken", "sentencepiece", "function"]
    name: str
    """Name of the file or object, for messages."""
    data: Any
    """The text of a ``tokenizer.json``, the bytes of a model, or the function."""
    config: Mapping[str, Any] | None = None
    """Chat template and special tokens of ``tokenizer_config.json``."""


def define(
    source: object,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    options: StorageOptions | None = None,
) -> Definition:
    """Recognize a source.

    Args:
        source: The source, as the user gave it.
        pattern: Pattern of tiktoken's ranks.
        special_tokens: Special tokens of tiktoken's ranks.
        options: Settings of remote storage, for a URL.

    Raises:
        InvalidArgumentError: If the kind is unknown, or pattern or tokens are missing,
            or given for another kind than ranks.
        MissingFileError: If the file does not exist.
    """
    if isinstance(source, Definition):  # A tokenizer that is unpickled.
        return source
    if options and not isinstance(source, str | os.PathLike):
        raise InvalidArgumentError(
            f"storage_options are of a URL, found {source!r:.60}: leave them out"
        )
    definition = _defined(source, pattern, special_tokens, options)
    if definition.kind != "tiktoken" and (pattern or special_tokens):
        raise InvalidArgumentError(
            "pattern and special ids go with tiktoken's ranks alone, "
            f"{definition.name} brings its own"
        )
    return definition


def _defined(
    source: Any,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    options: StorageOptions | None,
) -> Definition:
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(source), pattern, special_tokens, options)
    inner = getattr(source, "backend_tokenizer", source)  # From transformers.
    if hasattr(inner, "to_str") and hasattr(inner, "token_to_id"):
        name = f"{type(source).__module__}.{type(source).__name__}"
        config: dict[str, Any] = dict(getattr(source, "special_tokens_map", {}))
        config["chat_template"] = getattr(source, "chat_template", None)
        return Definition("tokenizers", name, inner.to_str(), config)
    if hasattr(source, "_mergeable_ranks"):  # tiktoken.Encoding
        encoding = Encoding(_known_pattern(source), dict(source._special_tokens))  # noqa: SLF001
        if pattern is not None:
            encoding = encoding._replace(pattern=pattern_of(pattern))
        ranks = source._mergeable_ranks  # noqa: SLF001 - it has no other face
        return Definition(
            "tiktoken", source.name, tokenizer_json(ranks, encoding, source.name)
        )
    if hasattr(source, "serialized_model_proto"):
        return Definition("sentencepiece", "model", source.serialized_model_proto())
    for attribute in WRAPPED:  # Classes of training scripts keep a library's object.
        inner = getattr(source, attribute, None)
        if inner is not None and any(hasattr(inner, name) for name in KNOWN_BY):
            return _defined(inner, pattern, special_tokens, options)
    if callable(source):
        name = getattr(source, "__qualname__", type(source).__name__)
        return Definition("function", name, source)
    raise InvalidArgumentError(
        f"{source!r:.60} is not a tokenizer: give the path of a tokenizer.json, of a "
        "SentencePiece .model or of tiktoken's ranks, an object of one of these "
        "libraries, or a function of a text that returns its ids"
    )


def _from_file(
    path: str,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    options: StorageOptions | None,
) -> Definition:
    if path in ENCODINGS:
        raise InvalidArgumentError(
            f"{path!r} is the name of an encoding: give the path of the file with its "
            f"ranks, and pattern={path!r} unless the file is named {path}.tiktoken"
        )
    [path] = plain_paths(path.removeprefix("file://"))
    storage = located_exactly([path], options).storage
    path, data = _file_or_folder(storage, storage.name_of(path).rstrip("/"))
    name = os.path.basename(shown_path(path))
    if data.lstrip()[:1] == b"{":
        config = _configured(storage, path)
        return Definition("tokenizers", name, _text(data, name), config)
    if name.endswith(".tiktoken") or _are_ranks(data):
        return _from_ranks(data, name, pattern, special_tokens)
    return Definition("sentencepiece", name, data)


def _file_or_folder(storage: Storage, path: str) -> tuple[str, bytes]:
    """Return the path and bytes of a file, or of the ``tokenizer.json`` in a folder."""
    inside = f"{path}/tokenizer.json"
    is_bare = is_url(path) and "." not in path.rpartition("/")[2]
    candidates = [inside, path] if is_bare else [path]
    try:
        for candidate in candidates:
            with suppress(MissingFileError):
                return candidate, storage.read_all(candidate)
    except FileAccessError:
        if is_url(path) or path.endswith(".json"):
            raise
        return _file_or_folder(storage, inside)  # It is a folder of this machine.
    raise MissingFileError(
        f"{shown_path(candidates[0])} does not exist: give the path of a "
        "tokenizer.json or its folder, of a SentencePiece .model, or of "
        "tiktoken's ranks"
    ).at(file=candidates[0])


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
    encoding = ENCODINGS.get(pattern or name.removesuffix(".tiktoken"))
    if encoding is None and pattern is None:
        raise InvalidArgumentError(
            f"{name} holds ranks alone: say what texts are split by, "
            f"pattern={' or '.join(map(repr, ENCODINGS))}, or a regular expression"
        )
    ranks = parse_ranks(data, name)
    if encoding is None or len(ranks) > min(encoding.special_tokens.values()):
        # Many vocabularies have the rules of an encoding, with other special tokens.
        encoding = Encoding(
            pattern_of(pattern or "") if encoding is None else encoding.pattern, {}
        )
    if specials is not None:
        encoding = encoding._replace(special_tokens=dict(specials))
    return Definition("tiktoken", name, tokenizer_json(ranks, encoding, name))


def _known_pattern(encoding: Any) -> str:
    """Return the pattern of an encoding, in the syntax of tokenizers if known."""
    known_encoding = ENCODINGS.get(
        "gpt2" if encoding.name in _LIKE_GPT2 else encoding.name
    )
    return str(encoding._pat_str if known_encoding is None else known_encoding.pattern)  # noqa: SLF001


_LIKE_GPT2 = ("gpt2", "r50k_base", "p50k_base", "p50k_edit")


def _configured(storage: Storage, path: str) -> dict[str, Any]:
    """Return special tokens and chat template of files next to tokenizer.json."""
    folder = os.path.dirname(path)
    name = f"{folder}/tokenizer_config.json"
    config: Any = {}
    with suppress(MissingFileError):
        config = json_value(storage.read_all(name), name, kind=InvalidArgumentError)
    if not isinstance(config, dict):
        raise InvalidArgumentError(
            f"{name} holds {type(config).__name__}, expected a JSON object: repair "
            "or remove the file"
        )
    with suppress(MissingFileError):
        name = f"{folder}/chat_template.jinja"
        config["chat_template"] = _text(storage.read_all(name), name)
    tokens = {k: v for k, v in config.items() if k.endswith("_token") and v is not None}
    return {**tokens, "chat_template": config.get("chat_template")}


def content_of(token: object) -> str | None:
    """Return the text of a special token in a configuration; None without one."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None


def sentence_pieces(data: bytes, name: str) -> Any:
    """Load a SentencePiece model.

    Raises:
        InvalidArgumentError: If it is not one.
        MissingDependencyError: If sentencepiece is not installed.
    """
    library = require(
        "sentencepiece", extra="sentencepiece", purpose="a SentencePiece model"
    )
    problem: Exception | None = None
    try:
        if data:
            return library.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError, TypeError) as refused:
        problem = refused
    raise InvalidArgumentError(
        f"{name} is neither a tokenizer.json, nor ranks of tiktoken, nor a "
        "SentencePiece model: give a file of one of these, complete and under its own "
        "name"
    ) from problem


def as_bytes(encode: Encode) -> Callable[[str], bytes]:
    """Wrap a tokenizer function: the data plane takes ids as bytes of uint32."""

    def encoded(text: str) -> bytes:
        ids = np.asarray(encode(text))
        if ids.size and (ids.dtype.kind not in "iu" or ids.ndim != 1):
            raise InvalidArgumentError(
                f"a tokenizer returns a list of whole numbers, not {ids.dtype} "
                f"{list(ids.shape)}"
            )
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 1 << 32:
            raise InvalidArgumentError(f"{int(ids.min())} is not a token id")
        return ids.astype(np.uint32).tobytes()

    return encoded
