"""Fields of a batch: labels, positions, masks and borders, made from its documents.

All are made from one table of the documents in the batch, so they agree with each
other: what attends to what, what is predicted from what, and what is padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.arguments import check_choice, check_flag
from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.lazy import lazy

__all__ = ["DOCUMENTS", "FIELDS", "IGNORED", "BatchFields", "Fields"]

IGNORED = -100
"""Label that carries no loss: ``ignore_index`` of torch's cross entropy."""

FIELDS = (
    "input_ids",
    "labels",
    "position_ids",
    "document_ids",
    "cu_seqlens",
    "max_seqlen",
    "attention_mask",
    "loss_mask",
)

DOCUMENTS = np.dtype(
    [
        ("batch_row", np.uint32),
        ("start", np.uint32),
        ("num_tokens", np.uint32),
        ("row", np.uint32),
        ("page", np.uint64),
        ("first_token", np.uint32),
        ("row_tokens", np.uint32),
    ]
)
"""A part of a document in a batch: its row of the batch, first token there, and number
of tokens; its row of its page, that page of the index, the part's first token in the
row and the tokens of the whole row. Tokens are counted with separators."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a batch carries, and how labels are made.

    Args:
        names: Of ``input_ids``, ``labels``, ``position_ids``, ``document_ids``,
            ``cu_seqlens``, ``max_seqlen``, ``attention_mask`` and ``loss_mask``.
        shifted: Labels stand where they are predicted, one place before their token;
            otherwise at their token, as Hugging Face models expect them.
        across_documents: The first token of a document is predicted from the last of
            the one before it in its row. Otherwise it carries no loss, as nothing of
            its own document leads to it.

    Raises:
        InvalidArgumentError: If a name is unknown.

    Example:
        >>> Fields(names=("input_ids", "labels"), shifted=True).needs_documents
        True
    """

    names: tuple[str, ...] = ("input_ids",)
    shifted: bool = False
    across_documents: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _names(self.names))
        check_flag(self.shifted, "shifted")
        check_flag(self.across_documents, "across_documents")

    @classmethod
    def parse(cls, fields: Fields | Iterable[str]) -> Fields:
        """Return fields from themselves or from their names.

        Raises:
            InvalidArgumentError: If a name is unknown or there is none.
        """
        if isinstance(fields, Fields):
            return fields
        return cls(names=_names(fields))

    @property
    def needs_documents(self) -> bool:
        """Whether the engine must tell the documents of a batch."""
        return self.names != ("input_ids",)

    def make(
        self, tokens: npt.NDArray[Any], documents: npt.NDArray[Any]
    ) -> dict[str, Any]:
        """Return the fields of a batch by name.

        Args:
            tokens: [batch_size, length].
            documents: Records of :data:`DOCUMENTS`, in the order of their places.
        """
        made = BatchFields(
            tokens,
            documents,
            shifted=self.shifted,
            across_documents=self.across_documents,
        )
        return {name: getattr(made, name) for name in self.names}


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidArgumentError(
            f"fields={names!r} must be a list of {', '.join(FIELDS)}"
        )
    found = tuple(check_choice(name, FIELDS, "fields") for name in names)
    if not found or len(set(found)) < len(found):
        raise InvalidArgumentError(
            f"fields={list(found)} must name some of {', '.join(FIELDS)}, each once"
        )
    return found


class BatchFields:
    """The fields of one batch, each made when it is asked for.

    A segment is a run of tokens that attend to each other: a part of a document, or
    the padding of a row.

    Args:
        tokens: [batch_size, length].
        documents: Records of :data:`DOCUMENTS`.
        shifted: See :class:`Fields`.
        across_documents: See :class:`Fields`.
    """

    def __init__(
        self,
        tokens: npt.NDArray[Any],
        documents: npt.NDArray[Any],
        *,
        shifted: bool = False,
        across_documents: bool = False,
    ) -> None:
        self.input_ids = tokens
        self._shape = tokens.shape
        self._shifted = shifted
        self._across = across_documents
        rows, length = tokens.shape
        self._starts = documents["batch_row"].astype(np.int64) * length
        self._starts += documents["start"]
        self._ends = self._starts + documents["num_tokens"]
        self._rows = np.arange(rows + 1) * length

    @lazy
    def _borders(self) -> Int64Array:
        """Where segments begin, and the number of tokens: int64 [segments + 1]."""
        return np.unique(np.concatenate([self._starts, self._ends, self._rows]))

    @lazy
    def _is_document(self) -> npt.NDArray[np.bool_]:
        """Whether each segment is of a document: bool [segments]."""
        begins = self._borders[:-1]
        found = np.zeros(len(begins), dtype=bool)
        found[np.searchsorted(begins, self._starts)] = True
        return found

    def _spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a value of each segment at all its tokens."""
        return np.repeat(values, np.diff(self._borders)).reshape(self._shape)

    @lazy
    def position_ids(self) -> Int64Array:
        """Place of each token in its segment, from 0: int64 [batch_size, length]."""
        places = np.arange(self._rows[-1]).reshape(self._shape)
        places -= self._spread(self._borders[:-1])
        return places

    @lazy
    def document_ids(self) -> npt.NDArray[np.int32]:
        """Number of each token's document in its row, -1 on padding: int32."""
        counted = np.cumsum(self._is_document)
        row = np.searchsorted(self._rows, self._borders[:-1], side="right") - 1
        first = np.searchsorted(self._borders, self._rows[:-1])
        before = counted[first] - self._is_document[first]
        ids = np.where(self._is_document, counted - 1 - before[row], -1)
        return self._spread(ids.astype(np.int32))

    @lazy
    def cu_seqlens(self) -> npt.NDArray[np.int32]:
        """Borders of the segments in the flattened batch: int32 [segments + 1]."""
        return self._borders.astype(np.int32)

    @lazy
    def max_seqlen(self) -> int:
        """Tokens of the longest segment."""
        return int(np.diff(self._borders).max())

    @lazy
    def attention_mask(self) -> npt.NDArray[np.bool_]:
        """False on padding: bool [batch_size, length]."""
        return self._spread(self._is_document)

    @lazy
    def loss_mask(self) -> npt.NDArray[np.bool_]:
        """Where labels carry loss: bool [batch_size, length]."""
        return self._placed(np.ones(self._shape, dtype=bool), fill=False)

    @lazy
    def labels(self) -> Int64Array:
        """Tokens to predict, -100 where there is none: int64 [batch_size, length]."""
        return self._placed(self.input_ids.astype(np.int64), fill=IGNORED)

    def _placed(self, values: npt.NDArray[Any], *, fill: int) -> npt.NDArray[Any]:
        """Fill in tokens without a predecessor, and move all to theirs if shifted."""
        if not self._is_document.all():
            values[~self.attention_mask] = fill
        values.reshape(-1)[self._rows[:-1] if self._across else self._borders[:-1]] = (
            fill
        )
        if not self._shifted:
            return values
        moved = np.full_like(values, fill)
        moved[:, :-1] = values[:, 1:]
        return moved
