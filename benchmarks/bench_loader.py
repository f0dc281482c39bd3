"""Throughput of the whole loader, beside other ways to the same batches.

    python benchmarks/bench_loader.py [--rounds 5] [--only page] [--json FILE]
    python benchmarks/bench_loader.py --ceiling  # the three first ways: a minute

All ways feed int64 batches of 64 rows of 2048 tokens from the same tokens, in the page
cache, to a consumer that does nothing but touch each batch. Each runs in a process of
its own, in turn, for several rounds; the table shows medians. Rates count from the
first batch, whose time is shown apart, to the last. They are of one epoch, so that
every page is decoded. With --epochs N a loader whose memory holds pages from one epoch
to the next decodes fewer, and may be faster than a ceiling.

- ceiling: two threads decompress, unpack, look up and write the pages, and no more
  (crates/pagefeed-core/examples/bare_loop.rs). Their bytes are in memory.
- ceiling, read: the same, and they read the pages from the files first, as a loader
  must.
- megatron: np.memmap of the tokens as a flat uint16 file, a shuffled index, torch's
  DataLoader with 0 or 2 workers. Its GPTDataset also makes labels, masks and positions;
  that is left out here.
- pyarrow: record batches in file order through a shuffle buffer, as streaming datasets
  do it.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq

import data
from ceiling import bare_loop, build_bare_loop, read_and_decode

BATCH_SIZE = 64
LENGTH = 2048
BATCH_TOKENS = BATCH_SIZE * LENGTH
BUFFER_ROWS = 10_000

Numbers = dict[str, float]


@dataclass
class Run:
    """Batches to be timed, and what else there is to know at the end."""

    batches: Iterator[Any]
    stats: Callable[[], Numbers] = field(default=dict)


def pagefeed_run(
    made: data.Data,
    *,
    tokens: int,
    shuffle: Any = "page",
    dtype: Literal["int64", "int32", "uint16"] = "int64",
    memory: str = "1GiB",
) -> Run:
    """The loader itself."""
    import pagefeed as pf

    loader = pf.Loader(
        pf.parquet([str(path) for path in made.parquet], column="input_ids"),
        sequences=pf.Windows(LENGTH),
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        seed=1,
        shuffle=shuffle,
        memory=memory,
        dtype=dtype,
        epochs=max(1, tokens // made.num_tokens),
    )

    def stats() -> Numbers:
        found = loader.stats()
        names = ("pages_loaded", "pages_reloaded", "wait_seconds", "peak_bytes")
        return {name: found[name] for name in names}

    return Run((batch["input_ids"] for batch in loader), stats)


class FlatRows:
    """A map-style dataset over a flat file of tokens, as Megatron's GPTDataset is."""

    def __init__(self, made: data.Data, num_epochs: int) -> None:
        self.tokens = np.memmap(made.flat, dtype=np.uint16, mode="r")
        rng = np.random.default_rng(1)
        epochs = [rng.permutation(made.num_rows) for _ in range(num_epochs)]
        self.shuffled = np.concatenate(epochs)

    def __len__(self) -> int:
        return len(self.shuffled)

    def __getitem__(self, place: int) -> Any:
        import torch

        start = int(self.shuffled[place]) * LENGTH
        return torch.from_numpy(self.tokens[start : start + LENGTH].astype(np.int64))


def megatron_run(made: data.Data, *, tokens: int, num_workers: int) -> Run:
    """Shuffled rows of a memory-mapped flat file."""
    import torch

    torch.set_num_threads(1)
    rows = FlatRows(made, max(1, tokens // made.num_tokens))
    batches: Any = torch.utils.data.DataLoader(
        rows,  # type: ignore[arg-type]  # it has all that is asked of it
        batch_size=BATCH_SIZE,
        num_workers=num_workers,
        drop_last=True,
    )
    return Run(iter(batches))


def pyarrow_run(made: data.Data, *, tokens: int) -> Run:
    """Rows in file order through a shuffle buffer."""
    rng = np.random.default_rng(1)

    def rows() -> Iterator[Any]:
        for path in made.parquet:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(1000, columns=["input_ids"]):
                    values = batch.column(0).flatten().to_numpy()
                    yield from values.reshape(-1, LENGTH)

    def shuffled() -> Iterator[Any]:
        buffer: list[Any] = []
        for row in rows():
            if len(buffer) < BUFFER_ROWS:
                buffer.append(row)
                continue
            place = int(rng.integers(BUFFER_ROWS))
            yield buffer[place]
            buffer[place] = row

    def batches() -> Iterator[Any]:
        taken = []
        for _, row in zip(range(tokens // LENGTH), shuffled(), strict=False):
            taken.append(row)
            if len(taken) == BATCH_SIZE:
                yield np.stack(taken).astype(np.int64)
                taken = []

    return Run(batches())


def ceiling_run(made: data.Data, *, tokens: int, reads: bool) -> Run:
    """Two threads over the same pages, with nothing around the loop."""
    decode = read_and_decode(
        made, rounds=max(1, tokens // made.num_tokens), reads=reads
    )

    def batches() -> Iterator[Any]:
        yield np.zeros((BATCH_SIZE, LENGTH))
        for _ in range(decode() // BATCH_TOKENS - 1):
            yield None

    return Run(batches())


RUNS: dict[str, Callable[[data.Data, int], Run]] = {
    "ceiling": lambda made, tokens: ceiling_run(made, tokens=tokens, reads=False),
    "ceiling, read": lambda made, tokens: ceiling_run(made, tokens=tokens, reads=True),
    "page": lambda made, tokens: pagefeed_run(made, tokens=tokens),
    "page int32": lambda made, tokens: pagefeed_run(made, tokens=tokens, dtype="int32"),
    "page uint16": lambda made, tokens: pagefeed_run(
        made, tokens=tokens, dtype="uint16"
    ),
    "page 128MiB": lambda made, tokens: pagefeed_run(
        made, tokens=tokens, memory="128MiB"
    ),
    "row": lambda made, tokens: pagefeed_run(made, tokens=tokens, shuffle="row"),
    "row 128MiB": lambda made, tokens: pagefeed_run(
        made, tokens=tokens // 4, shuffle="row", memory="128MiB"
    ),
    "buffer": lambda made, tokens: pagefeed_run(made, tokens=tokens, shuffle="buffer"),
    "file order": lambda made, tokens: pagefeed_run(made, tokens=tokens, shuffle=None),
    "megatron 0": lambda made, tokens: megatron_run(made, tokens=tokens, num_workers=0),
    "megatron 2": lambda made, tokens: megatron_run(made, tokens=tokens, num_workers=2),
    "pyarrow": lambda made, tokens: pyarrow_run(made, tokens=tokens // 4),
}


def cpu_seconds() -> float:
    """CPU time of this process and of the children that ended."""
    return sum(os.times()[:4])


def peak_bytes(pid: int | str = "self") -> int:
    """Most memory of this process that was resident, files aside where known."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def measure(run: Run) -> Numbers:
    """Take all batches, touching each."""
    waits: list[float] = []
    cpu, memory = cpu_seconds(), peak_bytes()
    peak = memory
    begin = start = time.perf_counter()
    thread_cpu = time.thread_time()
    asked = begin
    for batch in run.batches:
        got = time.perf_counter()
        waits.append(got - asked)
        if len(waits) == 1:
            start = got
        if len(waits) % 256 == 1:
            peak = max(peak, peak_bytes())
        if batch is not None:
            batch[:, ::512].sum()
        del batch
        asked = time.perf_counter()
    end = time.perf_counter()
    thread_cpu = time.thread_time() - thread_cpu
    stats = run.stats()
    del run
    tokens = (len(waits) - 1) * BATCH_TOKENS
    waits_sorted = sorted(waits[1:])
    return {
        "tokens_per_second": tokens / (end - start),
        "first_batch_seconds": start - begin,
        "next_p50": waits_sorted[len(waits_sorted) // 2],
        "next_p99": waits_sorted[len(waits_sorted) * 99 // 100],
        "next_max": waits_sorted[-1],
        "cpu_seconds_per_1e9": (cpu_seconds() - cpu) / len(waits) / BATCH_TOKENS * 1e9,
        "consumer_us_per_row": thread_cpu / len(waits) / BATCH_SIZE * 1e6,
        "peak_bytes": peak - memory,
        **{f"engine_{name}": value for name, value in stats.items()},
    }


CEILINGS = ["ceiling", "ceiling, read"]
CEILING = {"only": [*CEILINGS, "page"], "rounds": 9}
"""Arguments for a look at the ceiling alone. Building it takes minutes once."""
BESIDE = (*CEILINGS, "megatron 0", "megatron 2", "pyarrow")
COLUMNS = (
    ("tokens_per_second", 1e6, "Mtok/s", "{:7.0f}"),
    ("cpu_seconds_per_1e9", 1, "CPU s/Gtok", "{:10.2f}"),
    ("next_p50", 1e-6, "p50 us", "{:7.0f}"),
    ("next_p99", 1e-6, "p99 us", "{:7.0f}"),
    ("next_max", 1e-6, "max us", "{:7.0f}"),
    ("first_batch_seconds", 1e-3, "first ms", "{:8.1f}"),
    ("consumer_us_per_row", 1, "thread us/row", "{:13.2f}"),
    ("peak_bytes", 1 << 20, "MiB", "{:6.0f}"),
    ("engine_pages_loaded", 1, "pages", "{:7.0f}"),
    ("engine_pages_reloaded", 1, "again", "{:6.0f}"),
)


def show(results: dict[str, list[Numbers]]) -> None:
    """Print the medians, and the rates beside those compared with."""

    def rate(rounds: list[Numbers]) -> list[float]:
        return [numbers["tokens_per_second"] for numbers in rounds]

    beside = [name for name in BESIDE if name in results]
    names = [name for _, _, name, _ in COLUMNS] + [f"/{name}" for name in beside]
    print(" " * 12, *names)
    for name, rounds in results.items():
        cells = []
        for key, sequence, _, form in COLUMNS:
            found = [numbers[key] for numbers in rounds if key in numbers]
            blank = " " * len(form.format(0))
            cells.append(
                form.format(statistics.median(found) / sequence) if found else blank
            )
        for other in beside:
            pairs = zip(rate(rounds), rate(results[other]), strict=True)
            ratio = statistics.median(mine / theirs for mine, theirs in pairs)
            cells.append(f"{ratio:{len(other) + 1}.2f}")
        print(f"{name:12}", *cells)
    for ceiling in CEILINGS:
        if {"page", ceiling} <= results.keys() and len(results["page"]) > 1:
            both = zip(rate(results["page"]), rate(results[ceiling]), strict=True)
            ratios = [mine / bound for mine, bound in both]
            low, middle, high = statistics.quantiles(ratios)
            print(f"page / {ceiling}: {middle:.3f} (quartiles {low:.3f} to {high:.3f})")


def main() -> None:
    """Run all in turn, or one of them in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tokens", type=int, default=data.LONG_EPOCH, help="of the data"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--row-group-rows", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--no-build", action="store_true", help="use a built bare loop")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write all rounds' figures to")
    parser.add_argument(
        "--ceiling",
        action="store_true",
        help="the ceilings and page alone: a minute",
    )
    if parser.parse_args().ceiling:
        parser.set_defaults(**CEILING)  # What is given beside it comes first.
    options = parser.parse_args()
    made = data.make(
        num_tokens=options.tokens,
        row_length=LENGTH,
        row_group_rows=options.row_group_rows,
        numbered=True,  # as other benchmarks have them: they are made once
    )
    if options.here:
        run = RUNS[options.only[0]](made, options.epochs * made.num_tokens)
        print(json.dumps(measure(run)))
        return
    print(
        f"python {platform.python_version()}, {len(os.sched_getaffinity(0))} CPUs, "
        f"{made.num_tokens / 1e6:.0f} M tokens of the {made.source}"
    )
    is_built = options.no_build and bare_loop().exists()
    if set(CEILINGS) & set(options.only) and not is_built:
        print("building the bare loop: minutes where that was never done", flush=True)
        build_bare_loop()
    results: dict[str, list[Numbers]] = {name: [] for name in options.only}
    for _ in range(options.rounds):
        for path in [*made.parquet, made.flat]:
            path.read_bytes()  # into the page cache
        for name, rounds in results.items():
            command = [sys.executable, *sys.argv, "--only", name, "--here"]
            answer = subprocess.run(command, check=True, capture_output=True, text=True)
            rounds.append(json.loads(answer.stdout.splitlines()[-1]))
    show(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
