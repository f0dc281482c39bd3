"""Offline tokenizing, and what its files are worth in a row-exact shuffle.

By processor time, in turns, so that ratios hold on a busy machine too::

    python benchmarks/bench_tokenize.py [--texts FILES --tokenizer FILE] [--rounds 3]

1. ``pagefeed.tokenize`` of Parquet and of lines of JSON on one thread, beside bare
   ``encode_batch`` of the same texts; all on threads that have seen nothing. Once with
   a tokenizer that was just loaded, whose engine is still to be tried on its first
   documents, and once with one for which that is over, as in a job of many files.
2. The same by parts, in ns a token: reading alone, with encoding and pages.
3. The codecs of pages: bytes a token, ns to write, tokens/s when loaded.
4. ``shuffle="row"`` over the files it wrote, beside the same rows as pyarrow writes
   them by default, with memory for a tenth of the decoded tokens.

Needs pyarrow; without ``--texts`` the standard library's sources are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed import _core
from pagefeed.cli.demo.corpus import make_corpus
from pagefeed.prepare.texts import Wanted, find_inputs, ranges_of, read_range
from pagefeed.prepare.tokenizing.tokenization import BATCH_BYTES, Compression

CODECS = get_args(Compression)
PAGE_BYTES = 64 << 10
LENGTH = 2048
SEQUENCES = 2000
"""Of the row-exact shuffle, of each file."""
Times = dict[str, list[float]]


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", nargs="+", type=Path, help="Parquet with `text`")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process, the system's included, on a thread of its own."""
    thread = threading.Thread(target=work)
    before = time.process_time()
    thread.start()
    thread.join()
    return time.process_time() - before


class Inputs:
    """Texts, as Parquet and as lines of JSON."""

    def __init__(self, files: list[Path], tokenizer: Path, folder: Path) -> None:
        self.tokenizer = tokenizer
        self.folder = folder
        self.texts: list[str] = []
        for path in files:
            self.texts += pq.read_table(path, columns=["text"])["text"].to_pylist()
        lines = folder / "texts.jsonl"
        with lines.open("w") as file:
            for text in self.texts:
                file.write(json.dumps({"text": text}) + "\n")
        self.inputs = {"Parquet": files, "JSON lines": [lines]}
        self.proven = self.fresh()
        self.proven.encode_batch(self.texts[:1000], num_threads=1)
        self.num_tokens = sum(map(len, self.proven.encode_batch(self.texts)))
        self._count = 0

    def fresh(self) -> pf.Tokenizer:
        """A tokenizer that has seen nothing."""
        made = pf.Tokenizer(self.tokenizer)
        made.encode("warm")
        return made

    def bare(self, tok: pf.Tokenizer) -> float:
        """Nanoseconds a token of encoding alone."""
        took = seconds(lambda: tok.encode_batch(self.texts, num_threads=1))
        return took / self.num_tokens * 1e9

    def offline(
        self, tok: pf.Tokenizer, kind: str, codec: Compression
    ) -> tuple[float, Path]:
        """Nanoseconds a token of all of it, and where it was written."""
        self._count += 1
        out = self.folder / f"out-{self._count}"
        job = partial(pf.tokenize, self.inputs[kind], out, tokenizer=tok, num_threads=1)
        took = seconds(partial(job, compression=codec))
        return took / self.num_tokens * 1e9, out


def compare(data: Inputs, rounds: int) -> Path:
    """Print the first comparison, and the codecs; returns where files are."""
    for name in ("just loaded", "proven"):
        times: Times = {}
        files: dict[str, Path] = {}
        for number in range(rounds + 1):
            make = data.fresh if name == "just loaded" else lambda: data.proven
            found = {"bare encoding": data.bare(make())}
            for codec in CODECS:
                for kind in data.inputs:
                    took, files[codec] = data.offline(make(), kind, codec)
                    found[f"{kind}, {codec}"] = took
            if number:  # The first has imports in it.
                for what, took in found.items():
                    times.setdefault(what, []).append(took)
        show(f"tokenizer {name}", times)
    for codec, folder in files.items():
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        rate = statistics.median(loaded(folder) for _ in range(rounds))
        print(f"{codec}: {size / data.num_tokens:.2f} bytes a token, ", end="")
        print(f"{rate:.0f} M tokens/s loaded")
    return files["zstd"]


def show(title: str, times: Times) -> None:
    """Print medians, and what they are of the first."""
    first = statistics.median(next(iter(times.values())))
    print(f"{title}: ns a token, share of bare encoding")
    for what, took in times.items():
        median = statistics.median(took)
        print(f"  {what:24} {median:6.1f} {first / median:6.2f}", flush=True)


def loaded(folder: Path) -> float:
    """Millions of tokens a second of a core, all pages of a folder in random order."""
    tokens = pf.parquet(folder, column="input_ids")
    loader = pf.Loader(
        tokens,
        sequences=pf.Windows(LENGTH),
        batch_size=8,
        seed=1,
        shuffle="page",
        rank=0,
        world_size=1,
        num_threads=1,
    )
    took = seconds(lambda: [None for _ in loader])
    return tokens.index.num_values / took / 1e6


def parts(data: Inputs, rounds: int) -> None:
    """Print what a token takes, part after part."""
    for kind, paths in data.inputs.items():
        times: Times = {}
        for _ in range(rounds):
            put = partial(note, times, data)
            put(
                "bare encoding",
                lambda: data.proven.encode_batch(data.texts, num_threads=1),
            )
            put("reading alone", lambda paths=paths: read(paths))  # type: ignore[misc]
            for codec in CODECS:
                take = partial(encoded, data, paths, codec)
                put(f"and encoding, pages, {codec}", take)
        show(f"parts, {kind}", times)


def note(times: Times, data: Inputs, what: str, work: Callable[[], object]) -> None:
    """Keep how long something takes."""
    times.setdefault(what, []).append(seconds(work) / data.num_tokens * 1e9)


def read(paths: list[Path], take: Callable[[pa.Table], object] = len) -> None:
    """Read all texts as a job does."""
    inputs = find_inputs([str(path) for path in paths], None, None)
    wanted = Wanted(source="text", kept={}, batch_bytes=BATCH_BYTES)
    for number in range(len(paths)):
        for file_range in ranges_of(inputs, number, 1 << 40):
            for batch in read_range(inputs.storage, file_range, wanted):
                take(batch.table)


def encoded(data: Inputs, paths: list[Path], codec: str) -> None:
    """Read and encode all texts, and make pages of their tokens."""
    kind = pa.list_(pa.field("element", pa.uint16(), nullable=False))
    empty = pa.BufferOutputStream()
    schema = pa.schema([pa.field("input_ids", kind, nullable=False)])
    pq.ParquetWriter(empty, schema).close()
    lists = _core.ListFile(
        empty.getvalue().to_pybytes(), 1, codec, PAGE_BYTES, data.proven.vocab_size
    )

    def take(table: pa.Table) -> None:
        for chunk in table["text"].cast(pa.large_binary()).chunks:
            _, offsets, content = chunk.buffers()
            borders = np.frombuffer(offsets, np.int64, len(chunk) + 1, 8 * chunk.offset)
            lists.encode(
                data.proven.handle, np.frombuffer(content, np.uint8), borders, 1
            )
            lists.take()

    read(paths, take)


def shuffled(files: Path, rounds: int) -> None:
    """Print the last comparison."""
    plain = files.with_name("plain")
    plain.mkdir()
    ids = pq.read_table(files, columns=["input_ids"]).replace_schema_metadata()
    table = ids.cast(pa.schema({"input_ids": pa.list_(pa.int32())}))
    pq.write_table(table, plain / "part-0.parquet")
    paths = {"tokenize": files, "pyarrow's default": plain}
    memory = pf.parquet(files, column="input_ids").index.num_values * 4 // 10
    ratios = []
    for _ in range(rounds):
        took = {}
        for name, path in paths.items():
            loader = pf.Loader(
                pf.parquet(path, column="input_ids"),
                sequences=pf.Windows(LENGTH),
                batch_size=8,
                seed=1,
                shuffle="row",
                memory=memory,
                rank=0,
                world_size=1,
                num_threads=1,
            )
            took[name] = seconds(lambda loader=loader: some(loader))  # type: ignore[misc]
        ratios.append(took["pyarrow's default"] / took["tokenize"])
        print({name: round(value, 2) for name, value in took.items()}, flush=True)
    print(f"row-exact shuffle: {statistics.median(ratios):.1f} x on its files")


def some(loader: pf.Loader) -> None:
    """Take some sequences."""
    for number, _ in enumerate(loader):
        if number * 8 >= SEQUENCES:
            return


def main() -> None:
    """Measure and print."""
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        sources, tokenizer = options.texts, options.tokenizer
        if sources is None or tokenizer is None:
            made = Path(tempfile.gettempdir()) / "pagefeed-bench-texts"
            sources = make_corpus(made)[:1]
            tokenizer = sources[0].parent / "tokenizer.json"
        data = Inputs(sources, tokenizer, Path(name))
        files = compare(data, options.rounds)
        parts(data, options.rounds)
        shuffled(files, options.rounds)
        print("load", os.getloadavg()[0])


if __name__ == "__main__":
    main()
