"""Rows of text with images as tokens: each placeholder becomes those of its image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.errors import InvalidArgumentError
from pagefeed.images.numbers import BROKEN, IMAGE_TOKENS
from pagefeed.tokenizer import IGNORED, Rows, Tokenizer

__all__ = ["ImageRows", "image_rows", "placeholder_id"]


def placeholder_id(tokenizer: Tokenizer, placeholder: str) -> int:
    """Return the id of the token that stands for an image.

    Raises:
        InvalidArgumentError: If it is not one token of the tokenizer.
    """
    found = []
    if placeholder and isinstance(placeholder, str):
        found = tokenizer.encode(placeholder).tolist()
    # An unknown word may be a token, too.
    if len(found) != 1 or tokenizer.decode(found).strip() != placeholder.strip():
        raise InvalidArgumentError(
            f"placeholder={placeholder!r} is the tokens {found} of {tokenizer.name}, "
            "and must be one of its own: add it to the tokenizer as a special token, "
            "and let special_tokens be 'as_token'; it has "
            f"{list(tokenizer.special_ids)[:20]}"
        )
    return int(found[0])


def image_rows(
    tokenizer: Tokenizer, column: str, rows: Rows | None, image_id: int, *, drops: bool
) -> ImageRows:
    """Return what encodes rows with images, of what encodes those without.

    Args:
        tokenizer: What encodes texts.
        column: The column of texts.
        rows: What encodes a row, if the column does not hold plain texts.
        image_id: The token that stands for an image.
        drops: Rows that cannot be right have no tokens; else they are refused.
    """
    columns = (column,) if rows is None else rows.columns
    return ImageRows(tokenizer, (*columns, IMAGE_TOKENS), rows, image_id, drops)


@dataclass(frozen=True, eq=False)
class ImageRows(Rows):
    """Encodes texts; each token that stands for an image becomes all of its tokens."""

    rows: Rows | None
    """What encodes a row, if it is no plain text."""
    image_id: int
    """The token that stands for an image."""
    drops: bool
    """Rows that cannot be right have no tokens; else they are refused."""

    @property
    def has_labels(self) -> bool:  # type: ignore[override]
        """Whether tokens have labels, as those of chats: none of images."""
        return self.rows is not None and self.rows.has_labels

    @property
    def fingerprint(self) -> str:
        """Identifies the encoder of texts, and the token of images."""
        rows = "" if self.rows is None else self.rows.fingerprint
        return f"images {self.image_id} {self.drops} {rows}"

    def encode(
        self, row: Mapping[str, Any]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return ids and labels of a row, which has the tokens of its images beside."""
        images = np.array(row[IMAGE_TOKENS] or (), dtype=np.int64)
        text, labels = row[self.columns[0]], np.zeros(0, dtype=np.int32)
        if self.rows is not None:
            ids, labels = self.rows.encode(row)
        elif isinstance(text, str | None):
            ids = self.tokenizer.encode(text or "")
        else:
            raise InvalidArgumentError(
                f"column {self.columns[0]!r} holds {type(text).__name__}: where texts "
                "lie deeper, give tokenize(tokenizer, text='{column.field}')"
            )
        is_image = ids == self.image_id
        count = int(is_image.sum())
        if count != len(images) and not self.drops:
            raise InvalidArgumentError(
                f"it has {count} placeholders and {len(images)} images: give as many, "
                "or leave such rows out with broken='drop'"
            )
        if count != len(images) or BROKEN in images:
            return ids[:0], labels[:0]
        times = np.ones(len(ids), dtype=np.int64)
        times[is_image] = images
        if self.has_labels:
            labels = np.repeat(np.where(is_image, IGNORED, labels), times)
        return np.repeat(ids, times), labels
