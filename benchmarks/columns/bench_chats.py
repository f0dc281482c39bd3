"""Nested text: chats beside the same messages as flat text, by pagefeed and pyarrow.

By processor time, on one thread, in turns, so that ratios hold on a busy machine too::

    python benchmarks/columns/bench_chats.py [--texts FILE] [--length 400] [--rounds 9]

Chats are ``list<struct<role, content>>`` of four messages each; the flat files hold the
same messages, one a row. Pages of roles hold many times as many rows as those of what
was said, so that one page of roles goes along with many others. Needs pyarrow; without
``--texts`` (Parquet with a column ``text``) the standard library's sources are taken.

Beside both readers the codec alone decompresses the same text, in pieces of a page's
size: a reader that did nothing else could not be faster.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed

MESSAGES = 4
"""Of a chat."""
BYTES = 64 << 20
"""Of all messages."""
PAGE_BYTES = 1 << 20
"""Of a page, as pyarrow writes them."""


def make_messages(source: Path | None, length: int) -> list[str]:
    """Cut texts into messages of about ``length`` characters, from short to long."""
    if source is not None:
        texts = pq.read_table(source, columns=["text"])["text"].to_pylist()
    else:
        sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*/*.py"))
        texts = [source.read_text(errors="replace") for source in sources]
    drawn = np.random.default_rng(1).lognormal(np.log(length), 1, 1 << 16)
    lengths = itertools.cycle(np.maximum(drawn, 1).astype(int).tolist())
    messages, size = [], 0
    for text in itertools.cycle(text or "" for text in texts):
        at = 0
        while at < len(text) and size < BYTES:
            end = at + next(lengths)
            messages.append(text[at:end])
            size += len(messages[-1])
            at = end
        if size >= BYTES:
            return messages[: len(messages) // MESSAGES * MESSAGES]
    return messages


def make_tables(messages: list[str]) -> tuple[pa.Table, pa.Table]:
    """The same messages as rows, and as chats."""
    content = pa.array(messages)
    roles = pa.array(["user", "assistant"] * (len(messages) // 2))
    said = pa.StructArray.from_arrays([roles, content], ["role", "content"])
    offsets = pa.array(np.arange(0, len(messages) + 1, MESSAGES, dtype=np.int32))
    chats = pa.ListArray.from_arrays(offsets, said)
    return pa.table({"text": content}), pa.table({"messages": chats})


def scan(path: Path) -> float:
    """Read a file by pyarrow without threads; return the processor seconds."""
    start = time.process_time()
    pq.ParquetFile(path, pre_buffer=False).read(use_threads=False)
    return time.process_time() - start


def compressed(messages: pa.Array, codec: str) -> list[tuple[pa.Buffer, int]]:
    """Cut the bytes of messages into pieces, compressed, each with its size before."""
    data = messages.buffers()[2]
    pieces = [data[at : at + PAGE_BYTES] for at in range(0, data.size, PAGE_BYTES)]
    return [(pa.compress(piece, codec), piece.size) for piece in pieces]


def decompress(pieces: list[tuple[pa.Buffer, int]], codec: str) -> float:
    """Decompress all pieces; return the processor seconds."""
    start = time.process_time()
    for piece, size in pieces:
        pa.decompress(piece, size, codec)
    return time.process_time() - start


def read_pages(index: pagefeed.PageIndex) -> float:
    """Read all pages one by one; return the processor seconds."""
    start = time.process_time()
    for page in range(len(index)):
        index.read_page(page)
    return time.process_time() - start


def compare(
    folder: Path, tables: tuple[pa.Table, pa.Table], codec: str, rounds: int
) -> None:
    """Print the rates of both readers for both files."""
    runs: dict[str, Callable[[], float]] = {}
    for kind, table in zip(("flat", "chats"), tables, strict=True):
        path = folder / f"{kind}-{codec}.parquet"
        pq.write_table(table, path, compression=codec)
        column = table.column_names[0]
        index = pagefeed.PageIndex.build(path, column=column)
        pages = [pa.array(index.read_page(page)) for page in range(len(index))]
        assert pa.chunked_array(pages).equals(pq.read_table(path)[column])
        runs[f"{kind}, pyarrow"] = partial(scan, path)
        runs[f"{kind}, pagefeed"] = partial(read_pages, index)
    if codec != "none":
        pieces = compressed(tables[0]["text"].chunk(0), codec)
        runs[f"{codec} alone"] = partial(decompress, pieces, codec)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run())
    print(f"{codec}:")
    size = tables[0].nbytes / 1e9
    for name, seconds in times.items():
        print(f"  {name:16} {size / statistics.median(seconds):6.2f} GB/s")

    def show(name: str, other: str) -> None:
        pairs = zip(times[other], times[name], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"  {name} / {other}: {ratio:.2f}")

    show("chats, pagefeed", "flat, pagefeed")
    show("chats, pagefeed", "chats, pyarrow")
    if codec != "none":
        show(f"{codec} alone", "chats, pyarrow")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--length", type=int, default=400, help="of a message")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    tables = make_tables(make_messages(options.texts, options.length))
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("snappy", "zstd", "none"):
            compare(Path(folder), tables, codec, options.rounds)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
