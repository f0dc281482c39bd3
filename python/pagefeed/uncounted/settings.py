"""The settings of a loader of texts, checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, get_args

from pagefeed.core._base import check_vocab_size, near_name
from pagefeed.core.batches import Fields, LoaderSettings, block_for
from pagefeed.core.dataset import ParquetRows
from pagefeed.core.order import BlockShuffle, Shuffle
from pagefeed.core.sequences import Packed, TokenCut, Windows, check_sequences
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer import Tokenizer, require_tokenizer

SHUFFLES = get_args(BlockShuffle)
"""Units that may be permuted."""

NOT_OF_TEXTS = ("dataset_ids", "metadata")
"""Fields that are not made of tokens."""

COUNTED = (
    "; or count the tokens, pagefeed.Loader(dataset.tokenize(tokenizer), ...), ahead "
    "by `pagefeed count`"
)
"""Advice for what needs counted tokens."""


@dataclass(frozen=True, kw_only=True)
class TextSettings(LoaderSettings):
    """The arguments of a loader of texts, checked and converted to final types."""

    dataset: ParquetRows
    sequences: TokenCut
    tokenizer: Tokenizer

    @property
    def fingerprint(self) -> str:
        """Identifies the contents: the texts and the tokenizer."""
        text = f"uncounted {self.dataset.fingerprint} {self.tokenizer.fingerprint}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def least_vocab_size(self) -> int:
        """The size that was given, or one more than any id.

        Raises:
            InvalidArgumentError: If padding or a separator is not below what was given.
        """
        cut = self.sequences
        size = check_vocab_size(
            self.vocab_size, padding=self.padding, eos=cut.eos, bos=cut.bos
        )
        separators = [token + 1 for token in (cut.eos, cut.bos) if token is not None]
        return size or max(self.tokenizer.vocab_size, *separators, 1)


def check_texts(dataset: Any, tokenizer: Any) -> None:
    """Raise an error if the dataset has no texts, or the tokenizer is not a Tokenizer.

    Raises:
        InvalidArgumentError: Saying what to give.
    """
    if not isinstance(dataset, ParquetRows):
        raise InvalidArgumentError(
            f"dataset={dataset!r:.60} has no texts of Parquet files: give "
            "pagefeed.parquet('corpus/', column='text')"
        )
    require_tokenizer(tokenizer)
    if dataset.kind != "tokens":
        raise InvalidArgumentError(
            f"dataset={dataset!r:.60} is tokenized already: give the dataset without "
            "tokenize(), or give this one to pagefeed.Loader"
        )
    if dataset.erasures:
        raise InvalidArgumentError(
            "erase() keeps the position of every token, and these texts are not "
            f"counted: select the others by where(){COUNTED}"
        )
    beside = {
        "aligned": dataset.aligned,
        "metadata": dataset.metadata,
        "spans": dataset.span_columns,
    }
    for name, columns in beside.items():
        if columns:
            raise InvalidArgumentError(
                f"{name}= of the dataset would not arrive in batches: leave it out"
                f"{COUNTED}"
            )


def check_cut(sequences: Any) -> TokenCut:
    """Return the cut, after checking that it can cut tokens as they are encoded.

    Raises:
        InvalidArgumentError: If it cannot; the message names the setting.
    """
    check_sequences(sequences)
    refused = None
    if not isinstance(sequences, Windows | Packed):
        refused = type(sequences).__name__
    elif isinstance(sequences, Packed):
        if sequences.multiple_of > 1:
            refused = "multiple_of, which is for context parallelism,"
    elif sequences.overlap or sequences.join == "file":
        refused = "overlap" if sequences.overlap else "join='file'"
    if refused is None:
        return sequences
    raise InvalidArgumentError(
        f"sequences={sequences!r:.60}: {refused} does not go with tokens that are cut "
        f"as they come: give Windows or Packed without it{COUNTED}"
    )


def check_text_fields(fields: Fields) -> None:
    """Refuse fields that are not made of tokens.

    Raises:
        InvalidArgumentError: Naming them.
    """
    for name in NOT_OF_TEXTS:
        if name in fields.names:
            raise InvalidArgumentError(
                f"fields={fields.names!r}: {name!r} is not known of texts that are "
                f"tokenized as they come: leave it out{COUNTED}"
            )


def parse_shuffle(value: Any, dataset: ParquetRows) -> Shuffle:
    """Return the kind of block that is permuted.

    Raises:
        InvalidArgumentError: If it is anything but pages, row groups or nothing.
    """
    if value is not None and value not in SHUFFLES:
        raise InvalidArgumentError(
            f"shuffle={value!r} is unknown: blocks are permuted, and rows inside each; "
            f"choose one of {', '.join(map(repr, SHUFFLES))} or None"
            f"{near_name(str(value), SHUFFLES)}{COUNTED}"
        )
    return Shuffle(block=block_for([dataset.index]) if value == "auto" else value)
