"""Train a concept head from spans, from Parquet and from a flat stream alike.

    python examples/train_concepts.py FOLDER

Both give the same batches.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import pagefeed as pf

LENGTH, BATCH, CONCEPTS = 64, 4, 4
SPAN = pa.struct([("start", "int32"), ("end", "int32"), ("payload", pa.binary())])


def write(folder: Path, count: int = 400) -> None:
    """Write documents with stretches of tokens that are of a concept."""
    rng, documents, concepts = np.random.default_rng(0), [], []
    with pf.StreamWriter(folder / "stream", dtype="u2", serialize="bytes") as stream:
        for length in rng.integers(10, 90, count).tolist():
            ids, spans = rng.integers(0, 100, length), []
            for start in range(0, length - 9, 10):
                concept, end = int(rng.integers(1, CONCEPTS)), start + 6
                ids[start:end] += 100 * concept
                spans.append((start, end, bytes([concept])))
            stream.append(ids, spans=spans)
            documents.append(ids)
            concepts.append(
                [dict(zip(SPAN.names, span, strict=True)) for span in spans]
            )
    columns = {"input_ids": documents, "concepts": pa.array(concepts, pa.list_(SPAN))}
    pq.write_table(pa.table(columns), folder / "a.parquet")


folder = Path(sys.argv[1])
write(folder)
parquet = pf.parquet(folder / "a.parquet", column="input_ids", spans=["concepts"])
stream = pf.stream(folder / "stream", spans=["concepts"])
make = partial(
    pf.Loader,
    sequences=pf.Windows(LENGTH),
    batch_size=BATCH,
    shuffle=None,
    format="torch",
    fields=("input_ids", "metadata"),
)
head = nn.Sequential(nn.Embedding(500, 16), nn.Linear(16, CONCEPTS))
optimizer = torch.optim.AdamW(head.parameters(), lr=3e-2)
for batch, other in zip(make(parquet), make(stream), strict=True):
    tokens, table = batch["input_ids"], pa.table(batch["metadata"])
    assert torch.equal(tokens, other["input_ids"])
    assert table == pa.table(other["metadata"])
    wanted = torch.zeros_like(tokens)
    for part in table.to_pylist():
        for span in part["concepts"]:
            wanted[part["sequence"], span["start"] : span["end"]] = span["payload"][0]
    loss = nn.functional.cross_entropy(head(tokens).transpose(1, 2), wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss:.3f} after {len(make(stream))} steps")
