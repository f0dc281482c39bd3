"""The index of a column whose documents are infilled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pagefeed.caches import (
    ArrayFolder,
    ArrayWriter,
    CountedIndex,
    derived_arrays,
    derived_key,
)
from pagefeed.core._base import Facts, Int64Array, Work, lazy, logger
from pagefeed.core.dataset import OwnTokens, PageIndex
from pagefeed.errors import InvalidArgumentError
from pagefeed.infilling.infill import Infill, infilling_of

VERSION = 1
PAGES_AT_ONCE = 1 << 12


class InfilledIndex(CountedIndex):
    """The pages of a column with the special tokens of infilled documents.

    Which documents are infilled follows from their numbers: nothing is read to count
    their tokens. The data plane rearranges the rows of a page when it decodes it.

    Args:
        plain: The index of the column as it is.
        infill: How documents are infilled.
        filling: Bits of the value for special tokens, if the column is aligned with the
            tokens.
    """

    infill: Infill
    """Settings of infilling."""

    def __init__(
        self, plain: PageIndex, infill: Infill, filling: int | None = None
    ) -> None:
        core = plain.handle.infilled(infilling_of(infill), filling)
        super().__init__(core, plain.recipe, _first_tokens(plain, infill))
        self.value_bytes, self.is_infilled = plain.value_bytes, True
        self._plain = plain
        self.infill = infill
        self._filling = filling

    def __reduce__(self) -> tuple[Callable[..., InfilledIndex], tuple[Any, ...]]:
        """Pickle as its arguments."""
        return InfilledIndex, (self.plain, self.infill, self._filling)

    @property
    def plain(self) -> PageIndex:
        """The index of the column as the files have it."""
        return self._plain

    def _facts(self) -> Facts:
        return {**super()._facts(), "infill": self.infill.identity}

    def check_cut(self, cut: Any) -> None:
        """Raise an error for ``within="sequence"`` with a cut that packs no documents.

        Raises:
            InvalidArgumentError: Saying what to give.
        """
        if self.infill.within == "sequence" and not cut.packs:
            raise InvalidArgumentError(
                "Infill(within='sequence') cuts what a packed sequence holds of a "
                f"document, and {cut!r} packs none: give Packed(length), or "
                "within='document'"
            )

    @lazy
    def fingerprint(self) -> str:
        """Identifies the contents: the column, and how it is infilled."""
        text = f"infilled {self.plain.fingerprint} {self.infill.identity}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null."""
        return self.plain.null_pages

    def row_offsets(self, page: int, *, verify_checksums: bool = False) -> Int64Array:
        """Return where the rows of a page begin in its tokens: int64 [rows + 1]."""
        checked_page = self._check_page(page)
        first, end = self.first_rows([checked_page, checked_page + 1]).tolist()
        added = _num_chosen(self.infill, np.arange(first, end + 1))
        added *= len(self.infill.tokens)
        plain = self.plain.row_offsets(page, verify_checksums=verify_checksums)
        offsets: Int64Array = plain.copy()
        offsets[1:] += np.cumsum(added)
        return offsets

    def text_range(self, page: int, row: int, tokens: range) -> tuple[int, int] | None:
        """Return the part of a text from which some of its tokens come."""
        return self.plain.text_range(page, row, tokens)

    def own_tokens(
        self,
        page: int,
        row: int,
        tokens: range,
        epoch: int,
        parts: Sequence[range] | None = None,
    ) -> list[OwnTokens]:
        """Return which tokens of its document some of a row are, in their order."""
        [first] = self.first_rows([page]).tolist()
        offsets = self.plain.row_offsets(page)
        asked = None if parts is None else [(span.start, span.stop) for span in parts]
        return infilling_of(self.infill).own(
            first + row,
            int(offsets[row + 1] - offsets[row]),
            tokens.start,
            tokens.stop,
            epoch=epoch,
            parts=asked,
        )


def _num_chosen(infill: Infill, borders: Int64Array) -> Int64Array:
    """Count infilled documents between borders: int64 [borders - 1]."""
    counts = infilling_of(infill).num_chosen(np.ascontiguousarray(borders))
    return np.frombuffer(counts, np.int64).copy()


def _first_tokens(plain: PageIndex, infill: Infill) -> Int64Array:
    """Map the tokens before each page, and of all. Count them if they are not stored.

    Every document is hashed, and none is read.
    """
    key = derived_key(plain, str(VERSION), plain.fingerprint, infill.choice)

    def count(first: int) -> Int64Array:
        pages = np.arange(first, min(first + PAGES_AT_ONCE, len(plain)) + 1)
        added = _num_chosen(infill, plain.first_rows(pages)) * len(infill.tokens)
        return added + np.diff(plain.first_values(pages))

    def write(writer: ArrayWriter) -> None:
        logger.info("the infilled of %d documents are counted, once", plain.num_rows)
        work = Work("infilled documents", total=len(plain), unit="pages")
        counts = work.map(
            count,
            range(0, len(plain), PAGES_AT_ONCE),
            lambda first: min(PAGES_AT_ONCE, len(plain) - first),
        )
        for numbers in counts:
            writer.append_sums("first_token", numbers)

    def is_sound(stored: ArrayFolder) -> bool:
        if stored.sizes != {"first_token": len(plain) + 1}:
            return False
        borders = np.arange(len(plain) + 1)
        most = np.diff(plain.first_rows(borders)) * len(infill.tokens)
        # Tokens that infilling adds to each page; wrong sums wrap, and exceed `most`.
        added = np.diff(stored["first_token"]) - np.diff(plain.first_values(borders))
        begins_at = stored["first_token"][0] == 0
        return bool(begins_at and ((added >= 0) & (added <= most)).all())

    stored = derived_arrays(plain, "infilled", key, write, is_sound)
    return stored["first_token"]
