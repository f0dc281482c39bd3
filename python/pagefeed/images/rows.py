"""Rows of text with images: each placeholder becomes the tokens of its image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.errors import InvalidArgumentError
from pagefeed.images.numbers import BROKEN, IMAGE_TOKENS
from pagefeed.tokenizer import IGNORED, Rows, Tokenizer


def placeholder_id(tokenizer: Tokenizer, placeholder: str) -> int:
    """Return the id of the placeholder token.

    Raises:
        InvalidArgumentError: If it is not one token of the tokenizer.
    """
    ids = []
    if placeholder and isinstance(placeholder, str):
        ids = tokenizer.encode(placeholder).tolist()
    # The token of unknown words is one token, too.
    if len(ids) != 1 or tokenizer.decode(ids).strip() != placeholder.strip():
        raise InvalidArgumentError(
            f"placeholder={placeholder!r} has the ids {ids} in {tokenizer.name}: it "
            "must be one token. Add it to the tokenizer as a special token, and leave "
            "special_tokens at 'as_token'; the special tokens are "
            f"{list(tokenizer.special_ids)[:20]}"
        )
    return int(ids[0])


@dataclass(frozen=True, eq=False)
class ImageRows(Rows):
    """Encoder of rows with images: repeats a placeholder for each token of its image.

    Its columns are those of the text, then :data:`IMAGE_TOKENS`.
    """

    rows: Rows | None
    """The encoder of chats or nested texts; None for a column of plain texts."""
    image_id: int
    """The token of the placeholder."""
    drops: bool
    """Whether rows with broken images are left out. They get no tokens in any case, and
    a loader refuses those that are selected."""

    @property
    def has_labels(self) -> bool:  # type: ignore[override]
        """Whether the rows have labels, as chats have."""
        return self.rows is not None and self.rows.has_labels

    @property
    def fingerprint(self) -> str:
        """Identifies the encoder of the text and the token of the placeholder."""
        rows = "" if self.rows is None else self.rows.fingerprint
        return f"images {self.image_id} {self.drops} {rows}"

    def encode(
        self, row: Mapping[str, Any]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return ids and labels of a row; labels are empty unless rows have them."""
        images = np.array(row[IMAGE_TOKENS] or (), dtype=np.int64)
        if self.rows is None:
            ids = self.tokenizer.encode(row[self.columns[0]] or "")
            labels = np.zeros(0, dtype=np.int32)
        else:
            ids, labels = self.rows.encode(row)
        is_image = ids == self.image_id
        count = int(is_image.sum())
        if not (len(images) or self.drops or count == 0):
            raise InvalidArgumentError(
                f"the text has {count} placeholders and the row no image: write one "
                "placeholder for each image, or leave such rows out with broken='drop'"
            )
        if count != len(images) or BROKEN in images:
            return ids[:0], labels[:0]
        times = np.ones(len(ids), dtype=np.int64)
        times[is_image] = images
        if self.has_labels:
            labels = np.repeat(np.where(is_image, IGNORED, labels), times)
        return np.repeat(ids, times), labels
