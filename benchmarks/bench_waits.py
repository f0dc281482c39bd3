"""How long a consumer waits that has work of its own, and what its thread does then.

    python benchmarks/bench_waits.py [--rounds 3] [--work-ms 1] [--steps 4000]

A consumer takes batches of 64 windows of 2048 tokens, or as many tokens in 1024 windows
of 128, and works for a while after each. Shown are the time of `next` by the clock and
by the thread's own CPU, which a busy machine distorts little, as medians of rounds in
turn; CPU time of all threads; and the time to a first batch, at the start and
in the middle of the epoch, also for very many sequences, with the private memory held.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import data
import pagefeed as pf
from bench_loader import peak_bytes

BATCH_TOKENS = 64 * 2048
LENGTHS = (2048, 128)
MANY_COPIES = 64
MANY_LENGTH = 12

Numbers = dict[str, float]


def make(paths: Iterable[Path], length: int) -> pf.Loader:
    """Return a loader of windows of a length; each batch holds as many tokens."""
    return pf.Loader(
        pf.parquet([str(path) for path in paths], column="input_ids"),
        sequences=pf.Windows(length),
        fields=("input_ids",),
        batch_size=BATCH_TOKENS // length,
        seed=1,
        epochs=None,
        rank=0,
        world_size=1,
        num_threads=2,
    )


def work(seconds: float) -> None:
    """Keep this thread busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def waits(loader: pf.Loader, num_steps: int, work_seconds: float) -> Numbers:
    """Take batches, each followed by work, and measure `next`."""
    batches = iter(loader)
    next(batches)
    by_clock, by_thread = [], []
    total = time.process_time()
    for _ in range(num_steps):
        begin, begin_cpu = time.perf_counter(), time.thread_time()
        batch = next(batches)
        by_thread.append(time.thread_time() - begin_cpu)
        by_clock.append(time.perf_counter() - begin)
        del batch
        work(work_seconds)
    total = time.process_time() - total - num_steps * work_seconds
    found = {"CPU s/Gtok": total / num_steps / BATCH_TOKENS * 1e9}
    for name, times in (("clock", sorted(by_clock)), ("thread", sorted(by_thread))):
        for share in (0.5, 0.99, 0.999):
            found[f"{name} p{share * 100:g} us"] = times[int(share * len(times))] * 1e6
    return found


def first_batches(paths: Iterable[Path], length: int) -> Numbers:
    """Time to a first batch, at the start and after a seek; the index is made."""
    loader = make(paths, length)
    memory = peak_bytes()
    begin = time.perf_counter()
    next(iter(loader))
    first = time.perf_counter() - begin
    state = loader.state_dict()
    state["position"] = loader.num_sequences // 2
    begin = time.perf_counter()
    loader.load_state_dict(state)
    next(iter(loader))
    return {
        "first s": first,
        "after a seek s": time.perf_counter() - begin,
        "MiB": (peak_bytes() - memory) / (1 << 20),
    }


def show(name: str, rounds: list[Numbers]) -> None:
    """Print medians."""
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    cells = "; ".join(f"{key} {value:.4g}" for key, value in median.items())
    print(f"{name:14} {cells}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--work-ms", type=float, default=1)
    parser.add_argument("--tokens", type=int, default=200_000_000, help="of the data")
    options = parser.parse_args()
    paths = data.make(num_tokens=options.tokens).parquet
    results: dict[int, list[Numbers]] = {length: [] for length in LENGTHS}
    for _ in range(options.rounds):
        for length, rounds in results.items():
            loader = make(paths, length)
            rounds.append(waits(loader, options.steps, options.work_ms / 1e3))
    for length, rounds in results.items():
        show(f"windows {length}", rounds)
    with tempfile.TemporaryDirectory() as folder:
        links = []
        for copy in range(MANY_COPIES):
            for path in paths:
                links.append(Path(folder) / f"{copy}-{path.name}")
                links[-1].symlink_to(path.resolve())
        first_batches(links, MANY_LENGTH)
        firsts = [first_batches(links, MANY_LENGTH) for _ in range(options.rounds)]
        show("many sequences", firsts)


if __name__ == "__main__":
    main()
