"""One tokenizer for all datasets of a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagefeed.errors import InvalidArgumentError

__all__ = ["check_tokenizers"]


def check_tokenizers(datasets: Mapping[str, Any], *, recorded: bool = False) -> None:
    """Refuse ids of several vocabularies in one batch.

    Args:
        datasets: The datasets by name.
        recorded: Look at what files record of their tokens, too; reads some footers.

    Raises:
        InvalidArgumentError: Naming two datasets and their tokenizers.
    """
    first: tuple[str, Any] | None = None
    for name, dataset in datasets.items():
        tokenizer = getattr(dataset, "tokenizer", None)
        if tokenizer is None and recorded:
            tokenizer = getattr(dataset, "recorded_tokenizer", None)
        if tokenizer is None:
            continue
        if first is None:
            first = name, tokenizer
        elif tokenizer.fingerprint != first[1].fingerprint:
            raise InvalidArgumentError(
                f"{first[0]!r} is tokenized with {first[1].name} "
                f"({first[1].fingerprint}), {name!r} with {tokenizer.name} "
                f"({tokenizer.fingerprint}): a mixture takes one tokenizer"
            )
