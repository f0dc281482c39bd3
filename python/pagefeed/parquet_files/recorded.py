"""The tokenizer of the tokens in files, as the files record it."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.core._base import in_order
from pagefeed.core.dataset import footer_of
from pagefeed.core.storage import Storage
from pagefeed.errors import InvalidArgumentError

__all__ = [
    "RecordedTokenizer",
    "recorded_tokenizer",
    "tokenizer_of_file",
]

KEY = "pagefeed.tokenizer"
MOST_FILES = 16
"""Files of a dataset that are read, evenly from first to last."""


class RecordedTokenizer(NamedTuple):
    """The tokenizer of a file's tokens."""

    name: str
    """Name of the tokenizer, for messages."""
    fingerprint: str
    """Fingerprint of the tokenizer."""
    vocab_size: int
    """Ids are below."""
    file: str
    """File that records it."""


def recorded_tokenizer(
    storage: Storage, files: tuple[str, ...]
) -> RecordedTokenizer | None:
    """Return the tokenizer that files of a dataset record; None if none records one.

    Raises:
        InvalidArgumentError: If two of them name different tokenizers.
    """
    file_numbers = np.linspace(0, len(files) - 1, min(len(files), MOST_FILES)).astype(
        int
    )
    chosen = [files[file_number] for file_number in file_numbers.tolist()]
    tokenizer = None
    for other in in_order(lambda file: tokenizer_of_file(storage, file), chosen):
        if tokenizer is not None and other is not None:
            if tokenizer.fingerprint != other.fingerprint:
                raise InvalidArgumentError(
                    f"{tokenizer.file} has tokens of {tokenizer.name} "
                    f"({tokenizer.fingerprint}), {other.file} of {other.name} "
                    f"({other.fingerprint}): a dataset has tokens of one tokenizer"
                )
        else:
            tokenizer = tokenizer or other
    return tokenizer


def tokenizer_of_file(storage: Storage, file: str) -> RecordedTokenizer | None:
    """Return the tokenizer that a file records; None if it records none."""
    recorded = _core.footer_value(footer_of(storage, file), KEY)
    try:
        record = {} if recorded is None else json.loads(recorded)
        return RecordedTokenizer(
            str(record["name"]),
            str(record["fingerprint"]),
            int(record["vocab_size"]),
            file,
        )
    except (ValueError, KeyError, TypeError):
        return None  # The key is missing, or another program wrote it.
