"""What a queue of prompts costs, and what other checkpoints lose of a killed run.

    python benchmarks/bench_prompts.py [--prompts 200000]

Processor time of a call; the time of a row in batches of 64 from local files, once its
page is in memory; and time and size of states. Then a simulated run of 4,000 prompts:
64 workers whose answers take lognormal times, a checkpoint every 100 answers, five
kills. It is done once with a queue, and once with the saved position of a loader.
"""

import argparse
import heapq
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

PROMPTS, WORKERS, EVERY = 4_000, 64, 100
KILLS = (633, 1_271, 1_904, 2_550, 3_187)
"""Answers after which the run is killed, counted in all lives together."""


def write(path: Path, rows: int) -> pf.dataset.ParquetDataset:
    """Write prompts with pyarrow's defaults."""
    texts = [f"What is {row} plus {row * row}? " * 6 for row in range(rows)]
    table = pa.table({"prompt": texts, "answer": [str(row) for row in range(rows)]})
    pq.write_table(table, path, row_group_size=10_000)
    return pf.parquet(path, column="prompt")


def processor_us(call: Callable[[], Any], times: int) -> float:
    """Return the processor time of a call in microseconds."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times * 1e6


def simulated(
    make: Callable[[], Any], take: Callable[[Any], Any], lengths: Any
) -> Counter[int]:
    """Run with kills, and count how often the model of the end saw each row.

    Args:
        make: Makes what hands out prompts: with ``state_dict``, ``load_state_dict`` and
            ``commit``.
        take: Takes the next prompt of it: a key to commit and the row, or None.
        lengths: Time of the answers to each prompt.
    """
    source, answers, now = make(), 0, 0.0
    trained: list[int] = []
    saved, kills = (json.dumps(source.state_dict()), trained), list(KILLS)
    flying: list[tuple[float, Any, int]] = []
    while True:
        while len(flying) < WORKERS and (found := take(source)) is not None:
            key, row = found
            heapq.heappush(flying, (now + lengths[row], key, row))
        if not flying:
            return Counter(trained)
        now, key, row = heapq.heappop(flying)
        source.commit([key])
        trained.append(row)
        answers += 1
        if answers % EVERY == 0:
            saved = json.dumps(source.state_dict()), list(trained)
        if kills and answers >= kills[0]:
            kills.pop(0)
            source, flying = make(), []
            source.load_state_dict(json.loads(saved[0]))
            trained = list(saved[1])


class SavedPosition:
    """A loader whose state is its position: what was taken counts as done."""

    def __init__(self, data: pf.dataset.ParquetDataset) -> None:
        self.loader = pf.Loader(
            data, sequences=pf.Documents(columns=["n"]), batch_size=1, seed=1
        )
        self.state_dict = self.loader.state_dict
        self._batches: Any = None

    def load_state_dict(self, state: Any) -> None:
        """Go to a saved position."""
        self.loader.load_state_dict(state)

    def take(self) -> tuple[int, int] | None:
        """Return the next row, as its own key."""
        self._batches = self._batches or iter(self.loader)
        batch = next(self._batches, None)
        return None if batch is None else (int(batch["n"][0]),) * 2

    def commit(self, keys: list[Any]) -> None:
        """Forget the row: a position knows nothing of it."""


def killed(folder: Path) -> dict[str, Any]:
    """Return what a queue and a saved position lose and repeat."""
    pq.write_table(pa.table({"n": np.arange(PROMPTS)}), folder / "n.parquet")
    data = pf.parquet(folder / "n.parquet", column="n")
    lengths = np.random.default_rng(2).lognormal(0, 1.3, PROMPTS)

    def queue() -> pf.PromptQueue:
        return pf.PromptQueue(data, seed=1, epochs=1, max_in_flight=WORKERS)

    def next_of(source: pf.PromptQueue) -> Any:
        tickets = source.take(1)
        return (tickets[0], tickets[0].row) if tickets else None

    result: dict[str, Any] = {}
    for name, make, take in (
        ("queue", queue, next_of),
        ("position", lambda: SavedPosition(data), SavedPosition.take),
    ):
        seen = simulated(make, take, lengths)
        lost = sorted(set(range(PROMPTS)) - set(seen))
        result[name] = {
            "lost": len(lost),
            "repeated": sum(count > 1 for count in seen.values()),
            "lengths_lost": [round(float(lengths[row]), 3) for row in lost],
        }
    result["mean_length"] = round(float(lengths.mean()), 3)
    return result


def costs(data: pf.dataset.ParquetDataset) -> None:
    """Print what calls, rows and states cost."""
    plain = pf.PromptQueue(data, seed=1, max_in_flight=3_000)
    both = processor_us(lambda: plain.commit(plain.take(1)), 20_000)
    print(f"take and commit: {both / 2:.1f} us of a processor a call")
    edges = pf.Curriculum(edges=[0.125, 0.875], weights=[0.2, 1.0, 0.1])
    scored = pf.PromptQueue(data, seed=1, max_in_flight=3_000, curriculum=edges)
    draw = np.random.default_rng(1)
    scores = iter(draw.integers(0, 9, 50_000) / 8)
    both = processor_us(
        lambda: scored.commit(scored.take(1), [float(next(scores))]), 20_000
    )
    print(f"with a curriculum: {both / 2:.1f} us")
    rare = pf.Curriculum(edges=[0.9], weights=[1.0, 0.05])
    solved = pf.PromptQueue(data, seed=1, max_in_flight=65_536, curriculum=rare)
    while solved.tiers()[""][0]:
        tickets = solved.take(10_000)
        solved.commit(tickets, [float(t.row % 1_000 > 0) for t in tickets])
    both = processor_us(lambda: solved.commit(solved.take(1), [1.0]), 20_000)
    print(f"99.9 % of prompts at weight 0.05: {both / 2:.1f} us")
    means = pf.PromptQueue(data, seed=1, max_in_flight=65_536, curriculum=rare)
    while means.tiers()[""][0] > len(data) // 100:
        tickets = means.take(10_000)
        means.commit(tickets, (draw.binomial(8, 0.4, len(tickets)) / 8).tolist())
    begin = time.perf_counter()
    text = json.dumps(means.state_dict())
    size = 1e6 / len(data)
    print(
        f"state of {len(data):,} prompts with means of 8: {len(text):,} characters, "
        f"{(time.perf_counter() - begin) * 1e3:.0f} ms; "
        f"of a million {len(text) * size / 1e6:.2f} MB"
    )
    reader = pf.PromptQueue(data, columns=["prompt", "answer"], max_in_flight=65_536)
    tickets = reader.take(64 * 200)
    for turn in ("first", "again"):
        begin = time.perf_counter()
        for first in range(0, len(tickets), 64):
            reader.read(tickets[first : first + 64])
        took = (time.perf_counter() - begin) / len(tickets) * 1e3
        print(f"a row of 64 read {turn}: {took:.4f} ms")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        costs(write(folder / "prompts.parquet", options.prompts))
        found = killed(folder)
    for kind in ("queue", "position"):
        lost = found[kind]["lengths_lost"]
        longer = np.mean(lost) / found["mean_length"] if lost else 0
        print(
            f"{kind}: {found[kind]['lost']} of {PROMPTS} prompts lost, "
            f"{found[kind]['repeated']} repeated"
            + (f"; lost ones take {longer:.1f} times the mean" if lost else "")
        )


if __name__ == "__main__":
    main()
