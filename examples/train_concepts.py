"""Train a concept head from spans, from Parquet and from a flat stream alike.

    python examples/train_concepts.py FOLDER

Both give the same batches.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import pagefeed as pf

LENGTH, BATCH, CONCEPTS = 64, 4, 4
RECORD = [("token", "u2"), ("metadata", "u4")]
Batches = Iterator[tuple[torch.Tensor, list[Any]]]


def write(folder: Path, count: int = 400) -> None:
    """Write documents with stretches of tokens that are of a concept."""
    rng, rows = np.random.default_rng(0), []
    with pf.StreamWriter(folder / "stream", dtype=RECORD) as stream:
        for length in rng.integers(10, 90, count).tolist():
            ids, spans = rng.integers(0, 100, length), []
            for start in range(0, length - 9, 10):
                concept, end = int(rng.integers(1, CONCEPTS)), start + 6
                ids[start:end] += 100 * concept
                spans.append({"start": start, "end": end, "concept": concept})
            rows.append({"input_ids": ids, "concepts": spans})
            payload = [(s["start"], s["end"], bytes([s["concept"]])) for s in spans]
            stream.append(ids, spans=payload)
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")


def from_parquet(loader: pf.Loader) -> Batches:
    """Yield tokens and spans: sequence, start, end, concept."""
    for batch in loader:
        found = [
            (part["sequence"], span["start"], span["end"], span["concept"])
            for part in batch["metadata"].to_pylist()
            for span in part["concepts"]
        ]
        yield batch["input_ids"], found


def from_stream(loader: pf.Loader, stream: pf.StreamDataset) -> Batches:
    """Yield the same, by the documents that a sequence has parts of."""
    for step, batch in enumerate(loader):
        found = []
        for row in range(BATCH):
            for part in loader.locate(step, row):
                first, end = part.first_token, part.first_token + part.num_tokens
                shift = part.offset - first
                for begin, stop, payload in stream.document(part.row).spans:
                    if begin < end and stop > first:
                        place = max(begin, first) + shift, min(stop, end) + shift
                        found.append((row, *place, payload[0]))
        yield batch["input_ids"], found


folder = Path(sys.argv[1])
write(folder)
rows = pf.parquet(folder / "a.parquet", column="input_ids", spans=["concepts"])
stream = pf.stream(folder / "stream")
make = partial(pf.Loader, sequences=pf.Windows(LENGTH), batch_size=BATCH, shuffle=None)
told = make(rows, format="torch", fields=("input_ids", "metadata"))
plain = make(stream, format="torch")
ways = from_parquet(told), from_stream(plain, stream)
head = nn.Sequential(nn.Embedding(500, 16), nn.Linear(16, CONCEPTS))
optimizer = torch.optim.AdamW(head.parameters(), lr=3e-2)
for (tokens, spans), (same, others) in zip(*ways, strict=True):
    assert torch.equal(tokens, same) and spans == others  # noqa: PT018
    wanted = torch.zeros_like(tokens)
    for row, start, end, concept in spans:
        wanted[row, start:end] = concept
    loss = nn.functional.cross_entropy(head(tokens).transpose(1, 2), wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss:.3f} after {len(told)} steps")
