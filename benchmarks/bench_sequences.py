"""Throughput of packed sequences and fields, beside the same without.

    python benchmarks/bench_sequences.py [--tokens 60000000] [--rounds 5] [FILE ...]

All ways feed int64 batches of 64 sequences of 2048 tokens from the same documents, in
the page cache, in page order. Ways take turns in one process; the table shows medians
of tokens delivered per second, padding included, and the ratios to windows and to the
same sequences with tokens alone, round by round. Without files the documents are
made: lengths log-normal, tokens by Zipf's law.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.batches.fields import FIELDS

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
    paths: list[str], num_threads: int, options: dict[str, Any]
) -> dict[str, float]:
    """Take all batches of an epoch."""
    loader = pf.Loader(
        pf.parquet(paths, column="input_ids"),
        batch_size=BATCH_SIZE,
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
        "padding": stats["padding_tokens"] / stats["tokens"],
        "splits": stats["splits"],
    }


def ratio(rounds: list[dict[str, float]], others: list[dict[str, float]]) -> float:
    """Return the median ratio of rates, round by round."""
    pairs = zip(rounds, others, strict=True)
    return statistics.median(one["rate"] / other["rate"] for one, other in pairs)


def main() -> None:
    """Measure all ways in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="with a column input_ids")
    parser.add_argument("--tokens", type=int, default=60_000_000, help="if made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--num-threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = options.files or write_documents(Path(folder), options.tokens)
        results: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way, rounds in results.items():
                rounds.append(measure(paths, options.num_threads, WAYS[way]))
    print(f"{'':15} Mtok/s  /windows  /tokens  CPU s/Gtok  padding  splits")
    for way, rounds in results.items():
        alone = way.removesuffix(" varlen").removesuffix(" fields")
        to_windows = ratio(rounds, results["windows"])
        to_tokens = ratio(rounds, results[alone])
        median = {
            name: statistics.median(numbers[name] for numbers in rounds)
            for name in rounds[0]
        }
        print(
            f"{way:15} {median['rate'] / 1e6:6.0f} {to_windows:9.2f} {to_tokens:8.2f} "
            f"{median['cpu']:11.2f} {median['padding']:8.3%} {median['splits']:7.0f}"
        )


if __name__ == "__main__":
    main()
