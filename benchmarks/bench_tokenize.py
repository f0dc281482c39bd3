"""Offline tokenizing, and what its files are worth in a row-exact shuffle.

By processor time, in turns, so that ratios hold on a busy machine too::

    python benchmarks/bench_tokenize.py [--texts FILES --tokenizer FILE] [--pairs 15]

1. ``pagefeed.tokenize`` of Parquet (zstd) and of lines of JSON on one thread, beside
   bare ``encode_batch`` of the same texts, on threads that have seen nothing. Each
   takes some tenths of a second, right after the other: the speed of a machine may
   change by a third within a minute. Pairs change their order, and the ratio is that
   of each pair: median and quartiles. The engine was tried on its first documents
   before, as in a job of many files; ``--fresh`` takes new tokenizers.
2. The same by parts, in ns a token: reading alone, with encoding and pages.
3. The codecs of pages: bytes a token, tokens/s when loaded.
4. ``shuffle="row"`` over all files that it writes, beside the same rows as pyarrow
   writes them by default, with memory for a tenth of the decoded tokens.

``--only 1`` stops after the first.

Needs pyarrow; without ``--texts`` the standard library's sources are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
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
from pagefeed.prepare.parquet_sinks import Compression
from pagefeed.prepare.texts import Wanted, find_inputs, ranges_of, read_range
from pagefeed.prepare.tokenizing.tokenization import BATCH_BYTES
from standard_library import make_corpus

CODECS = get_args(Compression)
PAGE_BYTES = 64 << 10
LENGTH = 2048
SEQUENCES = 2000
"""Of the row-exact shuffle, of each file."""
SAMPLE_BYTES = 48 << 20
"""Bytes of the texts of a pair."""
Times = dict[str, list[float]]


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", nargs="+", type=Path, help="Parquet with `text`")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3, help="of parts and loading")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--only", type=int, default=4)
    return parser.parse_args()


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process, the system's included, on a thread of its own."""
    thread = threading.Thread(target=work)
    before = time.process_time()
    thread.start()
    thread.join()
    return time.process_time() - before


class Inputs:
    """Texts, as Parquet and as lines of JSON: every so many of some files."""

    def __init__(self, files: list[Path], tokenizer: Path, folder: Path) -> None:
        self.files = files
        self.tokenizer = tokenizer
        self.folder = folder
        texts: list[str] = []
        for path in files:
            texts += pq.read_table(path, columns=["text"])["text"].to_pylist()
        step = max(1, round(sum(map(len, texts)) / SAMPLE_BYTES))
        self.texts = texts[::step]
        lines, rows = folder / "texts.jsonl", folder / "texts.parquet"
        with lines.open("w") as file:
            for text in self.texts:
                file.write(json.dumps({"text": text}) + "\n")
        pq.write_table(
            pa.table({"text": self.texts}),
            rows,
            compression="zstd",
            row_group_size=10_000,
            data_page_size=256 << 10,
            write_page_index=True,
        )
        self.inputs = {"Parquet": [rows], "JSON lines": [lines]}
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


def compare(
    data: Inputs, codecs: list[Compression], pairs: int, *, fresh: bool
) -> None:
    """Print the first comparison."""
    kinds = [(codec, kind) for codec in codecs for kind in data.inputs]
    times: dict[tuple[Compression, str], list[tuple[float, float]]] = {}
    for number in range(pairs + 1):
        for codec, kind in kinds if number % 2 else kinds[::-1]:
            pair = {}
            for what in ("job", "bare") if number % 2 else ("bare", "job"):
                tok = data.fresh() if fresh else data.proven
                if what == "bare":
                    pair[what] = data.bare(tok)
                else:
                    pair[what], out = data.offline(tok, kind, codec)
                    shutil.rmtree(out)
            if number:  # The first has imports in it.
                times.setdefault((codec, kind), []).append((pair["bare"], pair["job"]))
    print(f"{pairs} pairs: ns a token of bare encoding and of the job; share of bare")
    for (codec, kind), found in times.items():
        bare, job = (statistics.median(some) for some in zip(*found, strict=True))
        ratios = [one / other for one, other in found]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        print(f"  {kind + ', ' + codec:24} {bare:6.1f} {job:6.1f}", end="")
        print(f"  {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


def sizes(data: Inputs, rounds: int) -> None:
    """Print what files of each codec take, and how fast they load."""
    for codec in CODECS:
        _, folder = data.offline(data.proven, "Parquet", codec)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        rate = statistics.median(loaded(folder) for _ in range(rounds))
        print(f"{codec}: {size / data.num_tokens:.3f} bytes a token, ", end="")
        print(f"{rate:.0f} M tokens/s loaded")


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
        fields=("input_ids",),
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


def shuffled(data: Inputs, rounds: int) -> None:
    """Print the last comparison."""
    files, plain = data.folder / "all", data.folder / "plain"
    pf.tokenize(data.files, files, tokenizer=data.proven)
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
                fields=("input_ids",),
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
        compare(data, options.codecs, options.pairs, fresh=options.fresh)
        steps = [parts, sizes, shuffled]
        for step in steps[: options.only - 1]:
            step(data, options.rounds)
        print("load", os.getloadavg()[0])


if __name__ == "__main__":
    main()
