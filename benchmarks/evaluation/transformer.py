"""A small transformer, and its training on whatever a loader delivers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

import pagefeed as pf

IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the model is, and how it is trained."""

    width: int
    layers: int
    heads: int
    length: int
    batch_size: int
    rate: float = 2e-3
    warmup: int = 40


SIZES = {
    "full": Size(width=256, layers=4, heads=4, length=256, batch_size=32),
    # An hour on two processors, for all orders and three seeds.
    "medium": Size(width=64, layers=2, heads=2, length=128, batch_size=32, rate=4e-3),
    "small": Size(width=16, layers=1, heads=1, length=32, batch_size=64),
}


class Epoch(Protocol):
    """Batches, and how many."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...


class Transformer(nn.Module):
    """A decoder before its blocks are normalised, as GPT-2, with tied embeddings."""

    def __init__(self, vocab_size: int, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, size.width)
        self.places = nn.Embedding(size.length, size.width)
        block = nn.TransformerEncoderLayer(
            size.width,
            size.heads,
            4 * size.width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(
            block, size.layers, enable_nested_tensor=False
        )
        self.norm = nn.LayerNorm(size.width)
        for weight in (self.tokens.weight, self.places.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [batch, length, vocabulary] of ids [batch, length]."""
        length = ids.shape[1]
        hidden = self.tokens(ids) + self.places.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, ids.device)
        hidden = self.blocks(hidden, mask=mask, is_causal=True)
        logits: torch.Tensor = self.norm(hidden) @ self.tokens.weight.T
        return logits


def train(loader: Epoch, vocab_size: int, size: Size, seed: int) -> Transformer:
    """One epoch of a loader, with warm-up and a cosine to nothing."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)  # The same first weights for every order of a seed.
    model = Transformer(vocab_size, size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.rate, betas=(0.9, 0.95))
    steps = len(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            min(1.0, (step + 1) / size.warmup)
            * 0.5
            * (1 + math.cos(math.pi * min(1.0, step / steps)))
        ),
    )
    model.train()
    for batch in loader:
        loss = _loss(model, batch, device)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


def perplexity(model: Transformer, loader: pf.Loader) -> float:
    """Perplexity of all tokens that a loader delivers, each once."""
    device = next(model.parameters()).device
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for batch in loader:
            labels = int((batch["labels"] != IGNORED).sum())
            total += float(_loss(model, batch, device)) * labels
            count += labels
    return math.exp(total / count)


def _loss(model: Transformer, batch: dict[str, Any], device: object) -> torch.Tensor:
    ids, labels = batch["input_ids"].to(device), batch["labels"].to(device)
    logits = model(ids)
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED
    )
