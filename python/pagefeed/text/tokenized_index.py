"""The index of a column of texts as an index of their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed.caches import CountedIndex
from pagefeed.core._base import Facts, Int64Array, lazy
from pagefeed.text.counts import TextColumn, TokenCounts, token_counts
from pagefeed.tokenizer import Tokenizer


def _labels(column: TextColumn) -> TokenizedIndex:
    return tokenized(column).labels


def tokenized(column: TextColumn) -> TokenizedIndex:
    """Return a column of texts, or rows, as an index of tokens. Counts if needed.

    Raises:
        UnsupportedError: If the column has another type.
    """
    return TokenizedIndex(column, token_counts(column))


class TokenizedIndex(CountedIndex):
    """The pages of a column of texts as pages of tokens.

    A page is encoded when it is loaded. Loading fails if the tokens are not those that
    were counted.

    Args:
        column: The texts and their encoder.
        counts: Number of tokens of each row.
        is_labels: Whether the rows are the labels of chats.
    """

    tokenizer: Tokenizer
    """Tokenizer of the texts."""

    def __init__(
        self, column: TextColumn, counts: TokenCounts, *, is_labels: bool = False
    ) -> None:
        self._column = column
        self._counts = counts
        self._of_row, first_token, num_learned = counts
        self.num_learned = num_learned
        """Rows with at least one labelled token; 0 without labels."""
        self.texts, self.tokenizer, self.rows, _ = column
        core = self.tokenizer.handle.tokenized(
            self.texts.handle,
            self.tokenizer.vocab_size,
            self._of_row,
            is_labels=is_labels,
            **column.how,
        )
        super().__init__(core, self.texts.recipe, first_token)
        self.value_bytes = 2 if self.tokenizer.vocab_size <= 1 << 16 else 4
        self.bytes_beside = sum(index.bytes_beside for index in column.beside)
        self.numbers_beside = {
            name: numbers
            for index in column.beside
            for name, numbers in index.numbers_beside.items()
        }
        self._is_labels = is_labels

    def __reduce__(self) -> tuple[Callable[..., TokenizedIndex], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or makes its own counts."""
        made = _labels if self._is_labels else tokenized
        return made, (self._column,)

    @lazy
    def labels(self) -> TokenizedIndex:
        """Labels of the same chats, as an index."""
        return TokenizedIndex(self._column, self._counts, is_labels=True)

    def _facts(self) -> Facts:
        return {**super()._facts(), "tokenizer": self.tokenizer.name}

    @lazy
    def fingerprint(self) -> str:
        """Identifies the contents: the texts and the tokenizer."""
        text = " ".join(["tokens", *self._column.fingerprints])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @lazy
    def num_written(self) -> int:
        """Number of rows that have tokens."""
        return int(np.count_nonzero(self._of_row))

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null: none, no tokenizer gives one."""
        return np.zeros(0, dtype=np.int64)

    def text_range(self, page: int, row: int, tokens: range) -> tuple[int, int] | None:
        """Return the part of a text from which some of its tokens come.

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
        offsets = self.tokenizer.offsets(text)
        if offsets is None or not tokens:
            return None
        some = offsets[tokens.start : tokens.stop]
        return int(some[:, 0].min()), int(some[:, 1].max())

    def row_offsets(self, page: int, *, verify_checksums: bool = False) -> Int64Array:  # noqa: ARG002
        """Return where the rows of a page begin in its tokens: int64 [rows + 1].

        Computed from the counts, without reading a page.
        """
        checked = self._check_page(page)
        first, end = self.first_rows([checked, checked + 1]).tolist()
        offsets = np.zeros(end - first + 1, dtype=np.int64)
        np.cumsum(self._of_row[first:end], out=offsets[1:])
        return offsets
