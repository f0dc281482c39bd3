"""Tune on what the assistant says alone: python examples/finetune_chat.py RUN."""

import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.nn import functional

import pagefeed as pf
from pagefeed.torch import sdpa_mask

TURN, END, WORDS = 256, 257, ("red", "green", "blue", "black", "white")
feed = partial(
    pf.Loader,
    sequences=pf.Packed(128),
    batch_size=4,
    fields=("input_ids", "labels", "position_ids", "document_ids"),
    format="torch",
    drop_last=False,
)


def write(path: Path, chats: range) -> pf.dataset.ParquetDataset:
    """Write chats as a template makes them: labels are -100 outside of answers."""
    rows: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    for number in chats:
        ids, labels = [], []
        for turn in range(1 + number % 3):
            word = WORDS[(number + turn) % len(WORDS)].encode()
            ids += [TURN, *b"say ", *word, TURN, *word]
            labels += [-100] * (6 + len(word)) + [*word]
        rows["input_ids"].append([*ids, END])
        rows["labels"].append([*labels, END])
    pq.write_table(pa.table(rows), path)
    return pf.parquet(path, column="input_ids", aligned=["labels"])


class Model(torch.nn.Module):
    """One layer of attention, which stays inside the chat."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(END + 1, width)
        self.places = torch.nn.Embedding(128, width)
        self.attention = torch.nn.Linear(width, 3 * width)
        self.inner = torch.nn.Linear(width, width)

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the sum of the losses: a token is told from those before it."""
        x = self.tokens(batch["input_ids"]) + self.places(batch["position_ids"])
        query, key, value = self.attention(x).unsqueeze(1).chunk(3, dim=-1)
        attend = functional.scaled_dot_product_attention
        x = x + attend(query, key, value, sdpa_mask(batch["document_ids"]))[:, 0]
        told = (x + self.inner(x).relu())[:, :-1] @ self.tokens.weight.T
        labels = batch["labels"][:, 1:].flatten()
        return functional.cross_entropy(told.flatten(0, 1), labels, reduction="sum")


def main(run: Path) -> None:
    """Train, and evaluate on each chat that was left out, exactly once."""
    run.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for batch in feed(write(run / "train.parquet", range(64, 576)), epochs=3):
        optimizer.zero_grad()
        (model.loss(batch) / (batch["labels"] != -100).sum()).backward()
        optimizer.step()
    loss = count = 0.0
    for batch in feed(write(run / "test.parquet", range(64))):
        loss += float(model.loss(batch).item())
        count += int((batch["labels"] != -100).sum())
    print(f"{count:.0f} labels never seen, their mean loss is {loss / count:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
