"""What the fields of a batch are, in plain NumPy, made from a table of documents."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import IGNORED

Part = tuple[int, int, int]
"""Row of the batch, first token there, number of tokens of a part of a document."""


def model_fields(
    tokens: npt.NDArray[Any],
    parts: list[Part],
    *,
    shifted: bool,
    across: bool,
    ignored: int = IGNORED,
) -> dict[str, Any]:
    """The fields of ``tokens`` [batch_size, length] that hold ``parts``."""
    rows, length = tokens.shape
    firsts = np.arange(rows + 1) * length
    starts = {row * length + start for row, start, _ in parts}
    ends = {row * length + start + count for row, start, count in parts}
    borders = np.array(sorted(starts | ends | set(firsts.tolist())))
    begins, counts = borders[:-1], np.diff(borders)
    is_document = np.array([begin in starts for begin in begins.tolist()])

    def spread(of_segment: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.repeat(of_segment, counts).reshape(rows, length)

    numbers = np.full(len(begins), -1)
    for first in firsts[:-1]:
        here = (begins >= first) & (begins < first + length) & is_document
        numbers[here] = np.arange(here.sum())
    has_loss = spread(is_document)
    follows = np.append(False, is_document[:-1]) & ~np.isin(begins, firsts)
    has_loss.reshape(-1)[begins[~follows] if across else begins] = False
    labels = np.where(has_loss, tokens.astype(np.int64), ignored)
    if shifted:
        labels = np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=ignored)
        has_loss = np.pad(has_loss[:, 1:], ((0, 0), (0, 1)))
    of_rows = [
        [b - a for a, b in pairwise(borders[(borders >= a) & (borders <= z)].tolist())]
        for a, z in pairwise(firsts.tolist())
    ]
    most = max(map(len, of_rows))
    return {
        "input_ids": tokens,
        "labels": labels,
        "position_ids": np.arange(rows * length).reshape(rows, length) - spread(begins),
        "document_ids": spread(numbers).astype(np.int32),
        "seq_idx": spread(np.arange(len(begins))).astype(np.int32),
        "cu_seqlens": borders.astype(np.int32),
        "cu_seqlens_padded": borders.astype(np.int32),
        "own": np.append(0, np.cumsum(np.where(is_document, counts, 0))).astype("i4"),
        "max_seqlen": int(counts.max()),
        "doc_lens": np.array(
            [lens + [0] * (most - len(lens)) for lens in of_rows], np.int32
        ),
        "max_doc_lens": [max(lens) for lens in of_rows],
        "attention_mask": spread(is_document),
        "loss_mask": has_loss,
    }


def assert_model(
    batch: dict[str, Any],
    parts: list[Part],
    *,
    shifted: bool,
    across: bool,
    dtypes: Mapping[str, str] | None = None,
    ignored: int = IGNORED,
) -> None:
    """Check values and types of all fields that a batch has against the model."""
    model = model_fields(
        batch["input_ids"], parts, shifted=shifted, across=across, ignored=ignored
    )
    if "cu_seqlens_padded" in batch:  # The other borders then leave padding out.
        model["cu_seqlens"] = model["own"]
    for name, value in batch.items():
        expected = model[name]
        if dtypes and name in dtypes:
            expected = expected.astype(dtypes[name])
        assert np.array_equal(value, expected), name
        if isinstance(expected, np.ndarray):
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), name
        else:
            assert type(value) is type(expected)
