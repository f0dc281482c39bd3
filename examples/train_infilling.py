"""Train a small model that fills in the middle of documents.

    python examples/train_infilling.py FOLDER

Documents count upwards. The model learns on infilled documents where a middle begins,
how it goes on, and that it ends where the suffix goes on.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import pagefeed as pf

NUMBERS, LENGTH, STEPS, WIDTH = 32, 24, 300, 32
PREFIX, MIDDLE, SUFFIX, END, PADDING = range(NUMBERS, NUMBERS + 5)


class Model(nn.Module):
    """A transformer of two layers that looks back only."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(PADDING + 1, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, PADDING + 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Predict the token behind each: [batch, length, tokens]."""
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.tokens(tokens) + self.places(torch.arange(length))
        predicted: torch.Tensor = self.head(self.layers(hidden, mask, is_causal=True))
        return predicted


def filled_in(model: Model, prefix: list[int], suffix: list[int]) -> list[int]:
    """What a model writes between the two, until it ends the middle."""
    prompt = [PREFIX, *prefix, SUFFIX, *suffix, MIDDLE]
    tokens = list(prompt)
    while len(tokens) < LENGTH and tokens[-1] != END:
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt) : -1]


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(0)
documents = []
for _ in range(4000):
    first, count = rng.integers(0, NUMBERS - 16), rng.integers(9, 16)
    documents.append(np.arange(first, first + count))
pq.write_table(pa.table({"input_ids": documents}), folder / "counting.parquet")

infill = pf.Infill(prefix=PREFIX, middle=MIDDLE, suffix=SUFFIX, end=END, rate=1, spm=0)
dataset = pf.parquet(folder / "counting.parquet", column="input_ids").infill(infill)
loader = pf.Loader(
    dataset,
    sequences=pf.Documents(max_length=LENGTH, pad="max_length"),
    batch_size=64,
    seed=1,
    epochs=None,
    padding=PADDING,
    format="torch",
    fields=("input_ids", "labels"),
)
torch.set_num_threads(1)
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _, batch in zip(range(STEPS), loader, strict=False):
    predicted = model(batch["input_ids"][:, :-1]).transpose(1, 2)
    loss = nn.functional.cross_entropy(predicted, batch["labels"][:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
wanted = [[*range(at + 4, at + 7)] for at in range(20)]
parts = [([*range(at, at + 4)], [*range(at + 7, at + 10)]) for at in range(20)]
written = [filled_in(model, prefix, suffix) for prefix, suffix in parts]
right = sum(a == b for a, b in zip(wanted, written, strict=True))
print(f"loss {loss.item():.3f} after {STEPS} steps in {loader.epoch + 1} epochs")
print(f"{right} of {len(wanted)} middles are filled in exactly")
