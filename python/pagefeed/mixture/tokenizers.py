"""One tokenizer for all datasets of a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pagefeed.errors import InvalidArgumentError

__all__ = ["check_recorded", "check_tokenizers"]


class _Made(NamedTuple):
    """Which tokenizer makes, or made, the tokens of a dataset."""

    dataset: str
    tokenizer: str
    fingerprint: str


def check_tokenizers(datasets: Mapping[str, Any]) -> None:
    """Refuse ids of several vocabularies in one batch, as datasets were given one.

    Raises:
        InvalidArgumentError: Naming two datasets and their tokenizers.
    """
    made = []
    for name, dataset in datasets.items():
        tokenizer = getattr(dataset, "tokenizer", None)
        if tokenizer is not None:
            made.append(_Made(name, tokenizer.name, tokenizer.fingerprint))
    _check(made)


def check_recorded(datasets: Mapping[str, Any]) -> None:
    """Refuse the same as files say it of their tokens; reads some footers.

    Raises:
        InvalidArgumentError: Naming two datasets and their tokenizers.
    """
    made = []
    for name, dataset in datasets.items():
        found = getattr(dataset, "tokenizer", None)
        found = found or getattr(dataset, "recorded_tokenizer", None)
        if found is not None:
            made.append(_Made(name, found.name, found.fingerprint))
    _check(made)


def _check(made: list[_Made]) -> None:
    for other in made[1:]:
        first = made[0]
        if other.fingerprint != first.fingerprint:
            raise InvalidArgumentError(
                f"{first.dataset!r} is tokenized with {first.tokenizer} "
                f"({first.fingerprint}), {other.dataset!r} with {other.tokenizer} "
                f"({other.fingerprint}): a mixture takes one tokenizer"
            )
