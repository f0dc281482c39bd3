"""Where in a text its tokens lie: by their bytes where that is sure, else as told."""

from __future__ import annotations

import json
import threading
import unicodedata
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = ["TokenPlaces"]

TRIED = 256
"""Borders that are looked up both ways before bytes alone are believed."""
_SPACE = "\u0120"
"""A space, as byte-level vocabularies write it."""


class TokenPlaces:
    """The tokens of one text by its characters.

    Of a vocabulary of bytes the lengths of tokens tell where they lie. As with fast
    engines, it is held against what the library tells until both agreed often enough.

    Args:
        tokenizer: What made the tokens.
        text: Of which text.
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
        """Return the first token that has a character; None if none has it."""
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
            return self._as_told(
                byte
            )  # What is in front of a text may be a space added.
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
    """The tokens of a byte-level vocabulary."""

    def __init__(self, sizes: _Sizes, *, takes_nfc: bool) -> None:
        self.lengths, self.before, self.after = sizes
        self.takes_nfc = takes_nfc
        """Texts are brought into this form first."""
        self.lock = threading.Lock()
        self.untried = TRIED
        self.is_refuted = False


class _Sizes(NamedTuple):
    """Bytes of every token; spaces before and after that do not count as its place."""

    lengths: Int64Array
    before: Int64Array
    after: Int64Array


@lru_cache(maxsize=4)
def _bytes_of(tokenizer: Tokenizer) -> _Bytes | None:
    """The tokens' bytes, if texts are cut into nothing but their own."""
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
    sizes = _Sizes(*(np.zeros(tokenizer.vocab_size, np.int64) for _ in range(3)))
    for name, number in model["vocab"].items():
        sizes.lengths[number] = len(name)  # Each letter stands for a byte.
        if trims:
            sizes.before[number] = len(name) - len(name.lstrip(_SPACE))
            sizes.after[number] = len(name) - len(name.rstrip(_SPACE))
    for token in told.get("added_tokens") or ():
        sizes.lengths[token["id"]] = len(token["content"].encode())
        sizes.before[token["id"]] = sizes.after[token["id"]] = 0
    return _Bytes(sizes, takes_nfc=normalizer is not None)


def _each(part: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """The steps of a part of a ``tokenizer.json``."""
    if not isinstance(part, dict):
        return []
    inner = part.get("pretokenizers") or part.get("processors")
    return [part] if inner is None else [step for one in inner for step in _each(one)]
