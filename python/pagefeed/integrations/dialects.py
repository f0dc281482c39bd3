"""Names and shapes that batches go by, framework for framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["flattened", "in_rows", "megatron", "olmo", "shifted_pair"]

EIGHT_WITH_LOSS = np.uint64(0x0101010101010101)
"""Eight True of a mask, seen as one number."""

OURS_ALONE = ("document_ids", "cu_seqlens", "max_seqlen", "loss_mask")
"""Fields that no model of transformers takes."""


def in_rows(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what models of transformers take, as [batch_size, length].

    With ``position_ids`` their SDPA, eager and flex masks keep documents apart; but not
    beside an ``attention_mask``, nor with a cache, which is therefore turned off.
    """
    kept = {name: value for name, value in batch.items() if name not in OURS_ALONE}
    return kept | {"use_cache": False} if "position_ids" in kept else kept


def flattened(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the padding-free batch of transformers: one row of all documents.

    [1, batch_size * length], and what variable-length attention needs: int32
    ``cu_seq_lens_q`` and ``cu_seq_lens_k``, ``max_length_q`` and ``max_length_k`` as
    numbers, all four, since with one missing the borders are not used.
    """
    borders, longest = batch["cu_seqlens"], int(batch["max_seqlen"])
    kept = {
        name: value.reshape(1, -1) if hasattr(value, "reshape") else value
        for name, value in in_rows(batch).items()
    }
    return kept | {
        "cu_seq_lens_q": borders,
        "cu_seq_lens_k": borders,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def shifted_pair(batch: Mapping[str, Any], *, rows: bool) -> tuple[dict[str, Any], Any]:
    """Return torchtitan's pair of inputs and labels, from labels that are shifted.

    Args:
        batch: With ``input_ids``, shifted ``labels`` and perhaps ``position_ids``.
        rows: Keep [batch_size, length]; otherwise all are joined to [tokens].
    """
    names = {"input_ids": "input", "position_ids": "positions"}
    inputs = {new: batch[old] for old, new in names.items() if old in batch}
    labels = batch["labels"]
    if rows:
        return inputs, labels
    return {name: value.reshape(-1) for name, value in inputs.items()}, labels.reshape(
        -1
    )


def megatron(
    batch: Mapping[str, Any], *, mask_is_given: bool = False
) -> dict[str, Any]:
    """Return Megatron's micro-batch, from labels that are shifted.

    ``tokens``, ``labels`` and ``position_ids`` are int64 [batch_size, length],
    ``loss_mask`` float32; labels without loss are 0, as the mask tells.

    Args:
        batch: With ``input_ids``, ``labels``, ``loss_mask`` and ``position_ids``.
        mask_is_given: The mask is a column of the files, and may want loss where there
            is no label.
    """
    import torch

    # By NumPy: torch would wake its threads for each of these.
    labels, mask = batch["labels"].numpy(), batch["loss_mask"].numpy()
    weights = mask.astype(np.float32)
    if mask_is_given:
        ignored = labels < 0
        np.copyto(labels, 0, where=ignored)
        np.copyto(weights, 0, where=ignored)
    else:
        _clear_where_masked(labels, mask)
    return {
        "tokens": batch["input_ids"],
        "labels": batch["labels"],
        "loss_mask": torch.from_numpy(weights),
        "position_ids": batch["position_ids"],
    }


def _clear_where_masked(labels: npt.NDArray[Any], mask: npt.NDArray[Any]) -> None:
    """Set labels without loss, which are negative, to 0: mostly one in hundreds."""
    if mask.size % 8 == 0:
        eights = np.flatnonzero(mask.reshape(-1).view(np.uint64) != EIGHT_WITH_LOSS)
        if 64 * len(eights) < mask.size:
            parts = labels.reshape(-1, 8)
            parts[eights] = np.maximum(parts[eights], 0)
            return
    np.copyto(labels, 0, where=~mask)


def olmo(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return OLMo-core's batch, whose trainer makes the labels of it.

    ``label_mask`` says which tokens carry loss. With ``cu_seqlens`` also ``doc_lens``
    [batch_size, documents], padded with 0, and ``max_doc_lens``, a list, as its
    attention wants them.
    """
    ids = batch["input_ids"]
    kept = {"input_ids": ids, "label_mask": batch["loss_mask"]}
    if "cu_seqlens" not in batch:
        return kept
    import torch

    rows, length = ids.shape
    borders = batch["cu_seqlens"].numpy()
    lengths = borders[1:] - borders[:-1]
    # Every row begins with a document.
    begins = np.arange(0, rows * length + 1, length, dtype=np.int32)
    firsts = borders.searchsorted(begins)
    counts = firsts[1:] - firsts[:-1]
    is_document = np.arange(counts.max()) < counts[:, None]
    doc_lens = np.zeros(is_document.shape, np.int32)
    doc_lens[is_document] = lengths
    return kept | {
        "doc_lens": torch.from_numpy(doc_lens),
        "max_doc_lens": np.maximum.reduceat(lengths, firsts[:-1]).tolist(),
    }
