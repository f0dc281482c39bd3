"""The ceiling of any loader of dictionary pages: two threads that only decode them.

They decompress, unpack, look up and write the tokens of pages, and no more
(``crates/pagefeed-core/examples/bare_loop.rs``). ``bench_loader.py`` measures it.
"""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import data

SNAPPY = 1
BARE = 1
PAGES_AT_ONCE = 64


@dataclass(frozen=True)
class Part:
    """A dictionary page with some data pages: a short column chunk.

    Its tokens stay in the processor's cache or near it, as a batch does.
    """

    path: Path
    dictionary: bytes
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of it."""
        return len(self.dictionary) + self.end - self.start


def read_and_decode(made: data.Data, *, rounds: int, reads: bool) -> Callable[[], int]:
    """Return a function that decodes all pages in two threads, as often as asked.

    It returns the number of tokens. With ``reads`` the threads read the pages from the
    files, else they are in memory.
    """
    import pagefeed as pf

    library = ctypes.CDLL(str(bare_loop()))
    index = pf.parquet([str(path) for path in made.parquet], column="input_ids").index
    parts = [part for path in made.parquet for part in chunk_parts(path, index)]
    files = {path: os.open(path, os.O_RDONLY) for path in made.parquet}
    largest = max(part.size for part in parts)
    done: list[int] = []

    def read(part: Part, into: bytearray) -> bytearray:
        into[: len(part.dictionary)] = part.dictionary
        memory = memoryview(into)[len(part.dictionary) : part.size]
        assert os.preadv(files[part.path], [memory], part.start) == len(memory)
        return into

    whole = [] if reads else [read(part, bytearray(part.size)) for part in parts]

    def work(first: int) -> None:
        out, buffer = np.empty(largest, dtype=np.int64), bytearray(largest)
        for _ in range(rounds):
            for number in range(first, len(parts), 2):
                part = parts[number]
                memory = read(part, buffer) if reads else whole[number]
                count = library.run_loop(
                    ctypes.c_uint32(BARE),
                    (ctypes.c_char * len(memory)).from_buffer(memory),
                    ctypes.c_size_t(part.size),
                    ctypes.c_int32(SNAPPY),
                    ctypes.c_void_p(out.ctypes.data),
                    ctypes.c_size_t(len(out)),
                    ctypes.byref(ctypes.c_double()),
                )
                done.append(count)

    def decode() -> int:
        threads = [threading.Thread(target=work, args=(first,)) for first in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done)

    return decode


def chunk_parts(path: Path, index: Any) -> Iterator[Part]:
    """The pages of a file, some at a time."""
    pages = [index.locate(page) for page in range(len(index))]
    mine = [page for page in pages if os.path.samefile(page.file, path)]
    stored = path.read_bytes()
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            column = file.metadata.row_group(group).column(0)
            start = column.dictionary_page_offset
            dictionary = stored[start : column.data_page_offset]
            of_group = [page for page in mine if page.row_group == group]
            for first in range(0, len(of_group), PAGES_AT_ONCE):
                taken = of_group[first : first + PAGES_AT_ONCE]
                end = taken[-1].offset + taken[-1].compressed_size
                yield Part(path, dictionary, taken[0].offset, end)


def bare_loop() -> Path:
    """The library with the bare loop."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or data.ROOT / "target")
    name = "libbare_loop" + (".dylib" if sys.platform == "darwin" else ".so")
    return target / "release" / "examples" / name


def build_bare_loop() -> None:
    """Build it, or see that it is there."""
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["--package", "pagefeed-core", "--example", "bare_loop"]
    subprocess.run(command, check=True, cwd=data.ROOT)
