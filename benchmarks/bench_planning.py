"""What planning costs: CPU time of this thread for a unit, from positions to plans.

    python benchmarks/bench_planning.py [--units 1000000] [--copies 64]

Pages of 64 KiB with about 16 rows of 2048 tokens, as they are and linked so many times
over, so that the index is much larger than the processor's caches. Rows are cut as they
are, or joined with a separator. Of 1 and of 8 ranks, one plans, batch after batch as an
iteration does; what the engine makes of the plans is left out.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import data

import pagefeed as pf
from pagefeed.iteration import CHUNK_UNITS
from pagefeed.order import Shuffle

LENGTH = 2048
BATCH_SIZE = 64
ROUNDS = 5


def plan_on(loader: pf.Loader, num_units: int) -> tuple[list[float], float]:
    """Microseconds of a unit in each of some rounds, milliseconds of the longest step.

    The first round begins an epoch and is not counted.
    """
    begin = loader.run.beginning(0)
    planner = loader.run.planner(begin, loader.run.route(begin))
    chunk, first, longest, taken = CHUNK_UNITS // BATCH_SIZE, 0, 0.0, []
    for _ in range(ROUNDS + 1):
        start = last = time.thread_time()
        planned = 0
        while planned < num_units // ROUNDS:
            for piece in planner.pieces(first, chunk):
                now = time.thread_time()
                longest, last = max(longest, now - last), now
                planned += 0 if piece is None else piece[0] * BATCH_SIZE
            for _ in planner.begin_next_epoch(first):
                pass
            first += chunk
        taken.append((time.thread_time() - start) / planned * 1e6)
    return taken[1:], longest * 1e3


def bench(name: str, paths: list[Path], cache_dir: str, num_units: int) -> None:
    """Plan the files in several ways."""
    dataset = pf.parquet(
        [str(path) for path in paths], column="input_ids", cache_dir=cache_dir
    )
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
            taken, longest = plan_on(loader, num_units)
            print(
                f"{name:12} {kind:16} {world_size} ranks: "
                f"{statistics.median(taken):.3f} us a unit ({min(taken):.3f} to "
                f"{max(taken):.3f}); longest step {longest:.1f} ms"
            )


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=200_000_000, help="of the data")
    parser.add_argument("--copies", type=int, default=64)
    options = parser.parse_args()
    made = data.make(num_tokens=options.tokens)
    with tempfile.TemporaryDirectory() as folder:
        bench("once", made.parquet, folder, options.units)
        links = []
        for copy in range(options.copies):
            for path in made.parquet:
                links.append(Path(folder) / f"{copy}-{path.name}")
                links[-1].symlink_to(path.resolve())
        bench(f"{options.copies} times", links, folder, options.units)


if __name__ == "__main__":
    main()
