"""Blocks of texts, read and encoded: the tokens of their rows, joined or packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt32Array, distinct, require
from pagefeed.core.dataset import BlockKind, Dataset, Spans, refuse_unknown_rows
from pagefeed.core.sequences import Packed, TokenCut, pack_lengths
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    TokenRangeError,
    UnsupportedError,
)
from pagefeed.tokenizer import Tokenizer
from pagefeed.uncounted.lane_passes import LanePasses, RowRange

TEXTS = ("string", "large_string", "binary", "large_binary")
"""Types of texts, as Arrow writes them."""


class Block(Protocol):
    """A block that a lane reads: rows of neighbouring pages."""

    @property
    def size(self) -> int:
        """Number of tokens, or packed sequences, in the block."""

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds."""


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """The documents of a block, joined."""

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    """With separators: uint16 or, of large vocabularies, uint32 [tokens]."""
    starts: Int64Array
    """First token of each document that has tokens: int64 [documents]."""

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds."""
        return self.tokens.nbytes + self.starts.nbytes


class RowBlocks:
    """The rows of a dataset in blocks of neighbouring pages."""

    def __init__(self, spans: Spans, kind: BlockKind) -> None:
        self._spans, self._runs = spans, spans.runs(kind)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._spans if self._runs is None else self._runs)

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """Return the first row of each block; for ``len(self)``, all rows: int64."""
        if self._runs is not None:
            blocks = np.append(self._runs, len(self._spans))[blocks]
        return self._spans.first_rows(blocks)

    def pages(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the page of each row, and its number in the page: int64 each."""
        span = self._spans.spans_of_rows(rows)
        page, first_row = self._spans.places(span)
        return page, first_row + rows - self._spans.first_rows(span)


class BlockReader:
    """Reads and encodes blocks; several threads may use it.

    Args:
        texts: The rows, and the column of texts.
        tokenizer: Tokenizer that encodes the texts.
        cut: Cut with the separators.
        kind: Kind of block: a page or a row group.
        vocab_size: Number that every token id is below.
    """

    def __init__(
        self,
        texts: Dataset,
        tokenizer: Tokenizer,
        cut: TokenCut,
        *,
        kind: BlockKind,
        vocab_size: int,
    ) -> None:
        self._arrow = require("pyarrow", extra="pyarrow", purpose="tokens not counted")
        self._index = texts.index
        self.storage = self._index.storage
        """Storage of the files."""
        self._tokenizer = tokenizer
        self._bos, self._eos = (
            np.array([] if token is None else [token], dtype=np.uint32)
            for token in (cut.bos, cut.eos)
        )
        self._vocab_size = vocab_size
        self._kind: type[np.unsignedinteger[Any]] = (
            np.uint16 if vocab_size <= 1 << 16 else np.uint32
        )
        self._spans, self._unit = texts.spans, kind
        refuse_unknown_rows(self._spans, "TextLoader")
        self.blocks = RowBlocks(self._spans, kind)
        """The blocks of rows."""
        self._lock = Lock()
        self.pages_read = 0
        """Pages read so far."""
        self.reading = Counter[int]()
        """Pages whose texts are read and encoded now, by the number of threads."""

    @property
    def block_bytes(self) -> float:
        """Mean bytes of the texts of a block."""
        size = self._index.mean_row_bytes * self._spans.num_rows
        return size / max(1, len(self.blocks))

    def weights(self) -> Int64Array:
        """Return the stored bytes of each block, at least 1: int64."""
        spans, index = self._spans, self._index
        pages, _ = spans.places(np.arange(len(spans)))
        rows = np.diff(spans.first_rows(np.arange(len(spans) + 1)))
        of_page = index.first_rows(pages + 1) - index.first_rows(pages)
        sizes = index.stored_bytes(pages) * rows // np.maximum(of_page, 1)
        runs = spans.runs(self._unit)
        return np.maximum(sizes if runs is None else np.add.reduceat(sizes, runs), 1)

    def read(self, passes: LanePasses, row_range: RowRange, epoch: int) -> EncodedBlock:
        """Return the rows of a range of a block, in the order of a pass.

        Raises:
            CorruptFileError: If a text is not UTF-8; names file and page.
            TokenRangeError: If a token is beyond the vocabulary.
            UnsupportedError: If the column is not one of texts.
        """
        first = int(self.blocks.first_sequence(np.array([row_range.block]))[0])
        rows = first + passes.rows(row_range, epoch)
        pages, page_rows = self.blocks.pages(rows)
        documents: list[UInt32Array] = [_NOTHING] * len(rows)
        for page in distinct(pages).tolist():
            which = np.flatnonzero(pages == page)
            with self._noted(page):
                texts = self._texts(page, page_rows[which])
                encoded = self._tokenizer.encode_batch(texts, num_threads=1)
            for document, ids in zip(which.tolist(), encoded, strict=True):
                documents[document] = self._ids(ids, page)
        return self._joined(documents)

    @contextmanager
    def _noted(self, page: int) -> Iterator[None]:
        """Note that a page is being read."""
        with self._lock:
            self.reading[page] += 1
        try:
            yield
        finally:
            with self._lock:
                self.reading -= Counter([page])

    def awaited(self) -> dict[str, Any]:
        """Return the pages that are being read, as :meth:`AnyView.awaited` does."""
        with self._lock:
            pages = [*map(self._index.locate, sorted(self.reading))]
        column = self._index.column
        return {
            "places": [(at.file, at.row_group, column, at.page) for at in pages],
            "num_pages": len(pages),
            "num_bytes": sum(at.compressed_size for at in pages),
        }

    def _texts(self, page: int, rows: Int64Array) -> list[str]:
        values: Any = self._arrow.array(self._index.read_page(page))
        for field in self._index.column.split(".")[1:]:
            if self._arrow.types.is_struct(values.type):
                values = values.field(field)
        if str(values.type) not in TEXTS:
            error = UnsupportedError(
                f"column {self._index.column!r} is {values.type}: only texts can be "
                "tokenized"
            )
            raise self._at(error, page)
        with self._lock:
            self.pages_read += 1
        try:
            texts = values.take(self._arrow.array(rows)).cast("large_string")
            return [text or "" for text in texts.to_pylist()]
        except ValueError as problem:
            damage = CorruptFileError(f"a text is not UTF-8: {problem}")
            raise self._at(damage, page) from problem

    def _ids(self, ids: UInt32Array, page: int) -> UInt32Array:
        if ids.size and int(ids.max()) >= self._vocab_size:
            error = TokenRangeError(
                f"the tokenizer gives {int(ids.max())}, and ids are to be below "
                f"{self._vocab_size}"
            )
            raise self._at(error, page)
        return ids

    def _at(self, error: DataError, page: int) -> DataError:
        """Say where an error is."""
        location = self._index.locate(page)
        error.at(**self._index.error_place(location))
        where = (
            f"{location.file}, row group {location.row_group}, column {error.column!r}"
        )
        error.args = (f"{where}, page {location.page}: {error}",)
        return error

    def _joined(self, documents: list[UInt32Array]) -> EncodedBlock:
        bos, eos = self._bos, self._eos
        lengths = np.array([len(document) for document in documents], dtype=np.int64)
        lengths += len(bos) + len(eos)
        starts = np.cumsum(lengths) - lengths
        pieces = [piece for document in documents for piece in (bos, document, eos)]
        tokens = np.concatenate([_NOTHING, *pieces]).astype(self._kind)
        return EncodedBlock(tokens, starts[lengths > 0])


_NOTHING: npt.NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)


class PackedBlock:
    """The sequences that the documents of a block pack into.

    Args:
        block: The documents.
        cut: How they are packed.
    """

    def __init__(self, block: EncodedBlock, cut: Packed) -> None:
        self._block, self._layout = block, cut.layout
        lengths = np.diff(block.starts, append=block.size)
        self._packing = pack_lengths(lengths, cut.length, cut.layout)
        last = self._packing.sequence[-1:]
        self.size = int(last[0]) + 1 if len(last) else 0
        """Number of sequences."""

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds."""
        return self._block.num_bytes + 5 * self._packing.sequence.nbytes

    def sequence(
        self, index: int
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], Int64Array]:
        """Return a sequence: its tokens without padding, and where documents begin.

        Returns:
            uint16 or uint32 [tokens]; rising int64.
        """
        packing, tokens = self._packing, self._block.tokens
        here = slice(*np.searchsorted(packing.sequence, [index, index + 1]))
        first = packing.first_token[here]
        end = first + packing.num_tokens[here]
        document = self._block.starts[packing.row[here]]
        pieces = []
        for begin, stop, again in zip(
            (document + self._own(first)).tolist(),
            (document + self._own(end)).tolist(),
            self._repeats_bos(first).tolist(),
            strict=True,
        ):
            if again:
                pieces.append(np.array([self._layout.bos], dtype=tokens.dtype))
            pieces.append(tokens[begin:stop])
        return np.concatenate(pieces), packing.offset[here]

    def _own(self, tokens: Int64Array) -> Int64Array:
        """Return the token at each position, counted without repetitions."""
        if not self._layout.bos_every:
            return tokens
        own: Int64Array = self._layout.without_bos(tokens) + (tokens > 0)
        return own

    def _repeats_bos(self, first: Int64Array) -> npt.NDArray[np.bool_]:
        repeats: npt.NDArray[np.bool_] = (first > 0) & (self._layout.bos_every > 0)
        return repeats
