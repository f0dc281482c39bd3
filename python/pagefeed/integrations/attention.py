"""Attention inside documents: what kernels need, made from the fields of a batch.

For batches of a loader with ``format="torch"``. See the fields of
:class:`pagefeed.Fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pagefeed.core._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.dialects import check_borders

if TYPE_CHECKING:  # Other adapters do without.
    import torch

__all__ = ["check_isolation", "flex_mask", "sdpa_mask", "varlen_arguments"]

Attention: TypeAlias = (
    "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"
)
"""From queries, keys and values [batch_size, heads, length, width] to outputs."""

MaskMod: TypeAlias = (
    "Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"
)


def varlen_arguments(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``flash_attn_varlen_func`` except q, k and v.

    q, k and v are those of the flattened batch: [batch_size * length, heads, width].
    Padding is a separate segment, so that every token belongs to one.

    Args:
        batch: With ``cu_seqlens`` and ``max_seqlen`` that count padding: without
            ``cu_seqlens_padded``, and not cut for context parallelism.

    Raises:
        InvalidArgumentError: If the borders do not end where the tokens do.

    Example:
        >>> flash_attn_varlen_func(q, k, v, **varlen_arguments(batch))
        ... # doctest: +SKIP
    """
    check_borders(batch)
    borders, longest = batch["cu_seqlens"], batch["max_seqlen"]
    return {
        "cu_seqlens_q": borders,
        "cu_seqlens_k": borders,
        "max_seqlen_q": longest,
        "max_seqlen_k": longest,
        "causal": True,
    }


def sdpa_mask(document_ids: torch.Tensor) -> torch.Tensor:
    """Return the mask of ``scaled_dot_product_attention``.

    A token sees itself and earlier tokens of its document. Padding sees padding: a
    query that sees no key would give NaN.

    Args:
        document_ids: int32 [batch_size, length].

    Returns:
        bool [batch_size, 1, length, length], True where a query sees a key.
    """
    is_same = document_ids[:, :, None] == document_ids[:, None, :]
    return is_same.tril()[:, None]


def flex_mask(document_ids: torch.Tensor) -> MaskMod:
    """Return the ``mask_mod`` of ``create_block_mask`` for FlexAttention.

    Args:
        document_ids: int32 [batch_size, length], on the device of the attention.

    Example:
        >>> create_block_mask(flex_mask(ids), B=8, H=None, Q_LEN=2048, KV_LEN=2048)
        ... # doctest: +SKIP
    """

    def sees(
        row: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        is_same = document_ids[row, query] == document_ids[row, key]
        return is_same & (key <= query)

    return sees


def check_isolation(attend: Attention, batch: Mapping[str, Any]) -> None:
    """Check that attention sees earlier tokens of the same document, and no others.

    It changes the keys and values of one document after another. Outputs of other
    documents, and of earlier tokens, must not change; outputs from the changed token on
    must.

    Args:
        attend: The attention of a model with the masks of this batch.
        batch: With ``document_ids``; small, as attention runs twice per document.

    Raises:
        InvalidArgumentError: Naming the token that sees too much or too little.

    Example:
        >>> mask = sdpa_mask(batch["document_ids"])  # doctest: +SKIP
        >>> check_isolation(  # doctest: +SKIP
        ...     lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=mask),
        ...     batch,
        ... )
    """
    torch = require("torch", extra="torch", purpose="check_isolation")
    ids = batch["document_ids"]
    generator = torch.Generator().manual_seed(0)
    shape = (ids.shape[0], 2, ids.shape[1], 16)
    query, key, value = (
        torch.randn(shape, generator=generator).to(ids.device) for _ in range(3)
    )
    usual = attend(query, key, value)
    for row, last_document in enumerate(ids.amax(dim=1).tolist()):
        for document in range(last_document + 1):
            tokens = torch.nonzero(ids[row] == document)[:, 0]
            for changed in {int(tokens[0]), int(tokens[len(tokens) // 2])}:
                other_key, other_value = key.clone(), value.clone()
                other_key[row, :, changed] += 1
                other_value[row, :, changed] += 1
                out = attend(query, other_key, other_value)
                differs = ((out - usual).abs() > 1e-6).any(dim=3).any(dim=1)
                _compare(ids, differs, row, document, changed)


def _compare(
    ids: torch.Tensor, differs: torch.Tensor, row: int, document: int, changed: int
) -> None:
    expected = differs.new_zeros(ids.shape)
    expected[row] = ids[row] == document
    expected[row, :changed] = False
    wrong = (differs != expected).nonzero()
    if len(wrong):
        at_row, at = wrong[0].tolist()
        sees = "sees" if differs[at_row, at] else "does not see"
        raise InvalidArgumentError(
            f"attention at row {at_row}, token {at} {sees} token {changed} of "
            f"row {row} in document {document}; expected: a token sees those up to "
            "it in its document and no others. Give the attention the masks of this "
            "batch"
        )
