"""Infilling: documents as prefix, suffix and middle, for models that fill in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pagefeed import _core
from pagefeed.core._base import check_choice, check_number, check_token, check_whole
from pagefeed.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class Infill:
    """Settings that rearrange documents, so that a model learns to fill in the middle.

    A chosen document is cut at two places into prefix, middle and suffix, each of which
    may be empty. Both places are drawn uniformly between its tokens, without regard to
    characters and words; no token is divided. Special tokens mark the parts, arranged
    as in "Efficient Training of Language Models to Fill in the Middle" (Bavarian et
    al., 2022):

    - PSM: ``prefix`` + the prefix + ``suffix`` + the suffix + ``middle`` + the middle,
    - SPM, variant 2 of the paper: ``prefix`` + ``suffix`` + the suffix + ``middle`` +
      the prefix + the middle,

    and ``end`` at the end of both, if it is given. If documents are joined, the ``eos``
    of the loader follows. All tokens of the document come exactly once, and all have
    labels.

    Which documents are chosen depends on the seed and the number of the document in the
    files, not on the epoch: a chosen document is longer by its special tokens, and
    lengths that changed would change where sequences begin. The cuts, and whether a
    document is PSM or SPM, are drawn again in every epoch. Documents without tokens may
    be chosen too.

    Args:
        prefix: Token before the prefix.
        middle: Token before the middle.
        suffix: Token before the suffix.
        end: Token after the middle; None for none.
        rate: Share of the documents that are infilled, above 0 and at most 1.
        spm: Share of these that are SPM; the others are PSM.
        within: ``"document"`` infills documents before they are cut into sequences, so
            that parts of a long document may be in several sequences. ``"sequence"``,
            only for ``Packed``, infills the part of a document that one sequence
            holds. If several sequences hold a document, one of its parts is infilled,
            and the others are unchanged.
        seed: Seed of the choice and the cuts. The seed of the loader does not affect
            them.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    Example:
        >>> Infill(prefix=1, middle=2, suffix=3).identity
        'Infill(middle=2,prefix=1,rate=0.5,seed=0,spm=0.5,suffix=3)'
    """

    prefix: int
    middle: int
    suffix: int
    end: int | None = None
    rate: float = 0.5
    spm: float = 0.5
    within: Literal["document", "sequence"] = "document"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("prefix", "middle", "suffix", "end"):
            token = check_token(getattr(self, name), name)
            if token is None and name != "end":
                raise InvalidArgumentError(
                    f"{name}=None: Infill needs the special tokens of prefix, middle "
                    "and suffix"
                )
            object.__setattr__(self, name, token)
        if len({*self.tokens}) < len(self.tokens):
            raise InvalidArgumentError(
                f"{self.identity} names one token twice: each special token must be "
                "another token"
            )
        for name in ("rate", "spm"):
            value = getattr(self, name)
            share = check_number(value, name, "a share", least=0, most=1)
            object.__setattr__(self, name, share)
        if self.rate == 0:
            raise InvalidArgumentError(
                "rate=0 infills nothing: leave infill out, or give a rate above 0"
            )
        check_choice(self.within, ("document", "sequence"), "within")
        object.__setattr__(self, "seed", check_whole(self.seed, "seed"))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The special tokens: prefix, suffix, middle, and the end token if any."""
        own = (self.prefix, self.suffix, self.middle)
        return own if self.end is None else (*own, self.end)

    @property
    def named_tokens(self) -> dict[str, int]:
        """The special tokens, as messages name them."""
        names = ("prefix", "suffix", "middle", "end")
        return {
            f"Infill({name}=)": token
            for name, token in zip(names, self.tokens, strict=False)
        }

    @property
    def identity(self) -> str:
        """Text without blanks that identifies the setting in states and caches."""
        shown: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("middle", "prefix", "rate", "seed", "spm", "suffix")
        }
        if self.end is not None:
            shown["end"] = self.end
        if self.within != "document":
            shown["within"] = self.within
        return f"Infill({','.join(f'{name}={shown[name]}' for name in sorted(shown))})"

    @property
    def choice(self) -> str:
        """The settings that decide which documents are chosen, and how they grow."""
        return f"{self.seed} {self.rate!r} {len(self.tokens)}"


def infilling_of(infill: Infill) -> _core.Infilling:
    """Return the setting for the data plane."""
    return _core.Infilling(
        choice=_key(infill.seed, "choice"),
        cuts=_key(infill.seed, "cuts"),
        rate=round(infill.rate * (1 << 32)),
        spm=round(infill.spm * (1 << 32)),
        tokens=list(infill.tokens),
        within_sequence=infill.within == "sequence",
    )


def _key(seed: int, purpose: str) -> tuple[int, int]:
    text = f"infill {seed} {purpose}".encode()
    digest = hashlib.blake2b(text, digest_size=16, person=b"pagefeed.infill")
    first, second = np.frombuffer(digest.digest(), "<u8").tolist()
    return first, second
