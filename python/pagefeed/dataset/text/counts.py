"""How many tokens every row of a column of texts has: counted once, and kept."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import (
    ArrayFolder,
    ArrayWriter,
    Int64Array,
    Work,
    in_order,
    remove_arrays,
    stored_arrays,
)
from pagefeed.dataset.derived import derived_arrays, derived_key
from pagefeed.dataset.page_index import PageIndex
from pagefeed.tokenizer import Tokenizer

__all__ = ["TokenCounts", "token_counts"]

VERSION = 1
PART_ROWS = 1 << 14
"""Rows counted as one, unless a page has more: what a killed process loses."""
_logger = logging.getLogger("pagefeed")

Counts = npt.NDArray[np.uint32]


class TokenCounts(NamedTuple):
    """Tokens of the rows of an index, and of its pages."""

    of_row: Counts
    """uint32 [rows]."""
    first_token: Int64Array
    """Tokens before each page, and of all: int64 [pages + 1]."""


class _Part(NamedTuple):
    """Consecutive pages."""

    number: int
    first_page: int
    end_page: int
    num_rows: int


def token_counts(index: PageIndex, tokenizer: Tokenizer) -> TokenCounts:
    """Count the tokens of every row, or map what was counted before.

    All texts are encoded, by a thread per CPU. With a cache folder the counts are kept
    beside the index: parts of them as they are done, so that a process that is killed,
    or others at work on the same files, leave what they have; in the end as one array
    of four bytes a row. Processes begin with different parts and wait for nobody.

    Args:
        index: The texts.
        tokenizer: What encodes them.

    Raises:
        UnsupportedError: If the column is not one of texts.
        CorruptFileError: If bytes are no UTF-8.
        StaleFileError: If a file changed.
    """
    parts = [f"{VERSION}", index.fingerprint, index.column, tokenizer.fingerprint]
    key = derived_key(index, *parts)
    counting = _Counting(index, tokenizer, key)
    stored = derived_arrays(index, "tokens", key, counting.write)
    counting.clean()
    of_row = stored["of_row"].view(np.uint32)[: index.num_rows]
    return TokenCounts(of_row, stored["first_token"])


class _Counting:
    """One pass over the texts of an index."""

    def __init__(self, index: PageIndex, tokenizer: Tokenizer, key: str) -> None:
        self._index = index
        self._tokenizer = tokenizer
        self._key = key
        folder = index.cache_dir
        self._folder = None if folder is None else f"{folder}/tokens-{key}.parts"

    def write(self, writer: ArrayWriter) -> None:
        """Count what nobody has, and write all of it down."""
        index, parts = self._index, [*_parts(self._index)]
        begin = time.monotonic()
        _logger.info("the tokens of %d rows are counted, once", index.num_rows)
        total, left = 0, np.zeros(0, dtype=np.uint32)
        writer.append("of_row", [])
        writer.append("first_token", [0])
        for part, counts in self._counted(parts):
            pages = np.arange(part.first_page, part.end_page + 1)
            rows = index.first_rows(pages) - index.first_rows(part.first_page)
            before = np.append(0, np.cumsum(counts, dtype=np.int64))
            writer.append("first_token", total + before[rows[1:]])
            total += int(before[-1])
            left = np.append(left, counts)
            even = len(left) // 2 * 2
            writer.append("of_row", left[:even].view(np.int64))
            left = left[even:]
        if len(left):
            writer.append(
                "of_row", np.append(left, left[:0].dtype.type(0)).view(np.int64)
            )
        writer.about |= {
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            "vocab_size": self._tokenizer.vocab_size,
        }
        _logger.info(
            "%d tokens counted in %.1f s with %s (%s)",
            total,
            time.monotonic() - begin,
            self._tokenizer.engine,
            self._tokenizer.engine_reason,
        )

    def clean(self) -> None:
        """Remove the parts: the whole is there."""
        if self._folder is not None:
            remove_arrays(self._folder)

    def _counted(self, parts: list[_Part]) -> Iterator[tuple[_Part, Counts]]:
        """Yield the counts of all parts, in order."""
        total = self._index.num_rows
        with Work("tokens of rows", total=total, unit="rows") as work:
            if self._folder is None:
                for part, counts in zip(
                    parts, in_order(self._count, parts), strict=True
                ):
                    work.advance(part.num_rows)
                    yield part, counts
                return
            # Beside others at the same work, it is best to begin elsewhere.
            anywhere = random.SystemRandom().sample(parts, len(parts))
            for part in in_order(self._keep, anywhere):
                work.advance(part.num_rows)
        for part in parts:
            kept = self._kept(part)["of_row"].view(np.uint32)
            yield part, kept[: part.num_rows]

    def _keep(self, part: _Part) -> _Part:
        """Count a part, unless it lies there."""
        self._kept(part)
        return part

    def _kept(self, part: _Part) -> ArrayFolder:
        def write(writer: ArrayWriter) -> None:
            counts = self._count(part)
            padded = np.append(counts, np.zeros(len(counts) % 2, dtype=np.uint32))
            writer.append("of_row", padded.view(np.int64))

        return stored_arrays(
            self._folder, f"part-{part.number}", f"{self._key} {part}", write
        )

    def _count(self, part: _Part) -> Counts:
        read = self._index.count_tokens
        pages = range(part.first_page, part.end_page)
        return np.concatenate([read(page, self._tokenizer.handle) for page in pages])


def _parts(index: PageIndex) -> Iterator[_Part]:
    """Cut the pages into runs of some rows."""
    first = index.first_rows(np.arange(len(index) + 1))
    page = number = 0
    while page < len(index):
        end = int(np.searchsorted(first, first[page] + PART_ROWS, side="left"))
        end = min(max(end, page + 1), len(index))
        yield _Part(number, page, end, int(first[end] - first[page]))
        page, number = end, number + 1
