"""A tiny model trained on the batches of a run: whether they can be learned from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Work, require
from pagefeed.tokenizer import IGNORED

UPDATES = 32
MOST_LOGITS = 1 << 21
"""Logits of an update at most: fewer tokens of a batch for a large vocabulary."""
WIDTH = 32
RATE = 3e-2

Tokens = npt.NDArray[np.int64]


def learn(
    pairs: Sequence[tuple[Tokens, Tokens]], vocab_size: int, model: Any | None
) -> list[float]:
    """Train a tiny model on pairs of tokens and following tokens.

    Args:
        pairs: Tokens and targets of each batch: int64 [batch, length] each.
        vocab_size: Tokens are below it.
        model: A torch module; by default a tiny one.

    Returns:
        Loss before each update, in nats a token.

    Raises:
        MissingDependencyError: If torch is not installed.
    """
    torch: Any = require("torch", extra="torch", purpose="training a tiny model")
    with ExitStack() as undo, torch.random.fork_rng(devices=[]):
        # Little work on many threads is slow, above all on a busy machine.
        undo.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        torch.manual_seed(0)
        trained = _tiny(torch, vocab_size) if model is None else model
        weights = [
            parameter for parameter in trained.parameters() if parameter.requires_grad
        ]
        means = [torch.zeros_like(parameter) for parameter in weights]
        losses = []
        with Work("training a tiny model", total=UPDATES, unit="updates") as work:
            for update in range(UPDATES):
                tokens, targets = pairs[update % len(pairs)]
                loss = _loss(torch, trained, tokens, targets, vocab_size)
                losses.append(float(loss.detach()))
                if loss.requires_grad:
                    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
                    _update(torch, weights, means, gradients)
                work.advance()
    return losses


def _update(
    torch: Any, weights: list[Any], means: list[Any], gradients: Sequence[Any]
) -> None:
    """Move each weight against the sign of its mean gradient.

    That works for models of any scale, like Adam, of which the import takes seconds.
    """
    with torch.no_grad():
        for weight, mean, gradient in zip(weights, means, gradients, strict=True):
            if gradient is not None:
                weight.sub_(mean.lerp_(gradient, 0.1).sign(), alpha=RATE)


def _tiny(torch: Any, vocab_size: int) -> Any:
    """Return an embedding and a head that predict the next token; all start alike."""
    embedding = torch.nn.Embedding(vocab_size, WIDTH)
    head = torch.nn.Linear(WIDTH, vocab_size)
    torch.nn.init.normal_(head.weight, std=0.002)
    torch.nn.init.zeros_(head.bias)
    return torch.nn.Sequential(embedding, head)


def _loss(
    torch: Any, model: Any, tokens: Tokens, targets: Tokens, vocab_size: int
) -> Any:
    length = tokens.shape[1]
    rows = max(1, MOST_LOGITS // vocab_size // max(1, length))
    columns = max(8, min(length, MOST_LOGITS // vocab_size))
    ids = torch.from_numpy(tokens[:rows, :columns].copy())
    wanted = torch.from_numpy(targets[:rows, :columns].copy())
    output = model(ids)
    logits = getattr(output, "logits", output)
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        wanted.reshape(-1),
        ignore_index=IGNORED,
    )
