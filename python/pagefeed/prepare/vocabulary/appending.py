"""Add tokens to a tokenizer of each kind, without changing its other tokens."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pagefeed.errors import UnsupportedError
from pagefeed.prepare.vocabulary.recipes import BYTES, library
from pagefeed.prepare.vocabulary.segmentation import Join
from pagefeed.tokenizer import Tokenizer

MARGIN = 0.1
"""Score of a new Unigram piece, above that of the two pieces it joins."""


def appending_of(tokenizer: Tokenizer) -> Appending:
    """Return the way to add tokens to a tokenizer.

    Raises:
        UnsupportedError: If nothing can be added to a tokenizer of this kind.
    """
    content = json.loads(tokenizer.to_json())
    kind = content["model"]["type"]
    if kind == "WordPiece":
        raise UnsupportedError(
            f"{tokenizer.name} is WordPiece, which takes the longest token that a word "
            "begins with: a new one changes how the rest of such a word is cut; "
            "extend BPE or Unigram, or train one"
        )
    if kind not in _KINDS:
        raise UnsupportedError(
            f"{tokenizer.name} is {kind}: only BPE and Unigram can be extended"
        )
    return _KINDS[kind](content, tokenizer)


def merges_of(model: dict[str, Any]) -> list[list[str]]:
    """Return the merges of BPE as pairs; older files store them as texts."""
    return [
        merge.split(" ", 1) if isinstance(merge, str) else list(merge)
        for merge in model["merges"]
    ]


class Appending(ABC):
    """A tokenizer as JSON, to which tokens can be added.

    Args:
        content: The contents of its ``tokenizer.json``.
        tokenizer: The tokenizer itself.
    """

    def __init__(self, content: dict[str, Any], tokenizer: Tokenizer) -> None:
        self._content = content
        self._model: dict[str, Any] = content["model"]
        self._library = library().Tokenizer.from_str(json.dumps(content))
        self._name = tokenizer.name
        self.first_id = tokenizer.vocab_size
        """Id of the first new token."""
        self._never = {self._model.get("unk_token"), *self._added}
        if self._model.get("byte_fallback"):
            self._never.update(BYTES)

    @property
    @abstractmethod
    def tokens(self) -> set[str]:
        """All tokens."""

    @abstractmethod
    def joined(self, left: str, right: str) -> str | None:
        """Return the token that two neighbours make; None if they must not."""

    @abstractmethod
    def appended(self, joins: Sequence[Join], num_tokens: int) -> dict[str, Any]:
        """Return the JSON with more tokens, chosen in texts of ``num_tokens``."""

    @property
    def _added(self) -> dict[str, int]:
        """Special and other added tokens, and their ids."""
        added = self._content.get("added_tokens") or []
        return {token["content"]: token["id"] for token in added}

    def words(self, text: str) -> Iterator[str]:
        """Yield the words into which the pre-tokenizer splits a text."""
        library = self._library
        if library.normalizer is not None:
            text = library.normalizer.normalize_str(text)
        if library.pre_tokenizer is not None:
            for word, _ in library.pre_tokenizer.pre_tokenize_str(text):
                yield word
            return
        # The model takes a text as one word, but keeps tokens within its words.
        for index, word in enumerate(text.split("▁")):
            if word or index:
                yield "▁" * bool(index) + word

    def encoded(self, word: str) -> tuple[str, ...]:
        """Return the tokens of a word."""
        return tuple(token.value for token in self._library.model.tokenize(word))


class _Merges(Appending):
    """Adds merges of BPE after all others."""

    @property
    def tokens(self) -> set[str]:
        """All tokens."""
        return {*self._model["vocab"], *self._added}

    def joined(self, left: str, right: str) -> str | None:
        """Return the token that a merge makes."""
        prefix = self._model.get("continuing_subword_prefix") or ""
        if self._never.intersection((left, right)):
            return None
        return left + right.removeprefix(prefix)

    def appended(
        self,
        joins: Sequence[Join],
        num_tokens: int,  # noqa: ARG002 - of the other kind
    ) -> dict[str, Any]:
        """Return the JSON with more merges."""
        model = self._model
        merges = merges_of(model)
        # The library renumbers added tokens that are not in the vocabulary, too.
        vocab = model["vocab"] | self._added
        vocab |= {join.token: self.first_id + n for n, join in enumerate(joins)}
        merges += [[join.left, join.right] for join in joins]
        return self._content | {"model": model | {"vocab": vocab, "merges": merges}}


class _Pieces(Appending):
    """Adds pieces of Unigram after all others."""

    @property
    def tokens(self) -> set[str]:
        """All tokens."""
        return {*(piece for piece, _ in self._model["vocab"]), *self._added}

    @property
    def _unknown(self) -> str:
        return self._model["vocab"][self._model["unk_id"] or 0][0]

    def encoded(self, word: str) -> tuple[str, ...]:
        """Return the pieces of a word, with the unknown piece where none fits."""
        unknown = self._model["unk_id"]
        return tuple(
            self._unknown if token.id == unknown else token.value
            for token in self._library.model.tokenize(word)
        )

    def joined(self, left: str, right: str) -> str | None:
        """Return the piece that two make."""
        if self._never.intersection((left, right)) or self._unknown in (left, right):
            return None
        return left + right

    def appended(self, joins: Sequence[Join], num_tokens: int) -> dict[str, Any]:
        """Return the JSON with more pieces, as probable as they were frequent."""
        vocab = self._model["vocab"]
        if self.first_id != len(vocab):
            raise UnsupportedError(
                f"{self._name} has added tokens with ids after its pieces, and new "
                "pieces would take these: extend it before tokens are added"
            )
        scores = dict(vocab)
        least = min(scores.values())
        for join in joins:
            frequency = math.log(join.gain / num_tokens)
            parts = scores[join.left] + scores[join.right]
            scores[join.token] = max(frequency, parts + MARGIN, least)
        more = [[join.token, scores[join.token]] for join in joins]
        return self._content | {"model": self._model | {"vocab": [*vocab, *more]}}


_KINDS: dict[str, type[Appending]] = {"BPE": _Merges, "Unigram": _Pieces}
