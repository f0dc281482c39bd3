"""Losses of single tokens, from a model's logits."""

from __future__ import annotations

from typing import Any

from pagefeed.core._base import IGNORED, require

__all__ = ["token_losses"]

TOKENS_AT_ONCE = 1 << 10
"""Tokens whose logits are converted to float32 together."""


def token_losses(logits: Any, labels: Any, *, ignore_index: int = IGNORED) -> Any:
    """Return the cross entropy of every label; without gradients.

    Some logits at a time are converted to float32, so that it takes little memory
    beside them.

    Args:
        logits: [..., tokens, vocabulary], each for the label at its place.
        labels: int [..., tokens].
        ignore_index: Label without a loss: 0 there.

    Returns:
        A tensor of the labels' shape.

    Example:
        >>> import torch
        >>> token_losses(torch.zeros(1, 3, 4), torch.tensor([[1, -100, 2]]))
        tensor([[1.3863, 0.0000, 1.3863]])
    """
    torch = require("torch", extra="torch", purpose="losses of datasets")
    precise = torch.promote_types(logits.dtype, torch.float32)
    with torch.no_grad():
        flat, targets = logits.detach().flatten(0, -2), labels.reshape(-1)
        losses = [
            torch.nn.functional.cross_entropy(
                flat[begin : begin + TOKENS_AT_ONCE].to(precise),
                targets[begin : begin + TOKENS_AT_ONCE],
                ignore_index=ignore_index,
                reduction="none",
            )
            for begin in range(0, len(targets), TOKENS_AT_ONCE)
        ]
        return torch.cat(losses).reshape(labels.shape)
