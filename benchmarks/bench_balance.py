"""How well ranks are balanced, what it costs to balance them, and what a rate is left.

    python benchmarks/bench_balance.py [--sequences 98304] [--corpus FOLDER]

Documents of log-normal lengths (median 600, sigma 1.3), or of those of a corpus, as a
stream of tokens that takes no room on disk; their lengths are what is balanced by.
"""

import argparse
import os
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.balance import SequenceCosts
from pagefeed.core.dataset import lengths_of_rows
from pagefeed.core.sequences import JoinedIndex

CASES = [(8, 1), (8, 4), (64, 1), (64, 8)]
"""Ranks, and sequences a rank."""
ROUNDS = 7


def write_lengths(folder: Path, lengths: np.ndarray) -> pf.dataset.Dataset:
    """Megatron's files of documents of these lengths, all tokens 0."""
    head = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, 8)
    head += struct.pack("<QQ", len(lengths), len(lengths) + 1)
    starts = 2 * (np.cumsum(lengths) - lengths)
    with (folder / "made.idx").open("wb") as file:
        file.write(head)
        for numbers, kind in (
            (lengths, "<i4"),
            (starts, "<i8"),
            (np.arange(len(lengths) + 1), "<i8"),
        ):
            file.write(numbers.astype(kind).tobytes())
    with (folder / "made.bin").open("wb") as file:
        file.truncate(2 * int(lengths.sum()))
    return pf.megatron(folder / "made")


def corpus_lengths(folder: Path) -> np.ndarray:
    """Tokens of all texts of a folder, by its tokenizer."""
    texts = pf.parquet(folder, column="text")
    spans = texts.tokenize(pf.Tokenizer(str(folder / "tokenizer.json"))).spans
    return lengths_of_rows(spans, 0, len(spans))


def figures(costs: np.ndarray) -> tuple[float, float]:
    """Slowest rank over the mean, by step; deviation of the steps over their mean."""
    means = costs.mean(axis=1)
    return float((costs.max(axis=1) / means).mean()), float(means.std() / means.mean())


def step_costs(loader: pf.Loader, costs: SequenceCosts) -> np.ndarray:
    """Squared lengths of every step of an epoch and rank: float64 [steps, ranks]."""
    run = loader.view().run
    track = run.at(run.beginning(0))
    size = run.step_sequences
    parts = track.at(range(loader.num_sequences // size * size))
    sequences = np.concatenate([part for part in parts if part is not None])
    shape = -1, run.batch_size, run.world_size
    found: np.ndarray = costs.squares(sequences).reshape(shape).sum(axis=1)
    return found


def table(lengths: np.ndarray, length: int) -> None:
    """Print both figures, with and without."""
    with tempfile.TemporaryDirectory() as folder:
        data = write_lengths(Path(folder), lengths)
        for ranks, batch_size in CASES:
            shown = []
            for balance in (None, "attention"):
                loader = pf.Loader(
                    data,
                    sequences=pf.Packed(length),
                    batch_size=batch_size,
                    balance=balance,
                    rank=0,
                    world_size=ranks,
                )
                if balance is None:
                    costs = SequenceCosts(loader.view().run.index)
                shown.append(
                    "{:.2f}, {:.2f}".format(*figures(step_costs(loader, costs)))
                )
            lanes = loader.state_dict()["num_lanes"]
            print(
                f"{length}, {ranks} x {batch_size} ({lanes} lanes)", *shown, sep=" | "
            )


def budgets(lengths: np.ndarray, budget: int) -> None:
    """Print what batches of so many tokens waste, and how soon a step is found."""
    with tempfile.TemporaryDirectory() as folder:
        data = write_lengths(Path(folder), lengths)
        for most in (1024, 2048, 4096):
            ways: tuple[Any, ...] = ("longest", None)
            for pad in ways:
                documents = pf.Documents([], max_length=most, pad=pad)
                begin = time.perf_counter()
                loader = pf.Loader(
                    data, sequences=documents, batch_tokens=budget, rank=0, world_size=8
                )
                made = time.perf_counter() - begin
                tokens = int(np.minimum(lengths, most).sum())
                waste = 1 - tokens / (loader.num_sequences * budget)
                places = np.random.default_rng(0).integers(0, len(loader), 50)
                seconds = []
                for step in places.tolist():
                    begin = time.perf_counter()
                    loader.seek(step)
                    loader.locate(step, 0)
                    seconds.append(time.perf_counter() - begin)
                print(
                    f"{len(lengths)} documents, {budget} tokens, max_length={most}, "
                    f"pad={pad}: {waste:.2%} wasted, {1e3 * np.median(seconds):.1f} ms "
                    f"to seek, {made:.1f} s to open"
                )


def rates(lengths: np.ndarray) -> None:
    """Print tokens a second with and without, side by side."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(np.array_split(lengths, 8)):
            values = rng.integers(0, 50_000, int(part.sum())).astype(np.uint16)
            offsets = np.concatenate([[0], np.cumsum(part)]).astype(np.int32)
            rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
            path = Path(folder) / f"{number}.parquet"
            pq.write_table(pa.table({"input_ids": rows}), path, row_group_size=1000)
        data = pf.parquet(folder, column="input_ids")

        def rate(balance: str | None) -> np.ndarray:
            """Tokens a second, and a second of processor time."""
            loader = pf.Loader(
                data,
                sequences=pf.Packed(2048),
                batch_size=16,
                balance=balance,
                rank=0,
                world_size=1,
                num_threads=2,
            )
            with loader:
                begin, busy, taken = time.perf_counter(), time.process_time(), 0
                for batch in loader:
                    taken += batch["input_ids"].size
                spent = time.perf_counter() - begin, time.process_time() - busy
                return taken / np.array(spent)

        rate("attention")  # Costs are made, and files are in memory.
        both = np.array([(rate(None), rate("attention")) for _ in range(ROUNDS)])
        plain, balanced = np.median(both, axis=0)
        ratios = np.median(both[:, 1] / both[:, 0], axis=0)
        for number, unit in enumerate(("second", "second of processor time")):
            print(
                f"{plain[number]:.3g} and {balanced[number]:.3g} tokens a {unit}: "
                f"{ratios[number]:.2f}"
            )


def seconds_of_costs(num_sequences: int) -> None:
    """Print how long costs take to be made and opened."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PAGEFEED_CACHE_DIR"] = f"{folder}/cache"
        data = write_lengths(Path(folder), rng.integers(1, 64, num_sequences))
        cached = pf.Documents(columns=["tokens"], max_length=64)
        index = JoinedIndex([cached.index(data.spans)])
        for what in ("made", "opened"):
            begin, busy = time.perf_counter(), time.process_time()
            SequenceCosts(index)
            seconds, busy = time.perf_counter() - begin, time.process_time() - busy
            print(
                f"costs of {num_sequences} {what}: {seconds:.3f} s, "
                f"{busy:.3f} s of processor time"
            )


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=64 * 512 * 3)
    parser.add_argument("--lengths", type=int, nargs="*", default=[4096, 32768])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--costs", type=int, help="documents whose costs are made")
    parser.add_argument("--budget", type=int, help="tokens of a batch, of documents")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    for length in arguments.lengths:
        wanted = arguments.sequences * length
        if arguments.corpus is None:
            lengths = rng.lognormal(np.log(600), 1.3, wanted // 1000).astype(int) + 1
        else:
            lengths = rng.choice(corpus_lengths(arguments.corpus), wanted // 100)
        lengths = np.maximum(lengths, 1)
        stop = int(np.searchsorted(np.cumsum(lengths), wanted))
        if arguments.budget is None:
            table(lengths[:stop], length)
        else:
            budgets(lengths[:stop], arguments.budget)
    if arguments.costs is not None:
        seconds_of_costs(arguments.costs)
    if arguments.rates:
        rates(np.minimum(rng.lognormal(np.log(600), 1.3, 60_000).astype(int) + 1, 8192))


if __name__ == "__main__":
    main()
