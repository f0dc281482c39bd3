"""Throughput of packed sequences and fields, beside the same without.

    python benchmarks/bench_sequences.py [--tokens 60000000] [--rounds 5] [FILE ...]

All ways feed int64 batches of 64 sequences of 2048 tokens from the same documents, in
the page cache, in page order. Ways take turns in one process; the table shows medians
of tokens delivered per second, padding included, and the ratios to windows and to the
same sequences with tokens alone, round by round. Without files the documents are
made: lengths log-normal, tokens by Zipf's law.

An epoch is timed from its first step, decoding included; with --epochs 5 nearly all
pages are held, which leaves the copying. Of CPU time, the ratio to tokens alone is
shown beside the most it can be: fields are written to memory larger than the
processor's own caches, as fast as rows are copied to such memory in the same round.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.core._base import FIELDS

LENGTH = 2048
BATCH_SIZE = 64
EOS = 0
VARLEN = ("input_ids", "labels", "position_ids", "cu_seqlens")
WAYS: dict[str, dict[str, Any]] = {
    "windows": {"sequences": pf.Windows(LENGTH)},
    "windows eos": {"sequences": pf.Windows(LENGTH, eos=EOS)},
    "packed": {"sequences": pf.Packed(LENGTH)},
    "packed eos": {"sequences": pf.Packed(LENGTH, eos=EOS)},
    "greedy": {"sequences": pf.Packed(LENGTH, method="greedy")},
    "windows varlen": {"sequences": pf.Windows(LENGTH), "fields": VARLEN},
    "windows fields": {"sequences": pf.Windows(LENGTH), "fields": FIELDS},
    "packed varlen": {"sequences": pf.Packed(LENGTH), "fields": VARLEN},
    "packed fields": {"sequences": pf.Packed(LENGTH), "fields": FIELDS},
}
"""``varlen``: labels, positions and borders; ``fields``: all there are."""
BATCHES_IN_TURN = 6
"""As many as the loader has under way of such a size, with two threads."""


def alone(way: str) -> str:
    """Return the same way with tokens alone."""
    return way.removesuffix(" varlen").removesuffix(" fields")


def token_bytes(batch: dict[str, Any]) -> float:
    """Return the bytes of a batch for each of its tokens."""
    arrays = [value for value in batch.values() if isinstance(value, np.ndarray)]
    return sum(array.nbytes for array in arrays) / float(batch["input_ids"].size)


def copy_nanoseconds(num_threads: int) -> float:
    """Return the CPU time of a byte, where threads copy a row all over batches."""
    row = np.arange(LENGTH)
    found: list[float] = []

    def work() -> None:
        batches = np.ones((BATCHES_IN_TURN, 3 * BATCH_SIZE, LENGTH), np.int64)
        times = []
        for _ in range(5):
            begin = time.thread_time()
            for batch in batches:
                np.copyto(batch, row)
            times.append(time.thread_time() - begin)
        found.append(min(times) / batches.nbytes * 1e9)

    threads = [threading.Thread(target=work) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.mean(found)


def write_documents(folder: Path, num_tokens: int) -> list[str]:
    """Write four files of documents with so many tokens together."""
    rng = np.random.default_rng(1)
    paths = []
    for number in range(4):
        lengths = rng.lognormal(6, 1.2, num_tokens // 4 // 830).astype(np.int32) + 1
        tokens = (rng.zipf(1.3, int(lengths.sum())) % 32000).astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        rows = pa.ListArray.from_arrays(offsets, tokens)
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.table({"input_ids": rows}), path, data_page_size=1 << 16)
        paths.append(str(path))
    return paths


def measure(
    paths: list[str], num_threads: int, options: dict[str, Any], epochs: int = 1
) -> dict[str, float]:
    """Take all batches of some epochs."""
    loader = pf.Loader(
        pf.parquet(paths, column="input_ids"),
        batch_size=BATCH_SIZE,
        epochs=epochs,
        memory="512MiB",
        num_threads=num_threads,
        rank=0,
        world_size=1,
        **options,
    )
    cpu, begin = time.process_time(), time.perf_counter()
    for batch in loader:
        batch["input_ids"][:, ::512].sum()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    stats = loader.stats()
    return {
        "rate": stats["tokens"] / seconds,
        "cpu": cpu / stats["tokens"] * 1e9,
        "bytes": token_bytes(batch),
        "padding": stats["padding_tokens"] / stats["tokens"],
        "splits": stats["splits"],
    }


Rounds = list[dict[str, float]]


def ratio(rounds: Rounds, others: Rounds, name: str = "rate") -> float:
    """Return the median ratio, round by round."""
    pairs = zip(rounds, others, strict=True)
    return statistics.median(one[name] / other[name] for one, other in pairs)


def most(rounds: Rounds, others: Rounds) -> float:
    """Return what the ratio of CPU time would be if fields cost their bytes alone."""
    found = []
    for one, other in zip(rounds, others, strict=True):
        least = (one["bytes"] - other["bytes"]) * one["copying"]
        found.append(other["cpu"] / (other["cpu"] + least))
    return statistics.median(found)


def main() -> None:
    """Measure all ways in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="with a column input_ids")
    parser.add_argument("--tokens", type=int, default=60_000_000, help="if made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--num-threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = options.files or write_documents(Path(folder), options.tokens)
        wanted = [way for way in WAYS if way in options.only]
        results: dict[str, Rounds] = {way: [] for way in wanted}
        for _ in range(options.rounds):
            copying = copy_nanoseconds(options.num_threads)
            for way, rounds in results.items():
                numbers = measure(paths, options.num_threads, WAYS[way], options.epochs)
                rounds.append(numbers | {"copying": copying})
    show(results)


def show(results: dict[str, Rounds]) -> None:
    """Print the medians; ratios are to windows, and to tokens alone."""
    gigabytes = [1 / numbers["copying"] for numbers in next(iter(results.values()))]
    print(f"rows are copied to batches at {statistics.median(gigabytes):.1f} GB/CPU s")
    print(
        f"{'':15} Mtok/s  /windows  /tokens  CPU s/Gtok  bytes/token  CPU/tokens  most"
        "  padding  splits"
    )
    for way, rounds in results.items():
        tokens = results.get(alone(way), rounds)
        to_windows = ratio(rounds, results.get("windows", rounds))
        cpu_ratio = ratio(tokens, rounds, "cpu")
        median = {
            name: statistics.median(numbers[name] for numbers in rounds)
            for name in rounds[0]
        }
        print(
            f"{way:15} {median['rate'] / 1e6:6.0f} {to_windows:9.2f} "
            f"{ratio(rounds, tokens):8.2f} {median['cpu']:11.2f} "
            f"{median['bytes']:12.1f} {cpu_ratio:11.2f} {most(rounds, tokens):5.2f} "
            f"{median['padding']:8.3%} {median['splits']:7.0f}"
        )


if __name__ == "__main__":
    main()
