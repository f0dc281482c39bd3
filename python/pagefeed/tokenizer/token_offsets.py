"""Places of tokens in a text: from their bytes if that is safe, or from the engine."""

from __future__ import annotations

import json
import threading
import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.tokenizer.tokenizer import Tokenizer

TRIED = 256
"""Lookups for which both ways must agree before bytes alone are used."""
_SPACE = "\u0120"
"""The letter of a space in byte-level vocabularies."""


class TokenOffsets:
    """Finds the tokens of characters in one text.

    In a vocabulary of bytes, the lengths of tokens give their offsets. The engine
    checks these offsets until both have agreed often enough.

    Args:
        tokenizer: The tokenizer of the tokens.
        text: The text.
        ids: Its tokens.
    """

    def __init__(
        self, tokenizer: Tokenizer, text: str, ids: npt.NDArray[np.uint32]
    ) -> None:
        self._tokenizer = tokenizer
        self._text = text
        self._ids = ids
        token_bytes = _bytes_of(tokenizer)
        if token_bytes is not None and token_bytes.takes_nfc:
            token_bytes = (
                token_bytes if unicodedata.is_normalized("NFC", text) else None
            )
        self._bytes = token_bytes
        self._ends: Int64Array | None = None
        self._ranges: Int64Array | None = None

    def token(self, character: int) -> int | None:
        """Return the first token of a character; None if no token has it."""
        byte = len(self._text[:character].encode())
        token_bytes = self._bytes
        if token_bytes is None or token_bytes.is_refuted:
            return self._by_engine(byte)
        guess = self._by_bytes(token_bytes, byte)
        if token_bytes.untried > 0:
            if guess != (exact := self._by_engine(byte)):
                token_bytes.is_refuted = True
                return exact
            with token_bytes.lock:
                token_bytes.untried -= 1
        return guess

    def _by_bytes(self, token_bytes: _Bytes, byte: int) -> int | None:
        if self._ends is None:
            self._ends = np.cumsum(token_bytes.lengths[self._ids], dtype=np.int64)
            if self._ends.size == 0 or self._ends[-1] != len(self._text.encode()):
                self._ends = np.zeros(0, np.int64)
        token = int(np.searchsorted(self._ends, byte, side="right"))
        if token >= len(self._ends):
            return self._by_engine(byte)
        token_id, end = int(self._ids[token]), int(self._ends[token])
        if token == 0 and token_bytes.before[token_id]:
            # The space before a text may be one that the tokenizer adds.
            return self._by_engine(byte)
        leading = byte - (end - int(token_bytes.lengths[token_id]))
        is_trimmed = (
            leading < token_bytes.before[token_id]
            or end - byte <= token_bytes.after[token_id]
        )
        return None if is_trimmed else token

    def _by_engine(self, byte: int) -> int | None:
        if self._ranges is None:
            ranges = self._tokenizer.offsets(self._text)
            self._ranges = np.zeros((0, 2), np.int64) if ranges is None else ranges
        begins, ends = self._ranges[:, 0], self._ranges[:, 1]
        tokens = np.flatnonzero((begins <= byte) & (byte < ends))
        return int(tokens[0]) if len(tokens) else None


class _Bytes:
    """The tokens of a byte-level vocabulary.

    Args:
        vocab_size: Number of tokens.
        takes_nfc: Whether texts are brought into this form first.
    """

    def __init__(self, vocab_size: int, *, takes_nfc: bool) -> None:
        self.lengths: Int64Array
        """Bytes of every token."""
        self.before: Int64Array
        """Leading spaces that do not belong to the token."""
        self.after: Int64Array
        """Trailing spaces that do not belong to the token."""
        self.lengths, self.before, self.after = np.zeros((3, vocab_size), np.int64)
        self.takes_nfc = takes_nfc
        self.lock = threading.Lock()
        self.untried = TRIED
        self.is_refuted = False


@lru_cache(maxsize=4)
def _bytes_of(tokenizer: Tokenizer) -> _Bytes | None:
    """Return the bytes of tokens, if tokens cover exactly the bytes of a text."""
    if tokenizer.kind not in ("tokenizers", "tiktoken"):
        return None
    content = json.loads(tokenizer.to_json())
    model, steps = content["model"], [*_steps_of(content.get("pre_tokenizer"))]
    is_bytes = steps and steps[-1]["type"] == "ByteLevel"
    normalizer = content.get("normalizer")
    is_known = normalizer is None or normalizer == {"type": "NFC"}
    if model.get("type") != "BPE" or not is_bytes or not is_known:
        return None
    if steps[-1].get("add_prefix_space"):
        return None
    afterwards = _steps_of(content.get("post_processor"))
    trims = any(
        step["type"] == "ByteLevel" and step["trim_offsets"] for step in afterwards
    )
    token_bytes = _Bytes(tokenizer.vocab_size, takes_nfc=normalizer is not None)
    for name, token_id in model["vocab"].items():
        token_bytes.lengths[token_id] = len(name)  # A letter is a byte.
        if trims:
            token_bytes.before[token_id] = len(name) - len(name.lstrip(_SPACE))
            token_bytes.after[token_id] = len(name) - len(name.rstrip(_SPACE))
    for token in content.get("added_tokens") or ():
        token_bytes.lengths[token["id"]] = len(token["content"].encode())
        token_bytes.before[token["id"]] = token_bytes.after[token["id"]] = 0
    return token_bytes


def _steps_of(section: Any) -> list[dict[str, Any]]:
    """Yield the steps of a part of a ``tokenizer.json``."""
    if not isinstance(section, dict):
        return []
    inner = section.get("pretokenizers") or section.get("processors")
    return (
        [section]
        if inner is None
        else [step for child in inner for step in _steps_of(child)]
    )
