"""Places of tokens in a text: from their bytes if that is safe, or from the engine."""

from __future__ import annotations

import json
import threading
import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, lazy
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
        self._by_engine: Int64Array | None = None

    def tokens(self, begin: int, end: int) -> tuple[int, int]:
        """Return the range of tokens that hold any of some characters; it may be empty.

        Args:
            begin: The first character.
            end: The character after the last one.
        """
        first = len(self._text[:begin].encode())
        stop = first + len(self._text[begin:end].encode())
        known, ranges = self._bytes, self._of_bytes
        if known is None or known.is_refuted or ranges is None:
            return _overlapping(self._of_engine(), first, stop)
        guess = _overlapping(ranges, first, stop)
        if known.untried > 0:
            exact = _overlapping(self._of_engine(), first, stop)
            if guess != exact:
                known.is_refuted = True
                return exact
            with known.lock:
                known.untried -= 1
        return guess

    @lazy
    def _of_bytes(self) -> Int64Array | None:
        """First and last byte of each token; None if its bytes do not say."""
        known, ids = self._bytes, self._ids
        # The tokenizer may have added the space before a text.
        if known is None or not len(ids) or known.before[ids[0]]:
            return None
        ends = np.cumsum(known.lengths[ids], dtype=np.int64)
        if ends[-1] != len(self._text.encode()):
            return None
        begins = np.minimum(ends - known.lengths[ids] + known.before[ids], ends)
        return np.stack([begins, np.maximum(ends - known.after[ids], begins)])

    def _of_engine(self) -> Int64Array:
        if self._by_engine is None:
            ranges = self._tokenizer.offsets(self._text)
            empty = np.zeros((2, 0), np.int64)
            self._by_engine = empty if ranges is None else ranges.T
        return self._by_engine


def _overlapping(ranges: Int64Array, first: int, stop: int) -> tuple[int, int]:
    """Return the range of tokens with any byte from ``first`` to ``stop``."""
    begins, ends = ranges
    tokens = np.flatnonzero((ends > first) & (begins < stop))
    return (int(tokens[0]), int(tokens[-1]) + 1) if len(tokens) else (0, 0)


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
