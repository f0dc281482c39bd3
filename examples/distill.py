"""Train a student on a teacher's top-k, read from Parquet.

    python examples/distill.py FOLDER

The teacher runs once and writes what it says of each token. The student then learns
from the files, packed, and resumes on two ranks. At every step its loss is compared
with that of the teacher beside it.
"""

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

import pagefeed as pf

VOCABULARY, WIDTH, K, LENGTH, BATCH, STEPS = 100, 64, 8, 128, 8, 20


def model() -> nn.Module:
    """Return a language model of one token of context."""
    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), nn.Tanh(), nn.Linear(WIDTH, VOCABULARY)
    )


@torch.no_grad()
def top_k(teacher: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids and log-probabilities of what may follow: [..., k] each."""
    found = (8 * teacher(tokens)).log_softmax(-1).topk(K)
    return found.indices, found.values


def loss_of(
    student: nn.Module, tokens: Tensor, ids: Tensor, logprobs: Tensor
) -> Tensor:
    """Return the forward KL over the teacher's top-k, mean over its tokens."""
    of_teacher = logprobs.log_softmax(-1)
    of_student = student(tokens).log_softmax(-1).gather(-1, ids.clamp(min=0))
    each = (of_teacher.exp() * (of_teacher - of_student)).sum(-1)
    mean: Tensor = each[ids[..., 0] >= 0].mean()
    return mean


def write_rows(file: Path, rows: list[list[np.ndarray]], k: int) -> None:
    """Write rows: tokens [n], and a teacher's ids and log-probabilities [n, k]."""
    tokens, ids, logprobs = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    starts = np.cumsum([0, *(len(row[0]) for row in rows)]).astype(np.int32)

    def column(values: Any) -> Any:
        return pa.ListArray.from_arrays(starts, values)

    def wide(values: np.ndarray) -> Any:
        return column(pa.FixedSizeListArray.from_arrays(values.ravel(), k))

    table = pa.table(
        {
            "input_ids": column(tokens.astype(np.int32)),
            "teacher_ids": wide(ids.astype(np.int32)),
            "teacher_logprobs": wide(logprobs),
        }
    )
    pq.write_table(table, file, row_group_size=100, use_dictionary=False)


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
teacher, student = model(), model()
for part in range(8):
    rows = []
    for length in torch.randint(5, 61, (100,)).tolist():
        tokens = torch.randint(1, VOCABULARY, (length,))
        rows.append([each.numpy() for each in (tokens, *top_k(teacher, tokens))])
    write_rows(folder / f"part-{part}.parquet", rows, K)

data = pf.parquet(
    folder,
    column="input_ids",
    aligned={"teacher_ids": pf.Aligned(padding=-1), "teacher_logprobs": 0.0},
)


def loader(rank: int, world_size: int) -> pf.Loader:
    """Return the loader of a rank."""
    return pf.Loader(
        data,
        sequences=pf.Packed(LENGTH),
        batch_size=BATCH // world_size,
        seed=0,
        rank=rank,
        world_size=world_size,
        format="torch",
        fields=("input_ids", "attention_mask"),
    )


optimizer = torch.optim.AdamW(student.parameters(), lr=2e-2)


def train(batch: dict[str, Tensor]) -> float:
    """Take a step on the files alone; compare its loss with the teacher's beside it."""
    tokens, ids = batch["input_ids"], batch["teacher_ids"].long()
    loss = loss_of(student, tokens, ids, batch["teacher_logprobs"])
    own_ids, own_logprobs = top_k(teacher, tokens)
    own_ids[~batch["attention_mask"]] = -1
    beside = loss_of(student, tokens, own_ids, own_logprobs)
    assert torch.allclose(loss, beside, rtol=1e-5), (loss, beside)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


one = loader(0, 1)
losses = [train(batch) for batch in islice(one, STEPS)]
state = one.state_dict()  # here a run of one rank ends, and one of two begins
ranks = [loader(rank, 2) for rank in range(2)]
for each in ranks:
    each.load_state_dict(state)
# In the order of the batch that one rank would have: rank after rank.
joined = (
    {name: torch.cat([batch[name] for batch in some]) for name in some[0]}
    for some in zip(*ranks, strict=True)
)
losses += [train(batch) for batch in joined]
print(f"loss {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} steps, as beside it")
assert losses[-1] < losses[0] / 2
