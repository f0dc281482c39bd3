"""A tiny model trained on the batches of a run: whether they can be learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import Work, require
from pagefeed.tokenizer import IGNORED

__all__ = ["Learning", "Model", "learn"]

Model = Callable[[Any], Any]
"""Token ids [batch, length] to logits [batch, length, vocabulary], a torch module."""

UPDATES = 32
MOST_LOGITS = 1 << 21
"""Logits of an update at most: fewer tokens of a batch for a large vocabulary."""
WIDTH = 32
RATE = 3e-2

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Losses of the updates, in nats a token."""

    losses: list[float]
    """Loss before each update."""

    @property
    def initial(self) -> float:
        """Loss of the model as it was made."""
        return self.losses[0]

    @property
    def final(self) -> float:
        """Mean loss of the last updates."""
        return float(np.mean(self.losses[-4:]))


def learn(
    pairs: Sequence[tuple[Tokens, Tokens]],
    vocab_size: int,
    model: Any | None,  # noqa: ANN401 - a torch module
) -> Learning:
    """Train on tokens and what follows each of them.

    Args:
        pairs: Tokens and targets of each batch: int64 [batch, length] each.
        vocab_size: Tokens are below it.
        model: A torch module; by default a tiny one.

    Raises:
        MissingDependencyError: If torch is not installed.
    """
    torch: Any = require("torch", extra="torch", purpose="training a tiny model")
    with _one_thread(torch), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trained = _tiny(torch, vocab_size) if model is None else model
        adam = _Adam(torch, [w for w in trained.parameters() if w.requires_grad])
        losses = []
        with Work("training a tiny model", total=UPDATES, unit="updates") as work:
            for update in range(UPDATES):
                tokens, targets = pairs[update % len(pairs)]
                loss = _loss(torch, trained, tokens, targets, vocab_size)
                losses.append(float(loss.detach()))
                if loss.requires_grad:
                    loss.backward()
                    adam.update()
                work.advance()
    return Learning(losses=losses)


class _Adam:
    """The usual optimizer; that of torch takes seconds to import."""

    def __init__(self, torch: Any, weights: list[Any]) -> None:  # noqa: ANN401
        self._torch = torch
        self._held = [
            (each, torch.zeros_like(each), torch.zeros_like(each)) for each in weights
        ]
        self._count = 0

    def update(self) -> None:
        """Change the weights by their gradients, and forget these."""
        self._count += 1
        with self._torch.no_grad():
            for weight, mean, square in self._held:
                if weight.grad is None:
                    continue
                mean.lerp_(weight.grad, 0.1)
                square.lerp_(weight.grad.square(), 0.01)
                scale = (square / (1 - 0.99**self._count)).sqrt_().add_(1e-8)
                weight.addcdiv_(mean, scale, value=-RATE / (1 - 0.9**self._count))
                weight.grad = None


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:  # noqa: ANN401
    """Tiny work on many threads is slower, much so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tiny(torch: Any, vocab_size: int) -> Any:  # noqa: ANN401 - torch is an extra
    """An embedding and a head: the likeliest token after each, at first all alike."""
    embedding = torch.nn.Embedding(vocab_size, WIDTH)
    head = torch.nn.Linear(WIDTH, vocab_size)
    torch.nn.init.normal_(head.weight, std=0.002)
    torch.nn.init.zeros_(head.bias)
    return torch.nn.Sequential(embedding, head)


def _loss(
    torch: Any,  # noqa: ANN401
    model: Any,  # noqa: ANN401
    tokens: Tokens,
    targets: Tokens,
    vocab_size: int,
) -> Any:  # noqa: ANN401
    length = tokens.shape[1]
    rows = max(1, MOST_LOGITS // vocab_size // max(1, length))
    columns = max(8, min(length, MOST_LOGITS // vocab_size))
    ids = torch.from_numpy(tokens[:rows, :columns].copy())
    wanted = torch.from_numpy(targets[:rows, :columns].copy())
    made = model(ids)
    logits = getattr(made, "logits", made)
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        wanted.reshape(-1),
        ignore_index=IGNORED,
    )
