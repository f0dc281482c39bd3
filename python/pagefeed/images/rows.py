"""Rows of text with images as tokens: each placeholder becomes those of its image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.images.columns import pyarrow
from pagefeed.images.numbers import BROKEN, IMAGE_TOKENS
from pagefeed.tokenizer import IGNORED, Rows, Tokenizer

__all__ = ["ImageRows", "LabelledImageRows", "image_rows", "placeholder_id"]


def placeholder_id(tokenizer: Tokenizer, placeholder: str) -> int:
    """Return the id of the token that stands for an image.

    Raises:
        InvalidArgumentError: If it is not one token of the tokenizer.
    """
    found = tokenizer.encode(placeholder).tolist() if placeholder else []
    if len(found) != 1:
        raise InvalidArgumentError(
            f"placeholder={placeholder!r} is {len(found)} tokens of {tokenizer.name}, "
            "and must be one: add it to the tokenizer as a special token, and let "
            f"special_tokens be 'as_token'; it has {list(tokenizer.special_ids)[:20]}"
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
    kind = LabelledImageRows if rows is not None and rows.has_labels else ImageRows
    columns = (column,) if rows is None else rows.columns
    return kind(tokenizer, (*columns, IMAGE_TOKENS), rows, image_id, drops)


class Encoded(NamedTuple):
    """The tokens of some rows, one row after the other."""

    ids: npt.NDArray[np.uint32]
    """uint32 [tokens]."""
    labels: npt.NDArray[np.int32]
    """int32 [tokens]; [0] if rows have none."""
    counts: npt.NDArray[np.uint32]
    """Tokens of each row: uint32 [rows]."""


@dataclass(frozen=True, eq=False)
class ImageRows(Rows):
    """Encodes texts; each token that stands for an image becomes all of its tokens."""

    has_labels = False

    rows: Rows | None
    """What encodes a row, if it is no plain text."""
    image_id: int
    """The token that stands for an image."""
    drops: bool
    """Rows that cannot be right have no tokens; else they are refused."""

    @property
    def fingerprint(self) -> str:
        """Identifies the encoder of texts, and the token of images."""
        rows = "" if self.rows is None else self.rows.fingerprint
        return f"images {self.image_id} {self.drops} {rows}"

    def encode(self, row: Mapping[str, Any]) -> Any:
        """Return ids and labels of a row; with its images as a list of their tokens."""
        beside = np.array(row[IMAGE_TOKENS], dtype=np.int64)
        if self.rows is None:
            found = self._of_texts([row[self.columns[0]]])
        else:
            found = _of_rows(self.rows, [row])
        ids, labels, _ = self._expanded(found, beside, np.array([len(beside)]))
        return ids, labels

    def __call__(self, rows: Any) -> tuple[bytes, bytes, bytes]:
        """Encode an Arrow array of structs, on the thread that loads the page."""
        array = pyarrow().array(rows)
        beside = array.field(IMAGE_TOKENS)
        if self.rows is None:
            texts = array.field(self.columns[0])
            if texts.type not in (pyarrow().string(), pyarrow().large_string()):
                raise InvalidArgumentError(
                    f"column {self.columns[0]!r} holds {texts.type}: where texts lie "
                    "deeper, give tokenize(tokenizer, text='{column.field}')"
                )
            found = self._of_texts(texts.to_pylist())
        else:
            found = _of_rows(self.rows, (row.as_py() for row in array))
        counts = beside.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        done = self._expanded(found, beside.flatten().to_numpy(), counts)
        ids, labels, lengths = (each.tobytes() for each in done)
        return ids, labels, lengths

    def _of_texts(self, texts: Sequence[str | None]) -> Encoded:
        encoded = self.tokenizer.encode_batch([t or "" for t in texts], num_threads=1)
        counts = np.array([len(each) for each in encoded], dtype=np.uint32)
        ids = np.concatenate([np.zeros(0, np.uint32), *encoded])
        return Encoded(ids, np.zeros(0, np.int32), counts)

    def _expanded(
        self, rows: Encoded, images: Int64Array, num_images: Int64Array
    ) -> Encoded:
        """Return rows with all tokens of their images.

        Args:
            rows: With a token for each image.
            images: Tokens of each image, one row after another.
            num_images: Images of each row.
        """
        row_of = np.repeat(np.arange(len(rows.counts)), rows.counts)
        is_image = rows.ids == self.image_id
        placeholders = np.bincount(row_of[is_image], minlength=len(rows.counts))
        image_row = np.repeat(np.arange(len(num_images)), num_images)
        is_wrong = placeholders != num_images
        if not self.drops and is_wrong.any():
            row = int(np.argmax(is_wrong))
            raise InvalidArgumentError(
                f"row {row} of the page has {placeholders[row]} placeholders and "
                f"{num_images[row]} images: give as many, or leave such rows out with "
                "broken='drop'"
            )
        is_wrong[image_row[images == BROKEN]] = True
        times = np.where(is_wrong[row_of], 0, 1)
        times[is_image & ~is_wrong[row_of]] = images[~is_wrong[image_row]]
        labels = rows.labels
        if self.has_labels:
            labels = np.repeat(np.where(is_image, IGNORED, labels), times)
        counts = np.bincount(row_of, times, len(rows.counts)).astype(np.uint32)
        return Encoded(np.repeat(rows.ids, times), labels, counts)


class LabelledImageRows(ImageRows):
    """The same of chats, whose tokens have labels: those of images carry no loss."""

    has_labels = True


def _of_rows(rows: Rows, given: Iterable[Mapping[str, Any]]) -> Encoded:
    """Encode rows whose placeholders are one token each."""

    def refuse(number: int, problem: ValueError) -> NoReturn:
        raise CorruptFileError(f"row {number} of the page: {problem}") from problem

    return Encoded(*rows.encode_each(given, lambda row: row, refuse))
