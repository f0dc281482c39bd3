"""Numbers of tokens of the rows of a column of texts: counted once, and kept."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.caches import (
    ArrayFolder,
    ArrayWriter,
    IsSound,
    are_sums,
    derived_arrays,
    derived_key,
    find_arrays,
    keeps_arrays,
    remove_arrays,
    stored_arrays,
)
from pagefeed.core._base import Int64Array, Work, in_order, logger
from pagefeed.core.dataset import PageIndex
from pagefeed.tokenizer import Rows, Tokenizer

VERSION = 2
KIND = "tokens"
"""Begin of the names of the stored folders."""
CHUNK_ROWS = 1 << 14
"""Rows of a chunk, or of a page with more: a killed process loses that much work."""

Counts = npt.NDArray[np.uint32]


class TokenCounts(NamedTuple):
    """Tokens of the rows of an index, and of its pages."""

    of_row: Counts
    """uint32 [rows]."""
    first_token: Int64Array
    """Tokens before each page, and of all: int64 [pages + 1]."""
    num_learned: int
    """Rows with at least one labelled token; 0 without labels."""


class TextColumn(NamedTuple):
    """A column of texts, or of rows with others, and what encodes it."""

    texts: PageIndex
    """The column."""
    tokenizer: Tokenizer
    """Encodes its texts."""
    rows: Rows | None = None
    """Encodes its rows, if they are not plain texts."""
    beside: tuple[PageIndex, ...] = ()
    """Further columns that ``rows`` reads."""

    @property
    def fingerprints(self) -> list[str]:
        """Identify texts, tokenizer, encoder of rows, and further columns."""
        sources = (self.texts, self.tokenizer, self.rows, *self.beside)
        return [source.fingerprint for source in sources if source is not None]

    @property
    def how(self) -> dict[str, Any]:
        """The encoding of rows, in the form of the data plane."""
        return {"rows": self.rows, "beside": [column.handle for column in self.beside]}


class _Counted(NamedTuple):
    """Counts of some rows."""

    of_row: Counts
    num_learned: int


def token_counts(column: TextColumn) -> TokenCounts:
    """Map the number of tokens in each row. Count them if they are not stored.

    Encodes all texts, with a thread per CPU. With a cache folder, each finished chunk
    is stored next to the index, so that work survives a killed process and processes
    share it. In the end the counts are one array of four bytes a row. Processes begin
    with different chunks and never wait for each other.

    Raises:
        UnsupportedError: If the column is not one of texts.
        CorruptFileError: If bytes are not UTF-8.
        StaleFileError: If a file changed.
    """
    index = column.texts
    contents, *others = column.fingerprints
    key = derived_key(index, f"{VERSION}", contents, index.column, *others)
    counting = _Counting(column, key)
    try:
        counting.make_chunks()
        stored = derived_arrays(index, KIND, key, counting.write, counting.is_sound)
    except _CountedElsewhereError as other:
        stored = other.stored
    counting.clean()
    of_row = stored["of_row"].view(np.uint32)[: index.num_rows]
    num_learned = int(stored["num_learned"].sum())
    return TokenCounts(of_row, stored["first_token"], num_learned)


class _CountedElsewhereError(Exception):
    """Another process has stored all counts meanwhile."""

    def __init__(self, stored: ArrayFolder) -> None:
        super().__init__()
        self.stored = stored


@dataclass
class _Counting:
    """Counts the tokens of a column, chunk by chunk."""

    column: TextColumn
    key: str
    folder: str | None = None
    """Folder of the chunks; None to keep them in memory."""

    def __post_init__(self) -> None:
        self.index, self.tokenizer, *_ = self.column
        self.chunks = [*_chunks(self.index)]
        """The pages of each chunk."""

    def make_chunks(self) -> None:
        """Count and store all missing chunks, if the folder is writable.

        Raises:
            _CountedElsewhereError: As soon as another process has stored all counts.
        """
        index = self.index
        if index.cache_dir is None:
            return
        folder = f"{index.cache_dir}/{KIND}-{self.key}.chunks"
        self.folder = folder  # It may have chunks of a process that was killed.
        self._check_whole()
        if not keeps_arrays(folder):
            self.folder = None
            return
        index.check_files()
        with self._work() as work:
            # In random order: other processes count other chunks meanwhile.
            anywhere = random.SystemRandom().sample(self.chunks, len(self.chunks))
            for chunk in in_order(self._keep, anywhere):
                work.advance(self._num_rows(chunk))

    def write(self, writer: ArrayWriter) -> None:
        """Join all chunks and store the whole."""
        begin, total = time.monotonic(), 0
        writer.append("of_row", [])
        writer.append("first_token", [0])
        writer.append("num_learned", [])
        for chunk, counted in self._counted():
            counts, num_learned = counted
            before = np.append(0, np.cumsum(counts, dtype=np.int64))
            rows = self.index.first_rows(np.arange(chunk.start, chunk.stop + 1))
            writer.append("first_token", total + before[rows[1:] - rows[0]])
            writer.append("num_learned", [num_learned])
            total += int(before[-1])
            writer.append_bytes("of_row", counts.tobytes())
        tokenizer = self.tokenizer
        writer.about |= {
            "tokenizer": tokenizer.name,
            "tokenizer_fingerprint": tokenizer.fingerprint,
            "vocab_size": tokenizer.vocab_size,
        }
        logger.info(
            "%d tokens in %d rows, counted with %s (%s), written in %.1f s",
            total,
            self.index.num_rows,
            tokenizer.engine,
            tokenizer.engine_reason,
            time.monotonic() - begin,
        )

    def is_sound(self, stored: ArrayFolder) -> bool:
        """Whether all rows are counted, and the sums of pages are those of rows."""
        index, num_chunks = self.index, len(self.chunks)
        sizes = -(-index.num_rows // 2), len(index) + 1, num_chunks
        names = "of_row", "first_token", "num_learned"
        if stored.sizes != dict(zip(names, sizes, strict=True)):
            return False
        of_row = stored["of_row"].view(np.uint32)[: index.num_rows]
        of_page, has_rows = np.zeros_like(index.page_rows), index.page_rows > 0
        first_row = index.first_rows(np.flatnonzero(has_rows))
        of_page[has_rows] = np.add.reduceat(of_row, first_row, dtype=np.int64)
        are_equal = np.array_equal(np.diff(stored["first_token"]), of_page)
        learned = np.append(0, np.cumsum(stored["num_learned"]))
        starts = bool(stored["first_token"][0] == 0)
        return starts and are_equal and are_sums(learned, index.num_rows)

    def clean(self) -> None:
        """Remove the chunks after the whole is stored."""
        if self.folder is not None:
            remove_arrays(self.folder)

    def _work(self) -> Work:
        total = self.index.num_rows
        logger.info("the tokens of %d rows are counted, once", total)
        return Work("tokens of rows", total=total, unit="rows")

    def _num_rows(self, chunk: range) -> int:
        first, end = self.index.first_rows([chunk.start, chunk.stop]).tolist()
        return int(end - first)

    def _counted(self) -> Iterator[tuple[range, _Counted]]:
        """Yield the counts of all chunks, in order."""
        if self.folder is None:
            with self._work() as work:
                counted = in_order(self._count, self.chunks)
                for chunk, counts_of_chunk in zip(self.chunks, counted, strict=True):
                    work.advance(len(counts_of_chunk.of_row))
                    yield chunk, counts_of_chunk
            return
        for chunk in self.chunks:
            kept = find_arrays(self.folder, *self._name(chunk), self._fits(chunk))
            if kept is None:  # It is damaged, or another process removed it.
                self._check_whole()
                yield chunk, self._count(chunk)
            else:
                counts = kept["of_row"].view(np.uint32)[: self._num_rows(chunk)]
                yield chunk, _Counted(counts, int(kept["num_learned"][0]))

    def _name(self, chunk: range) -> tuple[str, str]:
        """Return the file name of a chunk, and its key."""
        return f"chunk-{chunk.start}", f"{self.key} {chunk}"

    def _keep(self, chunk: range) -> range:
        """Count and store a chunk, unless it is stored."""
        name, key = self._name(chunk)

        def write(writer: ArrayWriter) -> None:
            self._check_whole()
            counted = self._count(chunk)
            writer.append_bytes("of_row", counted.of_row.tobytes())
            writer.append("num_learned", [counted.num_learned])

        stored_arrays(self.folder, name, key, write, self._fits(chunk))
        return chunk

    def _fits(self, chunk: range) -> IsSound:
        """Return a function that checks the counts of a chunk."""
        rows = self._num_rows(chunk)
        sizes = {"of_row": -(-rows // 2), "num_learned": 1}
        return lambda stored: (
            stored.sizes == sizes and 0 <= stored["num_learned"][0] <= rows
        )

    def _check_whole(self) -> None:
        """Raise a _CountedElsewhereError if all counts are stored."""
        folder = self.index.cache_dir
        if folder is not None:
            name = f"{KIND}-{self.key}"
            stored = find_arrays(folder, name, self.key, self.is_sound)
            if stored is not None:
                self.index.check_files()
                raise _CountedElsewhereError(stored)

    def _count(self, chunk: range) -> _Counted:
        counts, learned = zip(*map(self._count_page, chunk), strict=True)
        return _Counted(np.concatenate(counts), sum(learned))

    def _count_page(self, page: int) -> tuple[Counts, int]:
        counts, num_learned = self.tokenizer.handle.count(
            self.index.handle,
            page,
            verify_checksums=self.index.recipe.verify_checksums,
            **self.column.how,
        )
        return np.frombuffer(counts, dtype=np.uint32), num_learned


def _chunks(index: PageIndex) -> Iterator[range]:
    """Divide the pages into chunks of about :data:`CHUNK_ROWS`."""
    first = index.first_rows(np.arange(len(index) + 1))
    end = 0
    while end < len(index):
        page, most = end, first[end] + CHUNK_ROWS
        end = min(int(np.searchsorted(first, most, side="left")), len(index))
        yield range(page, end)
