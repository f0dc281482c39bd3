"""Offline tokenizing, and what its files are worth in a row-exact shuffle.

By processor time, in turns, so that ratios hold on a busy machine too::

    python benchmarks/bench_tokenize.py [--texts FILE --tokenizer FILE] [--rounds 3]

1. ``pagefeed.tokenize`` of Parquet and of lines of JSON on one thread, beside bare
   ``encode_batch`` of the same texts, each with a tokenizer that has seen nothing.
2. ``shuffle="row"`` over the files it wrote, beside the same rows as pyarrow writes
   them by default, with memory for a tenth of the decoded tokens.

Needs pyarrow; without ``--texts`` the standard library's sources are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.cli.demo.corpus import make_corpus

LENGTH = 2048
SEQUENCES = 2000
"""Of the row-exact shuffle, of each file."""


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="Parquet with `text`")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process, the system's included."""
    before = os.times()
    work()
    after = os.times()
    return after.user + after.system - before.user - before.system


def fresh(path: Path) -> pf.Tokenizer:
    """A tokenizer that has seen nothing."""
    made = pf.Tokenizer(path)
    made.encode("warm")
    return made


def offline(source: Path, tokenizer: Path, folder: Path, rounds: int) -> Path:
    """Print the first comparison; returns where the files are."""
    texts = pq.read_table(source, columns=["text"])["text"].to_pylist()
    lines = folder / "texts.jsonl"
    with lines.open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    ratios: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        tok = fresh(tokenizer)
        bare = seconds(lambda tok=tok: tok.encode_batch(texts, num_threads=1))  # type: ignore[misc]
        for path in (source, lines):
            tok, out = fresh(tokenizer), folder / f"{path.suffix[1:]}-{number}"
            took = seconds(
                lambda path=path, tok=tok, out=out: pf.tokenize(  # type: ignore[misc]
                    path, out, tokenizer=tok, num_threads=1
                )
            )
            if number:  # The first has imports in it.
                ratios.setdefault(path.suffix, []).append(bare / took)
        print(f"bare encoding {megabytes / bare:.0f} MB/s", flush=True)
    for kind, found in ratios.items():
        print(f"offline from {kind}: {statistics.median(found):.2f} of it")
    return folder / f"parquet-{rounds}"


def shuffled(files: Path, rounds: int) -> None:
    """Print the second comparison."""
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
        folder = Path(name)
        source, tokenizer = options.texts, options.tokenizer
        if source is None or tokenizer is None:
            source = make_corpus(Path(tempfile.gettempdir()) / "pagefeed-bench-texts")[
                0
            ]
            tokenizer = source.parent / "tokenizer.json"
        shuffled(offline(source, tokenizer, folder, options.rounds), options.rounds)
        print("load", os.getloadavg()[0])


if __name__ == "__main__":
    main()
