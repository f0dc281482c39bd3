"""Data for the benchmarks: real text as token Parquet, and the same as a flat file.

The text is that of the shared corpus, by its own tokenizer, or else that of the
standard library, by a tokenizer trained on the spot. It is repeated to the number of
tokens asked for. What was made once is used again, by a folder for each text: ids of
15 bits decode more slowly than ids of 13, so figures of one text are not comparable
with those of another.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pagefeed import Tokenizer
from standard_library import make_corpus

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "benchmarks" / ".data"
TEXTS_AT_ONCE = 1000
NUM_FILES = 8
LONG_EPOCH = 512_000_000
"""Tokens of an epoch that is longer than what a loader plans ahead by page."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """One set of tokens, in the forms that are compared."""

    parquet: list[Path]
    """Files with a column ``input_ids``, list<int32>, of equal rows."""
    flat: Path
    """The same tokens, uint16, in the same order."""
    num_rows: int
    """Rows of all files."""
    row_length: int
    """Tokens of a row."""
    source: str
    """Whose text it is."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all files."""
        return self.num_rows * self.row_length


def make(
    *,
    num_tokens: int,
    row_length: int = 2048,
    row_group_rows: int | None = None,
    numbered: bool = False,
) -> Data:
    """Return data of at least ``num_tokens`` tokens, made if it is not there.

    Written as pyarrow does by default (dictionary, snappy), with pages of 64 KiB.

    Args:
        num_tokens: How many tokens at least.
        row_length: Tokens of a row.
        row_group_rows: Rows of a row group; None: pyarrow's default, which makes each
            file one row group.
        numbered: Whether the first two tokens of every row are its number, low half
            first, so that a row is known wherever it comes out.
    """
    corpus = _corpus()
    text = CACHE / ("corpus" if corpus else "library")
    text.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    name = f"{num_tokens}-{row_length}-{row_group_rows or 'default'}"
    folder = text / (f"{name}-numbered" if numbered else name)
    rows_of_file = -(-num_tokens // (NUM_FILES * row_length))
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tokens = _tokens(text, corpus)
        _write(
            folder, tokens, rows_of_file, row_length, row_group_rows, numbered=numbered
        )
        complete.touch()
    return Data(
        parquet=sorted(folder.glob("*.parquet")),
        flat=folder / "tokens.bin",
        num_rows=rows_of_file * NUM_FILES,
        row_length=row_length,
        source="shared corpus" if corpus else "standard library",
    )


def _write(
    folder: Path,
    tokens: npt.NDArray[np.uint16],
    num_rows: int,
    row_length: int,
    row_group_rows: int | None,
    *,
    numbered: bool,
) -> None:
    count = num_rows * row_length
    with (folder / "tokens.bin").open("wb") as flat:
        for number in range(NUM_FILES):
            places = np.arange(number * count, (number + 1) * count)
            part = tokens.take(places, mode="wrap")
            if numbered:
                rows_here = np.arange(number * num_rows, (number + 1) * num_rows)
                part[0::row_length] = rows_here & 0xFFFF
                part[1::row_length] = rows_here >> 16
            flat.write(part.tobytes())
            offsets = np.arange(num_rows + 1, dtype=np.int32) * row_length
            rows = pa.ListArray.from_arrays(offsets, part.astype(np.int32))
            pq.write_table(
                pa.table({"input_ids": rows}),
                folder / f"tokens-{number}.parquet",
                data_page_size=64 << 10,
                **({"row_group_size": row_group_rows} if row_group_rows else {}),
            )


def _corpus() -> Path | None:
    """Where the shared corpus lies, if it is there."""
    shared = Path(os.environ.get("PAGEFEED_SHARED") or ROOT.parent / "shared")
    corpus = shared / "data" / "corpus"
    return corpus if corpus.exists() else None


def _tokens(text: Path, corpus: Path | None) -> npt.NDArray[np.uint16]:
    """All tokens of the corpus, or else of the standard library; kept in ``text``."""
    path = text / "tokens.npy"
    if not path.exists():
        parts = _corpus_tokens(corpus) if corpus else _library_tokens(text)
        np.save(path, np.concatenate(list(parts)))
    tokens: npt.NDArray[np.uint16] = np.load(path)
    return tokens


def _corpus_tokens(corpus: Path) -> Iterator[npt.NDArray[np.uint16]]:
    files = sorted(corpus.glob("slice-*.parquet"))
    yield from _encoded(files, corpus / "tokenizer.json")


def _encoded(files: list[Path], name: Path) -> Iterator[npt.NDArray[np.uint16]]:
    """Every text of the files, and a token behind each."""
    tokenizer = Tokenizer(name)
    end = tokenizer.eos
    assert tokenizer.vocab_size <= 1 << 16
    assert end is not None
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(TEXTS_AT_ONCE, columns=["text"]):
                texts = batch.column(0).to_pylist()
                for ids in tokenizer.encode_batch(texts):
                    yield np.append(ids, end).astype(np.uint16)


def _library_tokens(text: Path) -> Iterator[npt.NDArray[np.uint16]]:
    files = make_corpus(text / "texts")
    yield from _encoded(files, files[0].parent / "tokenizer.json")
