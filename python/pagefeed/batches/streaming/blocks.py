"""Blocks of texts, read and encoded: the tokens of their rows, joined."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, UInt32Array, distinct, require
from pagefeed.batches.streaming.lane_order import LaneOrder
from pagefeed.dataset import BlockKind, TextStream
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    TokenRangeError,
    UnsupportedError,
)
from pagefeed.sequences import Documents, SequenceLayout
from pagefeed.storage import Storage

__all__ = ["BlockReader", "EncodedBlock"]


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """The documents of a block, one after the other."""

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    """With separators: uint16 or, of large vocabularies, uint32 [tokens]."""
    starts: Int64Array
    """Where each document begins that has tokens: int64 [documents]."""


class BlockReader:
    """Reads and encodes blocks; several threads may use it.

    Args:
        stream: The texts and their tokenizer.
        kind: What a block is.
        layout: Separators.
        vocab_size: Token ids are below it.
    """

    def __init__(
        self,
        stream: TextStream,
        *,
        kind: BlockKind,
        layout: SequenceLayout,
        vocab_size: int,
    ) -> None:
        self._arrow = require("pyarrow", extra="pyarrow", purpose="tokens not counted")
        self._index = stream.texts.index
        self._tokenizer = stream.tokenizer
        self._layout = layout
        self._vocab_size = vocab_size
        self._kind: type[np.unsignedinteger[Any]] = (
            np.uint16 if vocab_size <= 1 << 16 else np.uint32
        )
        self._rows = Documents().bind(stream.texts.spans)
        self._blocks = self._rows.blocks(kind)
        self._lock = Lock()
        self.pages_read = 0
        """Pages read so far."""

    @property
    def storage(self) -> Storage:
        """Where the files lie."""
        return self._index.storage

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    @property
    def block_bytes(self) -> float:
        """Mean bytes of the texts of a block."""
        size = self._index.mean_row_bytes * self._rows.num_sequences
        return size / max(1, self.num_blocks)

    def read(self, order: LaneOrder, block: int, epoch: int) -> EncodedBlock:
        """Return a block with its rows in the order of a pass.

        Raises:
            CorruptFileError: If a text is no UTF-8; names file and page.
            TokenRangeError: If a token is beyond the vocabulary.
            UnsupportedError: If the column is not one of texts.
        """
        first, end = self._blocks.first_sequence(np.array([block, block + 1])).tolist()
        pages, rows = self._rows.places(np.arange(first, end))
        texts: list[str] = []
        for page in distinct(pages).tolist():
            texts += self._texts(page, rows[pages == page])
        documents = [
            self._ids(text, int(page))
            for text, page in zip(
                self._tokenizer.encode_batch(texts, num_threads=1), pages, strict=True
            )
        ]
        return self._joined(
            [documents[n] for n in order.rows(block, epoch, end - first)]
        )

    def _texts(self, page: int, rows: Int64Array) -> list[str]:
        values: Any = self._arrow.array(self._index.read_page(page))
        for field in self._index.column.split(".")[1:]:
            if self._arrow.types.is_struct(values.type):
                values = values.field(field)
        kinds = self._arrow.types
        is_text = (kinds.is_string, kinds.is_large_string, kinds.is_binary)
        if not any(check(values.type) for check in (*is_text, kinds.is_large_binary)):
            raise self._at(
                UnsupportedError(
                    f"column {self._index.column!r} is {values.type}: only texts can "
                    "be tokenized"
                ),
                page,
            )
        with self._lock:
            self.pages_read += 1
        try:
            found = values.to_pylist()
            some = (found[row] for row in rows.tolist())
            return [
                text.decode() if isinstance(text, bytes) else text or ""
                for text in some
            ]
        except UnicodeDecodeError as problem:
            error = CorruptFileError(f"a text is not UTF-8: {problem}")
            raise self._at(error, page) from problem

    def _ids(self, ids: UInt32Array, page: int) -> UInt32Array:
        if ids.size and int(ids.max()) >= self._vocab_size:
            raise self._at(
                TokenRangeError(
                    f"the tokenizer gives {int(ids.max())}, and ids are to be below "
                    f"{self._vocab_size}"
                ),
                page,
            )
        return ids

    def _at(self, error: DataError, page: int) -> DataError:
        """Say where an error is."""
        place = self._index.locate(page)
        error.file, error.row_group, error.page = (
            place.file,
            place.row_group,
            place.page,
        )
        error.column, error.offset = self._index.column, place.offset
        where = f"{place.file}, row group {place.row_group}, column {error.column!r}"
        error.args = (f"{where}, page {place.page}: {error}",)
        return error

    def _joined(self, documents: list[UInt32Array]) -> EncodedBlock:
        before = [] if self._layout.bos is None else [_token(self._layout.bos)]
        behind = [] if self._layout.eos is None else [_token(self._layout.eos)]
        parts = itertools.chain.from_iterable(
            (*before, document, *behind) for document in documents
        )
        lengths = np.array([len(document) for document in documents], dtype=np.int64)
        lengths += self._layout.per_row
        starts = np.cumsum(lengths) - lengths
        tokens = np.concatenate([_NOTHING, *parts]).astype(self._kind)
        return EncodedBlock(tokens, starts[lengths > 0])


_NOTHING: npt.NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)


def _token(number: int) -> UInt32Array:
    return cast("UInt32Array", np.array([number], dtype=np.uint32))
