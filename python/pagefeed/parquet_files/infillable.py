"""Datasets whose documents are infilled: a method of datasets, mixed into them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pagefeed.core._base import Facts
from pagefeed.core.dataset import (
    Dataset,
    PageIndex,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.infilling import Infill


@dataclass(frozen=True, kw_only=True, repr=False)
class Infillable(Dataset):
    """A dataset of documents, which may be infilled."""

    infilling: Infill | None = None
    """Settings of infilling; None without infilling."""

    @property
    def has_columns_of_files(self) -> bool:
        """Whether the indexes of its columns are those of the files."""
        return self.infilling is None and super().has_columns_of_files

    def _arranged(self, index: PageIndex) -> PageIndex:
        if self.infilling is None:
            return index
        from pagefeed.infilling import InfilledIndex

        return InfilledIndex(index, self.infilling)

    def _arranged_beside(self, index: PageIndex, column: str) -> PageIndex:
        """Return the index of a column; an aligned one is arranged like tokens."""
        matches = [aligned for aligned in self.aligned if aligned.column == column]
        if self.infilling is None or not matches:
            return index
        from pagefeed.infilling import InfilledIndex

        filling = matches[0].filling(index)
        return (
            index if filling is None else InfilledIndex(index, self.infilling, filling)
        )

    def _not_arranged(self) -> set[str]:
        """Return the columns that only the data plane can rearrange, in batches."""
        if self.infilling is None:
            return set()
        both = zip(self.aligned, self.aligned_sources, strict=True)
        wide = {column.column for column, at in both if column.filling(at) is None}
        return wide | {*self.span_columns}

    def facts(self) -> Facts:
        """Return facts that are known without reading or building anything."""
        infill = self.infilling and self.infilling.identity
        return {**super().facts(), "infill": infill}

    def infill(self, infill: Infill) -> Self:
        """Rearrange documents so that a model learns to fill in the middle.

        Args:
            infill: Special tokens, shares, and what is cut.

        Returns:
            A dataset of the same rows. The chosen rows have their parts in another
            order, with special tokens between them. Every epoch cuts them elsewhere;
            indexing, :meth:`head` and iteration show epoch 0.

        Raises:
            InvalidArgumentError: If the documents are infilled already, or their
                borders are unknown.
            UnsupportedError: If the column holds no tokens.

        Example:
            >>> from pagefeed import Infill
            >>> code.infill(Infill(prefix=1, middle=2, suffix=3))  # doctest: +SKIP
        """
        from pagefeed.infilling import Infill

        if not isinstance(infill, Infill):
            raise InvalidArgumentError(
                f"infill({infill!r:.60}): give pagefeed.Infill(prefix=, middle=, "
                "suffix=), with the special tokens of your tokenizer"
            )
        if self.infilling is not None:
            raise InvalidArgumentError(
                f"{self!r:.60} is infilled already, by {self.infilling.identity}: "
                "infill the dataset that it was made of"
            )
        refuse_texts(self.index, "infill")
        refuse_unknown_rows(self.spans, "infill")
        rows = replace(self, selection=None, infilling=infill)
        if self.selection is None:
            return rows
        return replace(rows, selection=self.selection.over(rows.spans))
