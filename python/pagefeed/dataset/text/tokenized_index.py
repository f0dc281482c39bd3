"""The index of a column of texts as an index of their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed._base import Facts, Int64Array, lazy
from pagefeed.dataset.page_index import PageIndex, Pieces
from pagefeed.dataset.spans import cut_at
from pagefeed.dataset.text.counts import TokenCounts, token_counts
from pagefeed.tokenizer import Rows, Tokenizer

__all__ = ["TokenizedIndex", "tokenized"]


def tokenized(
    texts: PageIndex,
    tokenizer: Tokenizer,
    rows: Rows | None = None,
    beside: Sequence[PageIndex] = (),
) -> TokenizedIndex:
    """Return an index of texts, or rows, as an index of tokens; counts them if needed.

    Raises:
        UnsupportedError: If the column is not one of these.
    """
    counts = token_counts(texts, tokenizer, rows, beside)
    return TokenizedIndex(texts, tokenizer, counts, rows, beside)


class TokenizedIndex(PageIndex):
    """The pages of a column of texts as pages of tokens.

    A page is encoded when it is loaded. Loading fails if the tokens are not those that
    were counted.

    Args:
        texts: The index of the texts.
        tokenizer: Encodes them.
        counts: Numbers of tokens.
        rows: Encodes rows, if the column does not hold plain texts.
        beside: Further columns that ``rows`` reads.
        is_labels: The rows are those of the labels of chats.
    """

    def __init__(
        self,
        texts: PageIndex,
        tokenizer: Tokenizer,
        counts: TokenCounts,
        rows: Rows | None = None,
        beside: Sequence[PageIndex] = (),
        *,
        is_labels: bool = False,
    ) -> None:
        self._counts = counts
        self._of_row, self._first_token, num_learned = counts
        self.num_learned = num_learned
        """Rows with at least one labelled token; 0 without labels."""
        core = tokenizer.handle.tokenized(
            texts.handle,
            tokenizer.vocab_size,
            self._of_row,
            rows=rows,
            beside=[each.handle for each in beside],
            is_labels=is_labels,
        )
        super().__init__(core, texts.recipe)
        self.texts = texts
        """The index of the texts."""
        self.tokenizer = tokenizer
        """The tokenizer of the texts."""
        self.rows = rows
        """Encodes rows, if the column does not hold plain texts."""
        self._beside = tuple(beside)

    def __reduce__(self) -> tuple[Callable[..., TokenizedIndex], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or makes its own counts."""
        return tokenized, (self.texts, self.tokenizer, self.rows, self._beside)

    @lazy
    def labels(self) -> TokenizedIndex:
        """The same rows of chats, as their labels."""
        return TokenizedIndex(
            self.texts,
            self.tokenizer,
            self._counts,
            self.rows,
            self._beside,
            is_labels=True,
        )

    def _facts(self) -> Facts:
        return {**super()._facts(), "tokenizer": self.tokenizer.name}

    @lazy
    def fingerprint(self) -> str:
        """Identifies the contents: the texts and the tokenizer."""
        text = f"tokens {self.texts.fingerprint} {self.tokenizer.fingerprint}"
        if self.rows is not None:
            text += f" {self.rows.fingerprint}"
        for each in self._beside:
            text += f" {each.fingerprint}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def num_values(self) -> int:
        """Number of tokens."""
        return int(self._first_token[-1])

    @lazy
    def num_written(self) -> int:
        """Number of rows that have tokens."""
        return int(np.count_nonzero(self._of_row))

    @property
    def value_bytes(self) -> int:
        """Bytes of a token in memory."""
        return 2 if self.tokenizer.vocab_size <= 1 << 16 else 4

    @lazy
    def mean_row_bytes(self) -> int:
        """Approximate bytes of a row in memory."""
        return self.num_values * self.value_bytes // max(self.num_rows, 1)

    @lazy
    def file_first_value(self) -> Int64Array:
        """First token of each file, and the number of tokens: int64 [files + 1]."""
        return self._first_token[self.file_first_page]

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null: none, no tokenizer gives one."""
        return np.zeros(0, dtype=np.int64)

    def first_values(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the tokens before each of ``pages``; ``len(index)`` gives them all."""
        return self._first_token[np.asarray(pages, dtype=np.int64)]

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> Pieces:
        """Cut ranges of tokens, none of them empty, at the ends of pages."""
        rows = self._first_row
        return cut_at(self._first_token, rows, per_row, starts, stops)

    @lazy
    def _first_row(self) -> Int64Array:
        """Rows before each page, and of all: int64 [pages + 1]."""
        return self.first_rows(np.arange(len(self) + 1))

    def pages_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the page that holds each of ``values``, numbered through."""
        return np.searchsorted(self._first_token, values, side="right") - 1

    def text_range(self, page: int, row: int, tokens: range) -> tuple[int, int] | None:
        """Return the part of a text that some of its tokens encode.

        Args:
            page: Number of the page.
            row: Row in the page.
            tokens: Numbers of tokens of the row.

        Returns:
            Begin and end in bytes of the text. None if the tokenizer does not tell, or
            the text is made from several columns.
        """
        if self.rows is not None:
            return None
        text = _core.text_of(
            self.handle, page, row, verify_checksums=self.recipe.verify_checksums
        )
        places = self.tokenizer.places(text)
        if places is None or not tokens:
            return None
        some = places[tokens.start : tokens.stop]
        return int(some[:, 0].min()), int(some[:, 1].max())

    def row_offsets(self, page: int) -> Int64Array:
        """Return where the rows of a page begin in its tokens: int64 [rows + 1].

        Comes from the counts; reads nothing.
        """
        number = self._check_page(page)
        first, end = self.first_rows([number, number + 1]).tolist()
        offsets = np.zeros(end - first + 1, dtype=np.int64)
        np.cumsum(self._of_row[first:end], out=offsets[1:])
        return offsets
