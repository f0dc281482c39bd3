"""Token and text pages: a bare loop, pyarrow and pagefeed in one process.

The bare loop (``crates/pagefeed-core/examples/bare_loop.rs``) does nothing but
decompress, unpack, look up and write int64; pagefeed opens the same pages, checks
everything and gives rows. Texts are read by ``PageIndex.read_page``, which has to
check that they are UTF-8, too. All run on one thread, in turns, and are timed by
processor time, so that the ratios hold on a busy machine too::

    cargo build --release -p pagefeed-core --example bare_loop
    python benchmarks/bench_pages.py [--texts FILES --tokenizer FILE]

Needs numpy and pyarrow; with ``--texts`` (Parquet files with a column ``text``) and
``--tokenizer`` (a ``tokenizer.json``) also tokenizers. Without them the tokens are
drawn from a Zipf distribution and the texts are the standard library's sources.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed

ROW = 2048
PAGE_BYTES = 64 * 1024
ROUNDS = 15
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "ZSTD": 6}
LIBRARY = Path(__file__).parents[1] / "target/release/examples/libbare_loop.so"
DECOMPRESS, BARE, PAGEFEED = range(3)
#: A ring of 1 MiB of int64, as much as some batches of a training run.
RING = 1 << 17


class Loops:
    """The loops of the Rust example, over the first column of a file."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.run_loop.restype = ctypes.c_size_t
        self._file = np.frombuffer(path.read_bytes(), np.uint8)
        metadata = pq.ParquetFile(path).metadata
        chunks = [
            metadata.row_group(i).column(0) for i in range(metadata.num_row_groups)
        ]
        self._chunks = [
            (self._bytes(chunk), CODECS[chunk.compression]) for chunk in chunks
        ]

    def _bytes(self, chunk: pq.ColumnChunkMetaData) -> npt.NDArray[np.uint8]:
        has_dictionary = chunk.has_dictionary_page
        start = (
            chunk.dictionary_page_offset if has_dictionary else chunk.data_page_offset
        )
        return self._file[start : start + chunk.total_compressed_size]

    def tokens(self, which: int, out: npt.NDArray[np.int64]) -> float:
        """Runs one loop into ``out``, a ring; returns its seconds."""
        total = 0.0
        for chunk, codec in self._chunks:
            seconds = ctypes.c_double()
            self._library.run_loop(
                ctypes.c_uint32(which),
                ctypes.c_void_p(chunk.ctypes.data),
                ctypes.c_size_t(len(chunk)),
                ctypes.c_int32(codec),
                ctypes.c_void_p(out.ctypes.data),
                ctypes.c_size_t(len(out)),
                ctypes.byref(seconds),
            )
            total += seconds.value
        return total


def scan(path: Path) -> float:
    """Reads a file by pyarrow without threads; returns the processor seconds."""
    start = time.process_time()
    pq.ParquetFile(path, pre_buffer=False).read(use_threads=False)
    return time.process_time() - start


def read_pages(index: pagefeed.PageIndex) -> float:
    """Reads all pages one by one; returns the processor seconds."""
    start = time.process_time()
    for page in range(len(index)):
        index.read_page(page)
    return time.process_time() - start


def make_texts(files: list[Path]) -> pa.Table:
    """The texts of ``files``, or the standard library's sources."""
    if files:
        return pa.concat_tables(
            [pq.read_table(file, columns=["text"]) for file in files]
        )
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*/*.py"))
    return pa.table(
        {"text": [source.read_text(errors="replace") for source in sources]}
    )


def make_tokens(texts: pa.Table, tokenizer: Path | None) -> npt.NDArray[np.int32]:
    """At most ten million tokens of the texts, or of a Zipf distribution."""
    if tokenizer is None:
        drawn = np.random.default_rng(0).zipf(1.2, 10_000_000)
        return (drawn % 32_000).astype(np.int32)
    from tokenizers import Tokenizer

    model, tokens, total = Tokenizer.from_file(str(tokenizer)), [], 0
    for batch in texts.to_batches(max_chunksize=256):
        for encoding in model.encode_batch(
            [text or "" for text in batch[0].to_pylist()]
        ):
            tokens.append(np.array(encoding.ids, np.int32))
            total += len(encoding.ids)
        if total > 10_000_000:
            break
    return np.concatenate(tokens)


def write_tokens(
    path: Path, tokens: npt.NDArray[np.int32], *, dictionary: bool
) -> None:
    """Writes rows of 2048 tokens by pyarrow's defaults but for small pages."""
    rows = len(tokens) // ROW
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * ROW)
    lists = pa.ListArray.from_arrays(offsets, pa.array(tokens[: rows * ROW]))
    table = pa.table({"input_ids": lists})
    pq.write_table(table, path, data_page_size=PAGE_BYTES, use_dictionary=dictionary)


def compare(
    name: str, sequence: str, amount: float, runs: dict[str, Callable[[], float]]
) -> None:
    """Times ``runs`` in turns; the last is compared with each of the others."""
    times: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(ROUNDS):
        for label, run in runs.items():
            times[label].append(run())
    print(f"{name}:")
    for label, seconds in times.items():
        print(f"  {label:12s} {amount / statistics.median(seconds):8.3f} {sequence}")
    *others, ours = times
    for label in others:
        ratios = [a / b for a, b in zip(times[label], times[ours], strict=True)]
        print(f"  {ours} / {label}: {statistics.median(ratios):.2f}")


def bench_tokens(name: str, path: Path) -> None:
    """Compares the loops on one token file, after checking that they agree."""
    values = pq.read_table(path).column(0).combine_chunks().values.to_numpy()
    loops, ring = Loops(path), np.zeros(RING, np.int64)
    for which in (BARE, PAGEFEED):
        out = np.zeros(len(values), np.int64)
        loops.tokens(which, out)
        assert np.array_equal(out, values), (
            f"loop {which} gives other tokens than pyarrow"
        )
    runs: dict[str, Callable[[], float]] = {
        "decompress": lambda: loops.tokens(DECOMPRESS, ring),
        "bare loop": lambda: loops.tokens(BARE, ring),
        "pyarrow": lambda: scan(path),
        "pagefeed": lambda: loops.tokens(PAGEFEED, ring),
    }
    compare(name, "Gtok/s", len(values) / 1e9, runs)


def bench_texts(name: str, path: Path, size: float) -> None:
    """Compares both readers on one text file, after checking that they agree."""
    index = pagefeed.PageIndex.build(path, column="text")
    pages = [pa.array(index.read_page(page)) for page in range(len(index))]
    assert pa.chunked_array(pages).equals(pq.read_table(path)["text"])
    del pages
    runs: dict[str, Callable[[], float]]
    runs = {"pyarrow": partial(scan, path), "pagefeed": partial(read_pages, index)}
    compare(name, "GB/s", size, runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--tokenizer", type=Path)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    texts = make_texts(arguments.texts)
    tokens = make_tokens(texts, arguments.tokenizer)
    size = texts.nbytes / 1e9
    with tempfile.TemporaryDirectory() as folder:
        for name, dictionary in [("dictionary tokens", True), ("plain tokens", False)]:
            path = Path(folder) / f"{dictionary}.parquet"
            write_tokens(path, tokens, dictionary=dictionary)
            bench_tokens(name, path)
        for codec in ("snappy", "zstd", "none"):
            for name, dictionary in [("dictionary", True), ("plain", False)]:
                path = Path(folder) / f"texts-{codec}-{dictionary}.parquet"
                pq.write_table(
                    texts, path, use_dictionary=dictionary, compression=codec
                )
                bench_texts(f"{name} texts, {codec}", path, size)


if __name__ == "__main__":
    main()
