"""Fields of batches that are all tokens, from where their documents begin.

The same as the data plane makes of planned sequences, see
:mod:`pagefeed.batches.fields`; there is no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.batches.fields import DTYPES, Fields

__all__ = ["fields_of"]


def fields_of(
    tokens: npt.NDArray[Any], starts: Sequence[Int64Array], fields: Fields
) -> dict[str, Any]:
    """Return the fields of a batch by name.

    Args:
        tokens: [batch_size, length].
        starts: Where documents begin in each row; its first token is a begin anyhow.
        fields: Which, and how labels are made.
    """
    if not fields.are_made:
        return {"input_ids": tokens}
    rows, length = tokens.shape
    firsts = np.arange(rows + 1) * length
    inside = [here + first for here, first in zip(starts, firsts[:-1], strict=True)]
    borders = np.unique(np.concatenate([firsts, *inside]))
    begins, counts = borders[:-1], np.diff(borders)
    has_loss = np.ones(rows * length, dtype=bool)
    has_loss[firsts[:-1] if fields.across_documents else begins] = False
    has_loss = has_loss.reshape(rows, length)
    ignored = fields.ignore_index
    labels = np.where(has_loss, tokens.astype(np.int64), ignored)
    if fields.shifted:
        labels, has_loss = _shifted(labels, ignored), _shifted(has_loss, 0)
    number = np.arange(len(begins)) - np.searchsorted(begins, begins // length * length)
    lengths = np.zeros((rows, number.max() + 1), np.int32)
    lengths[begins // length, number] = counts
    made: dict[str, Any] = {
        "input_ids": tokens,
        "labels": labels,
        "position_ids": _spread(-begins, counts, tokens.shape)
        + np.arange(rows * length).reshape(rows, length),
        "document_ids": _spread(number, counts, tokens.shape),
        "cu_seqlens": borders,
        "max_seqlen": int(counts.max()),
        "doc_lens": lengths,
        "max_doc_lens": lengths.max(axis=1).tolist(),
        "attention_mask": np.ones((rows, length), dtype=bool),
        "loss_mask": has_loss,
    }
    return {
        name: made[name].astype(fields.dtype_of(name), copy=False)
        if name in DTYPES
        else made[name]
        for name in fields.names
    }


def _spread(
    values: Int64Array, counts: Int64Array, shape: tuple[int, ...]
) -> Int64Array:
    return np.repeat(values, counts).reshape(shape)


def _shifted(values: npt.NDArray[Any], filling: int) -> npt.NDArray[Any]:
    return np.pad(values[:, 1:], ((0, 0), (0, 1)), constant_values=filling)
