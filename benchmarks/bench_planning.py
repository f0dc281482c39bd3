"""What planning costs: CPU time of this thread for a sequence, from positions to plans.

    python benchmarks/bench_planning.py [--sequences 1000000] [--copies 64]

Pages of 64 KiB with about 16 rows of 2048 tokens, as they are and linked so many times
over, so that the index is much larger than the processor's caches. Rows are cut as they
are, or joined with a separator. Of 1 and of 8 ranks, one plans as an iteration does,
through several epochs; what the engine makes of the plans is left out. Times are CPU
times of this thread, so that a busy machine distorts them little.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import data
import pagefeed as pf
from pagefeed.core.batches.feeds import Feed
from pagefeed.core.batches.iteration import Iteration
from pagefeed.core.batches.plan import BatchPlan, plan_batches
from pagefeed.core.order import Shuffle
from pagefeed.core.run import Sequences
from pagefeed.core.sequences import AnyIndex

LENGTH = 2048
BATCH_SIZE = 64
ROUNDS = 5


class NoEngine:
    """Takes plans and does nothing."""

    def submit(self, plan: Any) -> None:
        """Forget a plan."""

    @property
    def plan_bytes(self) -> int:
        """No bytes: nothing is kept."""
        return 0

    def next_batch(self) -> None:
        """Return no batch."""

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget nothing."""

    def stats(self) -> dict[str, Any]:
        """Return no counters."""
        return {}


class NoFeed(Feed):
    """Plans for no engine."""

    def __init__(self, index: AnyIndex) -> None:
        self._index = index

    def engine(self) -> Any:
        """Return what does nothing."""
        return NoEngine()

    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan batches."""
        return plan_batches(self._index, sequences.reshape(-1), BATCH_SIZE)

    def batch(self, delivered: Any) -> dict[str, Any]:
        """Make nothing."""
        return {"nothing": delivered}

    def close(self) -> None:
        """End nothing."""


def plan_on(loader: pf.Loader, num_sequences: int) -> tuple[list[float], list[float]]:
    """Microseconds of a sequence in each round; milliseconds of each step's plan.

    The first step is not counted.
    """
    run = loader.view().run
    cursor = run.at(run.beginning(0))
    feed = NoFeed(run.index)
    iteration = Iteration(cursor, feed, loader.memory, loader.memory)
    iteration.take()
    iteration.count()
    num_steps = num_sequences // (ROUNDS * BATCH_SIZE)
    times = [time.thread_time()]
    for _ in range(ROUNDS * num_steps):
        iteration.take()
        iteration.count()
        times.append(time.thread_time())
    rounds = np.diff(times[::num_steps]) / (num_steps * BATCH_SIZE) * 1e6
    return rounds.tolist(), sorted(np.diff(times) * 1e3)


def bench(name: str, paths: list[Path], num_sequences: int) -> None:
    """Plan the files in several ways."""
    dataset = pf.parquet([str(path) for path in paths], column="input_ids")
    cases = [
        ("windows", pf.Windows(LENGTH), Shuffle()),
        ("windows, eos", pf.Windows(LENGTH, eos=0), Shuffle()),
        ("windows, by row", pf.Windows(LENGTH), Shuffle(block="row")),
    ]
    for kind, windows, shuffle in cases:
        for world_size in (1, 8):
            loader = pf.Loader(
                dataset,
                sequences=windows,
                batch_size=BATCH_SIZE,
                shuffle=shuffle,
                epochs=None,
                rank=0,
                world_size=world_size,
            )
            taken, steps = plan_on(loader, num_sequences)
            print(
                f"{name:9} {kind:16} {world_size} ranks: "
                f"{statistics.mean(taken):.3f} us a sequence ({min(taken):.3f} to "
                f"{max(taken):.3f}); steps: p99 {steps[len(steps) * 99 // 100]:.2f}, "
                f"longest {steps[-1]:.2f} ms"
            )


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=200_000_000, help="of the data")
    parser.add_argument("--copies", type=int, default=64)
    options = parser.parse_args()
    made = data.make(num_tokens=options.tokens)
    bench("once", made.parquet, options.sequences)
    with tempfile.TemporaryDirectory() as folder:
        links = []
        for copy in range(options.copies):
            for path in made.parquet:
                links.append(Path(folder) / f"{copy}-{path.name}")
                links[-1].symlink_to(path.resolve())
        bench(f"{options.copies} times", links, options.sequences)


if __name__ == "__main__":
    main()
