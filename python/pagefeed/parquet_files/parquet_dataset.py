"""Parquet files as users have them: rows, and all that can be done to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pagefeed.core.dataset import Dataset, PageIndex
from pagefeed.parquet_files.infillable import Infillable
from pagefeed.parquet_files.manifests import check_written_rows
from pagefeed.parquet_files.selectable import SelectableParquet
from pagefeed.parquet_files.tokenizable import Tokenizable

if TYPE_CHECKING:
    from pagefeed.selection import Expression


class Erasable(Dataset):
    """A dataset whose documents may be erased."""

    def erase(
        self,
        *,
        where: str | Expression | None = None,
        rows: Mapping[str, Iterable[int]] | None = None,
        **others: object,
    ) -> Self:
        """Remove documents from all batches, and keep the positions of all others.

        A run that began before the erasure can continue: its state loads, and every
        other sequence keeps its position. From then on states record what is erased,
        and load only with this erasure. Tokens of an erased document become padding
        without loss; in :class:`Documents` it is an empty row. Metadata leave it out.
        Its row number and lengths count as before. To erase further documents later,
        repeat the earlier calls in their order, then add one.

        Args:
            where: A predicate, see :meth:`ParquetDataset.where`.
            rows: Rows of files, by the paths of these: ``{"web/a.parquet": [17]}``.
            others: None; they are refused.

        Returns:
            A dataset of the same rows.

        Raises:
            InvalidArgumentError: If not exactly one of ``where`` and ``rows`` is given,
                or it is invalid.
            MissingDependencyError: If pyarrow, which evaluates predicates, is missing.

        Example:
            >>> without = web.erase(rows={web.files[0]: [17]})  # doctest: +SKIP
            >>> without[17]["input_ids"] is None  # doctest: +SKIP
            True
        """
        from pagefeed.erasure import erased_rows

        erased = erased_rows(self.index, where, rows, others)
        return replace(self, erasures=(*self.erasures, erased))


@dataclass(frozen=True, kw_only=True, repr=False)
class ParquetDataset(Tokenizable, SelectableParquet, Erasable, Infillable):
    """Parquet files read as one dataset; made by :func:`pagefeed.parquet`."""

    def _look_at(self, index: PageIndex) -> None:
        """Refuse what is not there, and files with other rows than were written."""
        super()._look_at(index)
        check_written_rows(index)
