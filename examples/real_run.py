"""A transformer on tokens in a bucket: killed, resumed on other ranks, balanced or not.

    torchrun --nproc-per-node 2 examples/real_run.py --die-at=90 s3://corpus/tokens run
    torchrun --nproc-per-node 4 examples/real_run.py --steps=160 s3://corpus/tokens run
    python examples/real_run.py --show run

The global batch is the same on any number of ranks, and so are its sequences. Each step
leaves a line in RUN/steps.jsonl: its loss, and the processor time of its slowest rank
and of the mean of all. ``BALANCE=attention`` in the environment makes these two alike.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

import pagefeed as pf

LENGTH, GLOBAL_BATCH, HEADS = 1024, 8, 2


class Block(torch.nn.Module):
    """A layer of a transformer that attends inside documents."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.inside = torch.nn.Linear(width, 3 * width)
        self.outside = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, states: torch.Tensor, borders: list[int]) -> torch.Tensor:
        """Attend, document by document, as varlen kernels do."""
        tokens = len(states)
        projected = self.inside(self.norms[0](states))
        q, k, v = projected.view(tokens, 3, HEADS, -1).permute(1, 2, 0, 3)
        parts = [
            functional.scaled_dot_product_attention(
                q[:, a:b], k[:, a:b], v[:, a:b], is_causal=True
            )
            for a, b in itertools.pairwise(borders)
        ]
        attended = torch.cat(parts, dim=1).transpose(0, 1).reshape(states.shape)
        states = states + self.outside(attended)
        hidden = functional.gelu(self.wide(self.norms[1](states)))
        out: torch.Tensor = states + self.narrow(hidden)
        return out


class Model(torch.nn.Module):
    """Layers over tokens and their positions in their documents."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(LENGTH, width)
        for table in (self.tokens, self.positions):
            torch.nn.init.normal_(table.weight, std=0.02)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the sum of the losses of a batch."""
        states = self.tokens(batch["input_ids"].flatten())
        states = states + self.positions(batch["position_ids"].flatten())
        borders = batch["cu_seqlens"].tolist()
        for block in self.blocks:
            states = block(states, borders)
        logits = self.norm(states) @ self.tokens.weight.T
        labels = batch["labels"].flatten()
        return functional.cross_entropy(logits, labels, reduction="sum")


def train(given: argparse.Namespace) -> None:
    """Train up to a step, from the last checkpoint there is."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(given.vocabulary, given.width, given.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = pf.Loader(
        pf.parquet(given.tokens, column="input_ids", cache_dir=given.run / "index"),
        sequences=pf.Packed(LENGTH, eos=0),
        batch_size=GLOBAL_BATCH // world_size,
        balance=given.balance,
        seed=1,
        format="torch",
        fields=pf.Fields(
            names=("input_ids", "labels", "position_ids", "cu_seqlens"), shifted=True
        ),
        num_threads=1,
    )
    saved: dict[str, Any] = {"model": model, "optimizer": optimizer, "data": loader}
    checkpoint = given.run / "checkpoint.pt"
    if checkpoint.exists():
        for name, state in torch.load(checkpoint).items():
            saved[name].load_state_dict(state)
    if rank == 0:
        print(f"begins at step {loader.step} on {world_size} ranks", flush=True)
    waited = 0.0
    for batch in loader:
        begun, busy = time.perf_counter(), time.thread_time()
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        own = time.thread_time() - busy
        learned = (batch["labels"] != -100).sum()
        sums = torch.stack([loss.detach().double(), learned.double()])
        dist.all_reduce(sums)
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= sums[1]
        optimizer.step()
        stats = loader.stats()["wait_seconds"]
        numbers = [own, time.perf_counter() - begun, stats - waited]
        waited = stats
        everyone: list[Any] = [None] * world_size
        dist.all_gather_object(everyone, numbers)
        if rank == 0:
            note(given.run, loader.step, sums, everyone)
            if loader.step % given.save_every == 0 or loader.step == given.steps:
                states = {name: part.state_dict() for name, part in saved.items()}
                torch.save(states, given.run / "unfinished.pt")
                (given.run / "unfinished.pt").replace(checkpoint)
        if loader.step == given.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if loader.step == given.steps:
            break
    dist.destroy_process_group()


def note(run: Path, step: int, sums: torch.Tensor, everyone: list[Any]) -> None:
    """Write what a step was like, as a line."""
    own, seconds, waits = zip(*everyone, strict=True)
    line = {
        "step": step,
        "loss": (sums[0] / sums[1]).item(),
        "tokens": int(sums[1]),
        "slowest_rank": max(own),
        "mean_rank": statistics.mean(own),
        "seconds": max(seconds),
        "wait_for_data": max(waits),
        "ranks": len(everyone),
    }
    with (run / "steps.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def show(run: Path) -> None:
    """Print a line for each number of ranks in a run, and the last loss."""
    lines = list(map(json.loads, (run / "steps.jsonl").read_text().splitlines()))
    for ranks, some in itertools.groupby(lines, lambda line: line["ranks"]):
        steps = list(some)
        slowest, mean, seconds, waits = (
            statistics.mean(step[name] for step in steps)
            for name in ("slowest_rank", "mean_rank", "seconds", "wait_for_data")
        )
        print(
            f"{ranks} ranks, steps {steps[0]['step']} to {steps[-1]['step']}: "
            f"slowest rank {slowest / mean:.3f} x the mean, {1000 * mean:.0f} ms of a "
            f"processor, {1000 * seconds:.0f} ms in all, {1000 * waits:.1f} ms for data"
        )
    last = lines[-50:]
    loss = sum(line["loss"] for line in last) / len(last)
    tokens = sum({line["step"]: line["tokens"] for line in lines}.values())
    print(f"loss of the last {len(last)} steps {loss:.4f}, {tokens:,} tokens in all")


def main() -> None:
    """Train, or show what a run was like."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", help="a URL or a folder of Parquet with input_ids")
    parser.add_argument("run", type=Path, nargs="?", help="a folder for the run")
    parser.add_argument("--balance", default=os.environ.get("BALANCE"))
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--die-at", type=int, help="kill each rank behind this step")
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="only print a run")
    given = parser.parse_args()
    if given.show:
        show(Path(given.tokens))
        return
    given.run.mkdir(parents=True, exist_ok=True)
    train(given)


if __name__ == "__main__":
    main()
