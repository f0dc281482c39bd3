"""Throughput of flat token files, beside a gather by hand and a DataLoader by samples.

    python benchmarks/bench_streams.py [--tokens 100000000] [--rounds 5] [--threads 2]

All ways feed shuffled int64 batches of 64 windows of 2048 tokens from the same tokens
(uint16, in the page cache), one epoch each, and take turns in one process. ``memmap``
is what one writes by hand: a memory map of all tokens as windows, a permutation, and
one indexing a batch. ``by sample`` is what Megatron does: a dataset of one window an
item, read from a memory map, behind a ``torch.utils.data.DataLoader`` with so many
workers.
The table shows medians of tokens a second and of CPU time (with that of workers), and
the median ratios to both, round by round.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

import pagefeed as pf

LENGTH = 2048
BATCH_SIZE = 64
TOKENS = "tokens.bin"


class BySample(Dataset[torch.Tensor]):
    """Windows one by one, as Megatron's datasets give them."""

    def __init__(self, path: Path, order: npt.NDArray[np.int64]) -> None:
        self._tokens = np.memmap(path, np.uint16, mode="r")
        self._order = order

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._order)

    def __getitem__(self, item: int) -> torch.Tensor:
        """Return a window."""
        begin = int(self._order[item]) * LENGTH
        sample = np.frombuffer(
            self._tokens.data, np.uint16, count=LENGTH, offset=2 * begin
        )
        return torch.from_numpy(sample.astype(np.int64))


def write_all(folder: Path, num_tokens: int) -> None:
    """Write the same tokens in every format."""
    rng = np.random.default_rng(1)
    tokens = (rng.zipf(1.3, num_tokens) % 32_000).astype(np.uint16)
    tokens.tofile(folder / TOKENS)
    lengths = (
        np.minimum(rng.lognormal(6, 1.2, num_tokens // 100), 30_000).astype(int) + 1
    )
    borders = np.unique(np.minimum(np.cumsum(lengths), num_tokens))
    documents = np.split(tokens, borders[:-1])
    with pf.StreamWriter(folder / "stream", dtype="uint16") as out:
        for document in documents:
            out.append(document)
    (folder / "megatron.bin").write_bytes((folder / TOKENS).read_bytes())
    sizes = np.array([len(document) for document in documents], np.int32)
    starts = (np.cumsum(sizes) - sizes).astype(np.int64) * 2
    numbers = np.array([len(sizes), len(sizes) + 1], np.uint64)
    (folder / "megatron.idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + np.uint64(1).tobytes()
        + b"\x08"
        + numbers.tobytes()
        + sizes.tobytes()
        + starts.tobytes()
        + np.arange(len(sizes) + 1, dtype=np.int64).tobytes()
    )


def by_hand(path: Path) -> Iterable[npt.NDArray[np.int64]]:
    """Yield batches from a memory map, one indexing each."""
    tokens = np.memmap(path, np.uint16, mode="r")
    windows = tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH)
    order = np.random.default_rng(2).permutation(len(windows))
    for first in range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE):
        yield windows[order[first : first + BATCH_SIZE]].astype(np.int64)


def by_sample(path: Path, num_workers: int) -> Iterable[torch.Tensor]:
    """Return a DataLoader over windows."""
    count = os.path.getsize(path) // 2 // LENGTH
    order = np.random.default_rng(2).permutation(count)
    return DataLoader(
        BySample(path, order),
        batch_size=BATCH_SIZE,
        num_workers=num_workers,
        drop_last=True,
    )


def fed(
    dataset: pf.dataset.FlatDataset,
    shuffle: Any,
    num_threads: int,
) -> Iterable[Any]:
    """Yield the batches of a loader."""
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(LENGTH, "drop"),
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        shuffle=shuffle,
        seed=2,
        memory="512MiB",
        num_threads=num_threads,
        rank=0,
        world_size=1,
    )
    return (batch["input_ids"] for batch in loader)


def ways(folder: Path, num_threads: int) -> dict[str, Callable[[], Iterable[Any]]]:
    """Return what is compared; the indexes are built before."""
    stream = pf.stream(folder / "stream")
    megatron = pf.megatron(folder / "megatron")
    raw = pf.tokens(folder / TOKENS, dtype="uint16")
    for dataset in (stream, megatron, raw):
        len(dataset)
    path = folder / TOKENS
    by_loader: dict[str, Callable[[], Iterable[Any]]] = {
        name + suffix: partial(fed, dataset, shuffle, num_threads)
        for name, dataset in {
            "stream": stream,
            "megatron": megatron,
            "raw": raw,
        }.items()
        for suffix, shuffle in {"": "page", ", row": "row"}.items()
    }
    return {
        "memmap": lambda: by_hand(path),
        "by sample, 0": lambda: by_sample(path, 0),
        "by sample, 2": lambda: by_sample(path, 2),
        **by_loader,
    }


def cpu_seconds() -> float:
    """Return what this process and its children took of processors."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def measure(batches: Callable[[], Iterable[Any]]) -> dict[str, float]:
    """Take all batches of an epoch."""
    cpu, begin, num_tokens = cpu_seconds(), time.perf_counter(), 0
    for batch in batches():
        batch[:, ::512].sum()
        num_tokens += BATCH_SIZE * LENGTH
    seconds = time.perf_counter() - begin
    cpu = cpu_seconds() - cpu
    return {"rate": num_tokens / seconds, "cpu": cpu / num_tokens * 1e9}


def main() -> None:
    """Measure all ways in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="those of the loader")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder), options.tokens)
        compared = ways(Path(folder), options.threads)
        results: dict[str, list[dict[str, float]]] = {way: [] for way in compared}
        for _ in range(options.rounds):
            for way, batches in compared.items():
                results[way].append(measure(batches))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"{'':14} Mtok/s  /memmap  /by sample  CPU s/Gtok")
    for way, rounds in results.items():
        rate = statistics.median(each["rate"] for each in rounds)
        cpu = statistics.median(each["cpu"] for each in rounds)
        ratios = [
            statistics.median(
                each["rate"] / other["rate"]
                for each, other in zip(rounds, results[base], strict=True)
            )
            for base in ("memmap", "by sample, 2")
        ]
        print(
            f"{way:14} {rate / 1e6:6.0f} {ratios[0]:8.2f} {ratios[1]:11.2f} {cpu:11.2f}"
        )


if __name__ == "__main__":
    main()
