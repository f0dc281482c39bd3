"""The index of a column of texts as an index of their tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed._base import Facts, Int64Array, lazy
from pagefeed.dataset.counted_index import CountedIndex
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.text.counts import TokenCounts, token_counts
from pagefeed.tokenizer import Rows, Tokenizer

__all__ = ["TokenizedIndex", "tokenized"]


def _labels(*made: Any) -> TokenizedIndex:
    return tokenized(*made).labels


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


class TokenizedIndex(CountedIndex):
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
        self._of_row, first_token, num_learned = counts
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
        super().__init__(core, texts.recipe, first_token)
        self.texts = texts
        """The index of the texts."""
        self.tokenizer = tokenizer
        """The tokenizer of the texts."""
        self.rows = rows
        """Encodes rows, if the column does not hold plain texts."""
        self._beside = tuple(beside)
        self._is_labels = is_labels

    def __reduce__(self) -> tuple[Callable[..., TokenizedIndex], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or makes its own counts."""
        made = _labels if self._is_labels else tokenized
        return made, (self.texts, self.tokenizer, self.rows, self._beside)

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

    @lazy
    def num_written(self) -> int:
        """Number of rows that have tokens."""
        return int(np.count_nonzero(self._of_row))

    @property
    def value_bytes(self) -> int:
        """Bytes of a token in memory."""
        return 2 if self.tokenizer.vocab_size <= 1 << 16 else 4

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null: none, no tokenizer gives one."""
        return np.zeros(0, dtype=np.int64)

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
