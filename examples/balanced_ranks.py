"""Step times of two ranks that train, with balanced ranks and without, side by side.

    python examples/balanced_ranks.py [--steps 60]

Documents of log-normal lengths are packed into sequences. A small transformer attends
inside documents, and the gradients of two processes are averaged after each step, which
so takes as long as the slower one.
"""

import argparse
import itertools
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn import functional

import pagefeed as pf

LENGTH = 4096
WIDTH, HEADS, VOCABULARY = 64, 2, 512
RANKS = 2


def write_corpus(folder: Path) -> None:
    """Token lists of log-normal lengths, median 600."""
    rng = np.random.default_rng(0)
    for part in range(4):
        lengths = rng.lognormal(np.log(600), 1.3, 2000).astype(int).clip(1, LENGTH)
        rows = [rng.integers(1, VOCABULARY, n, dtype=np.int32) for n in lengths]
        table = pa.table({"input_ids": rows})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=200)


class Block(torch.nn.Module):
    """A layer of a transformer that attends inside documents."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.outside = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, states: torch.Tensor, borders: list[int]) -> torch.Tensor:
        """Attend, document by document, as varlen kernels do."""
        q, k, v = (
            self.inside(states).view(len(states), 3, HEADS, -1).permute(1, 2, 0, 3)
        )
        parts = [
            functional.scaled_dot_product_attention(
                q[:, a:b], k[:, a:b], v[:, a:b], is_causal=True
            )
            for a, b in itertools.pairwise(borders)
        ]
        attended = torch.cat(parts, dim=1).transpose(0, 1).reshape(states.shape)
        out: torch.Tensor = states + self.outside(attended)
        return out


class Model(torch.nn.Module):
    """Two layers over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss of a batch."""
        states = self.tokens(batch["input_ids"].flatten())
        borders = batch["cu_seqlens"].tolist()
        for block in self.blocks:
            states = block(states, borders)
        labels = batch["labels"].flatten()[1:]
        return functional.cross_entropy(self.head(states[:-1]), labels)


def train(balance: str | None, folder: str, rank: int, steps: int) -> None:
    """Train on one rank; rank 0 prints how long steps took."""
    torch.manual_seed(0)
    model = Model()
    loader = pf.Loader(
        pf.parquet(f"{folder}/*.parquet", column="input_ids"),
        sequences=pf.Packed(LENGTH),
        batch_size=1,
        balance=balance,
        format="torch",
        fields=("input_ids", "labels", "cu_seqlens"),
        rank=rank,
        world_size=RANKS,
        num_threads=1,
    )
    seconds, own = [], []
    for _, batch in zip(range(steps), loader, strict=False):
        begin, busy = time.perf_counter(), time.thread_time()
        model.zero_grad()
        model(batch).backward()
        own.append(time.thread_time() - busy)
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        seconds.append(time.perf_counter() - begin)
    everyone: list[Any] = [None] * RANKS
    dist.all_gather_object(everyone, own)
    slowest = [max(each) for each in zip(*everyone, strict=True)]
    if rank == 0:
        print(
            f"balance={balance!r}: {1000 * statistics.mean(seconds):.0f} ms a step, "
            f"the slower rank computes for {1000 * statistics.mean(slowest):.0f} ms",
            flush=True,
        )


def run_rank(rank: int, folder: str, steps: int) -> None:
    """Train without and with, in one process of each rank."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS
    )
    torch.set_num_threads(1)
    # Steps of one sequence a rank, to see what each costs.
    warnings.simplefilter("ignore", pf.errors.BalanceWarning)
    for balance in (None, "attention"):
        train(balance, folder, rank, steps)
    dist.destroy_process_group()


def main() -> None:
    """Train on all ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder))
        spawn(run_rank, args=(folder, arguments.steps), nprocs=RANKS)


if __name__ == "__main__":
    main()
