"""Batches as the frameworks name and shape them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pagefeed.core._base import FIELDS, require
from pagefeed.errors import InvalidArgumentError

__all__ = [
    "check_borders",
    "flattened",
    "in_rows",
    "megatron",
    "olmo",
    "packed_parameters",
    "shifted_pair",
]

OF_PACKED = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")
"""Fields with the borders of documents, of whose attention Megatron makes use."""


def in_rows(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that models of transformers take, as [batch_size, length].

    With ``position_ids``, the SDPA, eager and flex masks of these models keep documents
    apart, except with an ``attention_mask`` or with a cache. So this turns the cache
    off.
    """
    taken = {
        name: value
        for name, value in batch.items()
        if name not in FIELDS or FIELDS[name].is_for_models
    }
    return taken | {"use_cache": False} if "position_ids" in taken else taken


def flattened(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the padding-free batch of transformers: all documents in one row.

    Fields have the shape [1, batch_size * length], followed by the shape of one value.
    Variable-length attention needs four more: int32 ``cu_seq_lens_q`` and
    ``cu_seq_lens_k``, and the numbers ``max_length_q`` and ``max_length_k``. If one is
    missing, it ignores the borders. Convolutions and recurrent layers need ``seq_idx``,
    the number of each token's document: int32 [1, batch_size * length].

    Raises:
        InvalidArgumentError: If the borders do not end where the tokens do.
    """
    check_borders(batch)
    borders, longest = batch["cu_seqlens"], int(batch["max_seqlen"])
    taken = {
        name: value.reshape(1, -1, *value.shape[2:])
        if hasattr(value, "reshape")
        else value
        for name, value in in_rows(batch).items()
    }
    if "seq_idx" not in taken:
        torch = require("torch", extra="torch", purpose="joined batches")
        lengths = np.diff(borders.numpy())
        numbers = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        taken["seq_idx"] = torch.from_numpy(numbers)[None]
    return taken | {
        "cu_seq_lens_q": borders,
        "cu_seq_lens_k": borders,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def check_borders(batch: Mapping[str, Any]) -> None:
    """Refuse a batch whose borders count more or fewer tokens than it has.

    Raises:
        InvalidArgumentError: Saying what to leave out.
    """
    rows, length = batch["input_ids"].shape
    end = int(batch["cu_seqlens"][-1])
    if end != rows * length:
        raise InvalidArgumentError(
            f"cu_seqlens end at {end}, and a batch has {rows} x {length} tokens: leave "
            "out cu_seqlens_padded, with which they do not count padding, and "
            "context_parallel"
        )


def shifted_pair(batch: Mapping[str, Any], *, rows: bool) -> tuple[dict[str, Any], Any]:
    """Return torchtitan's pair of inputs and labels, from labels that are shifted.

    Args:
        batch: With ``input_ids``, shifted ``labels`` and perhaps ``position_ids``.
        rows: Keep [batch_size, length]; otherwise join all rows to [tokens].
    """
    names = {"input_ids": "input", "position_ids": "positions"}
    inputs = {new: batch[old] for old, new in names.items() if old in batch}
    labels = batch["labels"]
    shape = labels.shape if rows else (-1,)
    return {name: inputs[name].reshape(shape) for name in inputs}, labels.reshape(shape)


def megatron(
    batch: Mapping[str, Any], *, mask_is_given: bool = False
) -> dict[str, Any]:
    """Return Megatron's micro-batch, from labels that are shifted.

    ``tokens``, ``labels`` and ``position_ids`` are int64 [batch_size, length].
    ``loss_mask`` is float32, and 0 where a label is -100; Megatron's cross entropies
    accept such labels. Borders of documents are passed on, if there are some.

    Args:
        batch: With ``input_ids``, ``labels``, ``position_ids`` and ``loss_mask``, which
            is copied if it is not float32.
        mask_is_given: The mask is a column of the files, and may be 1 where there is no
            label.
    """
    mask = batch["loss_mask"]
    if mask_is_given or not mask.is_floating_point():
        mask = _weights(mask, batch["labels"] if mask_is_given else None)
    return {
        "tokens": batch["input_ids"],
        "labels": batch["labels"],
        "loss_mask": mask,
        "position_ids": batch["position_ids"],
        # `dataset_ids` are for a learner: Megatron takes only fields that it names.
        **_those(batch, *OF_PACKED, "dataset_ids"),
    }


def packed_parameters(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of Megatron's ``PackedSeqParams``, for attention by ``thd``.

    Args:
        batch: With ``cu_seqlens``, ``cu_seqlens_padded`` and ``max_seqlen``. They are
            those of whole documents, even if context parallelism has cut the tokens.
    """
    borders, padded, longest = (batch[name] for name in OF_PACKED)
    return {
        "qkv_format": "thd",
        "cu_seqlens_q": borders,
        "cu_seqlens_kv": borders,
        "cu_seqlens_q_padded": padded,
        "cu_seqlens_kv_padded": padded,
        "max_seqlen_q": longest,
        "max_seqlen_kv": longest,
    }


def _weights(mask: Any, labels: Any | None) -> Any:
    """Return a mask as float32, 0 where no label is."""
    import torch

    # NumPy: torch would wake its threads for this.
    weights = mask.numpy().astype(np.float32)
    if labels is not None:
        np.copyto(weights, 0, where=labels.numpy() < 0)
    return torch.from_numpy(weights)


def olmo(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return OLMo-core's batch; its trainer makes the labels.

    ``label_mask`` says which tokens have loss. ``doc_lens`` [batch_size, documents],
    padded with 0, and the list ``max_doc_lens`` keep attention inside documents.
    ``dataset_ids`` [batch_size] are for a learner: models of OLMo-core ignore them.
    """
    taken = {"input_ids": batch["input_ids"], "label_mask": batch["loss_mask"]}
    return taken | _those(batch, "doc_lens", "max_doc_lens", "dataset_ids")


def _those(batch: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the named fields that a batch has."""
    return {name: batch[name] for name in names if name in batch}
