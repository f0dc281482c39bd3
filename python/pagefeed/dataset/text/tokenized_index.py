"""An index of texts as one of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed._base import Facts, Int64Array, html_of, lazy, text_of
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.text.counts import TokenCounts, token_counts
from pagefeed.dataset.token_index import BlockKind, Page
from pagefeed.storage import Storage
from pagefeed.tokenizer import Tokenizer

__all__ = ["TokenizedIndex", "tokenized"]


def tokenized(texts: PageIndex, tokenizer: Tokenizer) -> TokenizedIndex:
    """Return an index of texts as one of their tokens, counted if nobody has.

    Raises:
        UnsupportedError: If the column is not one of texts.
    """
    return TokenizedIndex(texts, tokenizer, token_counts(texts, tokenizer))


class TokenizedIndex:
    """The pages of a column of texts as pages of tokens: a row's tokens are its text's.

    Loading a page includes encoding it, and refuses what is not as it was counted.

    Args:
        texts: Where the texts lie.
        tokenizer: What encodes them.
        counts: What that comes to.
    """

    def __init__(
        self, texts: PageIndex, tokenizer: Tokenizer, counts: TokenCounts
    ) -> None:
        self.texts = texts
        """Where the texts lie."""
        self.tokenizer = tokenizer
        """What encodes them."""
        self._of_row, self._first_token = counts

    def __reduce__(self) -> tuple[Callable[..., TokenizedIndex], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or makes its own counts."""
        return tokenized, (self.texts, self.tokenizer)

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self.texts)

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "column": self.column,
            "tokenizer": self.tokenizer.name,
            "files": len(self.files),
            "pages": len(self),
            "rows": self.num_rows,
            "values": self.num_values,
        }

    @lazy
    def handle(self) -> _core.Index:
        """The index as the data plane takes it."""
        return self.texts.handle.tokenized(
            self.tokenizer.handle, self.tokenizer.vocab_size, self._of_row
        )

    @property
    def storage(self) -> Storage:
        """Where the files lie."""
        return self.texts.storage

    @property
    def column(self) -> str:
        """The column as it was asked for."""
        return self.texts.column

    @property
    def files(self) -> list[str]:
        """Names of the files, in order."""
        return self.texts.files

    @lazy
    def fingerprint(self) -> str:
        """What identifies the contents: those of the texts, and the tokenizer."""
        text = f"tokens {self.texts.fingerprint} {self.tokenizer.fingerprint}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def cache_dir(self) -> str | None:
        """Folder of what is derived from the index; None if there is none."""
        return self.texts.cache_dir

    @property
    def num_rows(self) -> int:
        """Number of rows in all files."""
        return self.texts.num_rows

    @property
    def num_values(self) -> int:
        """Number of tokens."""
        return int(self._first_token[-1])

    @property
    def value_bytes(self) -> int:
        """Bytes of a token in memory."""
        return 2 if self.tokenizer.vocab_size <= 1 << 16 else 4

    @property
    def mean_row_bytes(self) -> int:
        """Bytes of a row in memory, about."""
        return self.num_values * self.value_bytes // max(self.num_rows, 1)

    @property
    def file_first_page(self) -> Int64Array:
        """First page of each file, and the number of pages: int64 [files + 1]."""
        return self.texts.file_first_page

    @property
    def file_first_row(self) -> Int64Array:
        """First row of each file, and the number of rows: int64 [files + 1]."""
        return self.texts.file_first_row

    @lazy
    def file_first_value(self) -> Int64Array:
        """First token of each file, and the number of tokens: int64 [files + 1]."""
        return self._first_token[self.file_first_page]

    @property
    def folder_columns(self) -> Mapping[str, FolderColumn]:
        """Columns that lie in the names of folders (``lang=en/``), by their names."""
        return self.texts.folder_columns

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null: none, no tokenizer gives one."""
        return np.zeros(0, dtype=np.int64)

    def first_rows(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``pages``; ``len(self)`` gives them all."""
        return self.texts.first_rows(pages)

    def first_values(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the tokens before each of ``pages``, likewise."""
        return self._first_token[np.asarray(pages, dtype=np.int64)]

    def pages_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the page in which each of ``rows`` begins."""
        return self.texts.pages_of_rows(rows)

    def files_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of the file of each of ``rows``."""
        return self.texts.files_of_rows(rows)

    def pages_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the page that holds each of ``values``, numbered through."""
        return np.searchsorted(self._first_token, values, side="right") - 1

    def find_file(self, path: str) -> int | None:
        """Return the number of a file of the index; None if it is none of them."""
        return self.texts.find_file(path)

    def check_files(self) -> None:
        """Refuse files that are not as they were indexed.

        Raises:
            StaleFileError: For the first file that changed.
            MissingFileError: For the first that is gone.
        """
        self.texts.check_files()

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first page of each run that a shuffle moves as one."""
        return self.texts.runs(kind)

    def locate(self, page: int) -> Page:
        """Return where a page lies."""
        return self.texts.locate(page)

    def row_offsets(self, page: int) -> Int64Array:
        """Return where the rows of a page begin in its tokens: int64 [rows + 1]."""
        first, end = self.first_rows([page, page + 1]).tolist()
        offsets = np.zeros(end - first + 1, dtype=np.int64)
        np.cumsum(self._of_row[first:end], out=offsets[1:])
        return offsets
