"""Convert tiktoken's ranks to a ``tokenizer.json`` that gives equal ids."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pagefeed.errors import InvalidArgumentError


class Encoding(NamedTuple):
    """The rules of an encoding that a file of ranks does not hold."""

    pattern: str
    """Splits texts before bytes are merged."""
    special_tokens: Mapping[str, int]


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTION}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

ENCODINGS: Mapping[str, Encoding] = {
    "gpt2": Encoding(_GPT2, {"<|endoftext|>": 50256}),
    "cl100k_base": Encoding(
        _CL100K,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": Encoding(
        _O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
    ),
}
"""Patterns and special tokens of tiktoken's encodings, by name."""


_SAME = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++"
    r"|\s++$|\s+(?!\S)|\s": _GPT2,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s": _CL100K,
}
"""Patterns of later releases of tiktoken, which engines know in their first form."""
_PIECES = re.compile(
    r"\\[pPxu]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}[+?]?|[?*+][?+]?"
    r"|\(\?[a-z-]+\)|\(\?(?:[a-z-]*:|<?[=!]|>)|.",
    re.DOTALL,
)
"""An escape, class, quantifier, begin of a group, or any other character."""


def _for_tokenizers(pattern: str) -> str:
    """Return a pattern of tiktoken in the syntax of tokenizers, which is Ruby's.

    In Ruby ``$`` is the end of a line, and ``+`` after braces repeats.
    """
    if pattern in _SAME:
        return _SAME[pattern]
    parts: list[str] = []
    last = 0
    groups: list[int] = []
    for piece in _PIECES.findall(pattern):
        if piece[0] in "?*+" or (piece[0] == "{" and len(piece) > 1):
            parts.append(piece)
            if piece.endswith("}+"):
                parts[last:] = ["(?>", *parts[last:-1], piece[:-1], ")"]
            continue
        last = groups.pop() if piece == ")" and groups else len(parts)
        if piece[0] == "(" and piece[-1] != ")":
            groups.append(last)
        parts.append({"$": r"\z", "^": r"\A"}.get(piece, piece))
    return "".join(parts)


def pattern_of(pattern: str) -> str:
    """Return the regular expression of an encoding by its name, or the argument."""
    encoding = ENCODINGS.get(pattern)
    return pattern if encoding is None else encoding.pattern


def parse_ranks(data: bytes, name: str) -> dict[bytes, int]:
    """Read a file of ranks: a line is a token in base64, a space and its rank.

    Raises:
        InvalidArgumentError: Naming the first line of another form.
    """
    ranks: dict[bytes, int] = {}
    for line_number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            # A single "=" is a token without bytes, as in Whisper's files.
            plain = b"" if token == b"=" else base64.b64decode(token, validate=True)
            ranks[plain] = int(rank)
        except (ValueError, binascii.Error) as problem:
            raise InvalidArgumentError(
                f"{name}, line {line_number}: {line[:40]!r} is not a token in base64 "
                "and its rank, as tiktoken writes them"
            ) from problem
    return ranks


def tokenizer_json(ranks: Mapping[bytes, int], encoding: Encoding, name: str) -> str:
    """Return the encoding as a ``tokenizer.json``.

    Raises:
        InvalidArgumentError: If a single byte has no rank, or two tokens share one.
    """
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing or len(set(ranks.values())) < len(ranks):
        raise InvalidArgumentError(
            f"{name} is not a complete set of ranks: "
            + (f"byte {missing[0]} has none" if missing else "two tokens share one")
        )
    text = _letters()
    named = {token: token.decode("latin-1").translate(text) for token in ranks}
    merges = _merges(ranks)
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            _special(token_id, content)
            for content, token_id in sorted(
                encoding.special_tokens.items(), key=lambda item: item[1]
            )
        ],
        "pre_tokenizer": _pre_tokenizer(_for_tokenizers(encoding.pattern)),
        "decoder": _byte_level(use_regex=False),
        "model": {
            "type": "BPE",
            # A piece that is a token is never merged from parts.
            "ignore_merges": True,
            # With special tokens: the library renumbers those that are missing.
            "vocab": {named[token]: rank for token, rank in ranks.items()}
            | dict(encoding.special_tokens),
            "merges": [[named[left], named[right]] for left, right in merges],
        },
    }
    return json.dumps(content)


def _merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Return all pairs of tokens that make a third one, in the order of its rank."""
    merges = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        halves = ((token[:border], token[border:]) for border in range(1, len(token)))
        pairs = [(a, b) for a, b in halves if a in ranks and b in ranks]
        merges += sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    return merges


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    if pattern == _GPT2:
        return _byte_level(use_regex=True)
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "type": "Sequence",
        "pretokenizers": [split, _byte_level(use_regex=False)],
    }


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _special(token_id: int, content: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": True}


def _letters() -> dict[int, int]:
    """Return the letters of bytes in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: 256 + index for index, byte in enumerate(others)}
