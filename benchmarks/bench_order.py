"""What the order costs: time per unit, per block and to resume; memory.

    python benchmarks/bench_order.py [--blocks 45000000] [--units 400000]

Times are CPU times of this thread, so that a busy machine distorts them little.
"""

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from pagefeed.core.order import EpochOrder, Permutation, Shuffle
from pagefeed.core.sequences import Blocks, ExplicitBlocks

EPOCH_UNITS = 2 * 10**7
NUM_LANES = 48
WINDOW = 683  # delay in one lane: 256 MiB of units of 8 KiB


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median CPU seconds of some runs."""
    taken = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return statistics.median(taken)


def make_order(blocks: Blocks, shuffle: Shuffle, window: int = WINDOW) -> EpochOrder:
    """One epoch of some blocks."""
    order = EpochOrder(
        blocks,
        seed=1,
        epoch=0,
        name="web",
        shuffle=shuffle,
        num_lanes=1 if shuffle.block is None else NUM_LANES,
        window=window,
    )
    for _ in order.begin():
        pass
    return order


def bench_permutation() -> None:
    """Nanoseconds of an index."""
    indices = np.arange(1 << 20)
    for n in (1 << 20, 45_000_000, 10**12, (1 << 63) - 1):
        permutation = Permutation(n, 1)
        values = permutation[indices]
        there = seconds(partial(permutation.__getitem__, indices)) / len(indices)
        back = seconds(partial(permutation.inverse, values)) / len(indices)
        print(f"Permutation({n:.1e})  {there * 1e9:5.1f} ns, inverse {back * 1e9:5.1f}")


def read_on(order: EpochOrder, step: int, count: int, num_units: int) -> float:
    """Microseconds of a unit, reading on in calls of ``count`` positions."""
    first = order.num_units // 3
    order.at(range(first, first + 8 * WINDOW * NUM_LANES))  # warm: not from a seek
    first += 8 * WINDOW * NUM_LANES
    calls = [
        range(start, start + count * step, step)
        for start in range(first, first + num_units * step, count * step)
    ]
    start = time.thread_time()
    for call in calls:
        order.at(call)
    return (time.thread_time() - start) / (len(calls) * count) * 1e6


def bench_units(name: str, order: EpochOrder, num_units: int) -> None:
    """Reading on, as one of eight ranks and as all of them; anywhere; backward."""
    rank = read_on(order, 8, 4096, num_units)
    whole = read_on(order, 1, 4096, num_units)
    anywhere = np.random.default_rng(0).integers(0, order.num_units, 100)
    units = order.at(anywhere)
    forward = seconds(lambda: order.at(anywhere), 3) / len(units) * 1e6
    backward = seconds(lambda: order.positions(units), 3) / len(units) * 1e6
    print(
        f"{name:32} every 8th {rank:5.3f}, all {whole:5.3f} us a unit; "
        f"anywhere {forward:4.0f}, inverse {backward:4.0f} us"
    )


def bench_resume(name: str, make: Callable[[], EpochOrder]) -> None:
    """Milliseconds to the first 64 units at a random step."""
    rng = np.random.default_rng(0)
    for label, step in (("one of 8 ranks", 8), ("all", 1)):

        def resume(step: int = step) -> None:
            order = make()
            first = int(rng.integers(order.num_units - 64 * step))
            order.at(range(first, first + 64 * step, step))

        print(f"resume, {name}, {label}: {seconds(resume) * 1e3:.1f} ms")


def anonymous_memory() -> int:
    """Bytes of this process that no file backs."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no Anonymous: line in smaps_rollup")


def bench_many_blocks(num_blocks: int, folder: Path) -> None:
    """A pass over blocks of random sizes, mapped from disk; memory."""
    path = folder / "first_unit.i64"
    rng = np.random.default_rng(0)
    total = 0
    with path.open("wb") as file:
        file.write(np.zeros(1, np.int64).tobytes())
        for begin in range(0, num_blocks, 1 << 18):
            sizes = rng.integers(0, 45, min(1 << 18, num_blocks - begin))
            file.write((total + np.cumsum(sizes)).tobytes())
            total += int(sizes.sum())
    blocks = ExplicitBlocks(np.memmap(path, dtype=np.int64, mode="r"))
    before = anonymous_memory()
    shuffle = Shuffle()
    start = time.thread_time()
    order = make_order(blocks, shuffle)
    taken = time.thread_time() - start
    print(
        f"{num_blocks:.1e} blocks, {total:.1e} units: pass {taken:.2f} s, "
        f"{taken / num_blocks * 1e6:.3f} us a block"
    )
    bench_units("  their units", order, 400_000)
    held = (anonymous_memory() - before) / (1 << 20)
    print(f"  memory held {held:.1f} MiB")
    bench_resume("sums made", lambda: make_order(blocks, shuffle))


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=45_000_000)
    parser.add_argument("--units", type=int, default=400_000)
    options = parser.parse_args()
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}")
    bench_permutation()
    for name, size, shuffle, window in (
        ("page of 22", 22, Shuffle(), WINDOW),
        ("page of 1000", 1000, Shuffle(), WINDOW),
        ("page of 1000, passes=8", 1000, Shuffle(passes=8), WINDOW),
        ("page of 1", 1, Shuffle(), WINDOW),
        ("page of 22, window of 2.7M units", 22, Shuffle(), 56_000),
        ("row", 1, Shuffle(block="row"), 0),
        ("buffer", 1, Shuffle(block="buffer"), WINDOW),
        ("file order", 1, Shuffle(block=None), 0),
    ):
        firsts = np.append(np.arange(0, EPOCH_UNITS, size), EPOCH_UNITS)
        blocks = ExplicitBlocks(firsts)
        bench_units(name, make_order(blocks, shuffle, window), options.units)
    with tempfile.TemporaryDirectory() as folder:
        bench_many_blocks(options.blocks, Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"peak resident {peak} MiB, the mapped blocks among it")


if __name__ == "__main__":
    main()
