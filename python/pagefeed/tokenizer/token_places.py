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

__all__ = ["TokenPlaces"]

TRIED = 256
"""Lookups for which both ways must agree before bytes alone are used."""
_SPACE = "\u0120"
"""The letter of a space in byte-level vocabularies."""


class TokenPlaces:
    """Finds the tokens of characters in one text.

    In a vocabulary of bytes, the lengths of tokens give their places. The engine checks
    these places until both have agreed often enough.

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
        known = _bytes_of(tokenizer)
        if known is not None and known.takes_nfc:
            known = known if unicodedata.is_normalized("NFC", text) else None
        self._bytes = known
        self._ends: Int64Array | None = None
        self._told: Int64Array | None = None

    def token(self, place: int) -> int | None:
        """Return the first token of a character; None if no token has it."""
        byte = len(self._text[:place].encode())
        known = self._bytes
        if known is None or known.is_refuted:
            return self._as_told(byte)
        found = self._by_bytes(known, byte)
        if known.untried > 0:
            if found != (told := self._as_told(byte)):
                known.is_refuted = True
                return told
            with known.lock:
                known.untried -= 1
        return found

    def _by_bytes(self, known: _Bytes, byte: int) -> int | None:
        if self._ends is None:
            self._ends = np.cumsum(known.lengths[self._ids], dtype=np.int64)
            if self._ends.size == 0 or self._ends[-1] != len(self._text.encode()):
                self._ends = np.zeros(0, np.int64)
        token = int(np.searchsorted(self._ends, byte, side="right"))
        if token >= len(self._ends):
            return self._as_told(byte)
        number, end = int(self._ids[token]), int(self._ends[token])
        if token == 0 and known.before[number]:
            # The space before a text may be one that the tokenizer adds.
            return self._as_told(byte)
        leading = byte - (end - int(known.lengths[number]))
        is_trimmed = leading < known.before[number] or end - byte <= known.after[number]
        return None if is_trimmed else token

    def _as_told(self, byte: int) -> int | None:
        if self._told is None:
            told = self._tokenizer.places(self._text)
            self._told = np.zeros((0, 2), np.int64) if told is None else told
        begins, ends = self._told[:, 0], self._told[:, 1]
        found = np.flatnonzero((begins <= byte) & (byte < ends))
        return int(found[0]) if len(found) else None


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
    told = json.loads(tokenizer.to_json())
    model, steps = told["model"], [*_each(told.get("pre_tokenizer"))]
    is_bytes = steps and steps[-1]["type"] == "ByteLevel"
    normalizer = told.get("normalizer")
    is_known = normalizer is None or normalizer == {"type": "NFC"}
    if model.get("type") != "BPE" or not is_bytes or not is_known:
        return None
    if steps[-1].get("add_prefix_space"):
        return None
    afterwards = _each(told.get("post_processor"))
    trims = any(
        one["type"] == "ByteLevel" and one["trim_offsets"] for one in afterwards
    )
    found = _Bytes(tokenizer.vocab_size, takes_nfc=normalizer is not None)
    for name, number in model["vocab"].items():
        found.lengths[number] = len(name)  # A letter is a byte.
        if trims:
            found.before[number] = len(name) - len(name.lstrip(_SPACE))
            found.after[number] = len(name) - len(name.rstrip(_SPACE))
    for token in told.get("added_tokens") or ():
        found.lengths[token["id"]] = len(token["content"].encode())
        found.before[token["id"]] = found.after[token["id"]] = 0
    return found


def _each(part: Any) -> list[dict[str, Any]]:
    """Yield the steps of a part of a ``tokenizer.json``."""
    if not isinstance(part, dict):
        return []
    inner = part.get("pretokenizers") or part.get("processors")
    return [part] if inner is None else [step for one in inner for step in _each(one)]
