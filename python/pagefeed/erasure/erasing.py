"""Erasing: rows found by a predicate, by their numbers, or by what a table lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pagefeed.core._base import Int64Array, check_whole, distinct
from pagefeed.core.dataset import (
    Dataset,
    IndexRecipe,
    PageIndex,
    Spans,
    refuse_unknown_rows,
)
from pagefeed.erasure.lost import lost_rows
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection import Expression, Selection, rows_of
from pagefeed.selection import where as rows_where

__all__ = ["Erasable"]


class Erasable(Dataset):
    """A dataset whose documents may be erased."""

    def erase(
        self,
        *,
        where: str | Expression | None = None,
        rows: Mapping[str, Iterable[int]] | None = None,
        snapshot: Dataset | None = None,
        key: str | None = None,
    ) -> Self:
        """Leave documents out of all batches, and all others where they are.

        A run that began without it goes on: its state loads, every other sequence keeps
        its place, and from then on states record what is erased, so that none loads
        without it. Tokens of an erased document become padding without loss; one of
        :class:`Documents` is an empty row. Nothing is told of it in metadata. Its
        numbers and lengths count as before. Call it again for further documents, after
        those of before, in their order.

        Args:
            where: A predicate, see :meth:`ParquetDataset.where`.
            rows: Rows of files, by the paths of these: ``{"web/a.parquet": [17]}``.
            snapshot: Of a table, a dataset of a later snapshot: documents that it does
                not have any more.
            key: With ``snapshot``, a column whose values tell rows apart: it finds rows
                again that were rewritten, as by a compaction.

        Returns:
            A dataset of the same rows.

        Raises:
            InvalidArgumentError: If not one of them is given, or it cannot be right.
            UnsupportedError: If rows of the snapshot were rewritten, and there is no
                key.
            MissingDependencyError: If pyarrow, which evaluates predicates, is missing.

        Example:
            >>> without = web.erase(rows={web.files[0]: [17]})  # doctest: +SKIP
            >>> without[17]["input_ids"] is None  # doctest: +SKIP
            True
        """
        found = _erased_rows(self.index, where, rows, snapshot, key)
        return replace(self, erasures=(*self.erasures, found))


def _erased_rows(
    index: PageIndex,
    where: Any | None,
    rows: Mapping[str, Iterable[int]] | None,
    snapshot: Any | None,
    key: str | None,
) -> Selection:
    """Return the rows of an index that ``Dataset.erase`` means.

    Raises:
        InvalidArgumentError: If not exactly one of them is given, or it is of other
            files or rows.
        UnsupportedError: If files have no documents.
    """
    if sum(each is not None for each in (where, rows, snapshot)) != 1:
        raise InvalidArgumentError(
            "erase takes one of where=, rows= and snapshot=; call it again for more"
        )
    if key is not None and snapshot is None:
        raise InvalidArgumentError(
            f"key={key!r} tells the rows of a later snapshot: give snapshot= too"
        )
    refuse_unknown_rows(Spans(index), "erase()")
    if where is not None:
        if not isinstance(index.recipe, IndexRecipe):
            raise InvalidArgumentError(
                f"where= asks columns, and {index.files[0]} has tokens alone: name "
                "documents by rows="
            )
        return rows_where(Spans(index), where)
    found = (
        _checked(index, rows) if rows is not None else lost_rows(index, snapshot, key)
    )
    return rows_of(Spans(index), found)


def _checked(
    index: PageIndex, rows: Mapping[str, Iterable[int]]
) -> dict[str, Int64Array]:
    """Rows by file, rising, each once."""
    if not isinstance(rows, Mapping):
        raise InvalidArgumentError(
            f"rows={rows!r:.60} must be rows of files: {{'web/a.parquet': [17, 204]}}"
        )
    found = {}
    for file, given in rows.items():
        number = index.find_file(file)
        if number is None:
            raise InvalidArgumentError(
                f"rows: {file!r} is no file of the dataset, which has "
                f"{len(index.files)}, such as {index.files[0]!r}"
            )
        count = int(np.diff(index.file_first_row)[number])
        numbers = [check_whole(row, "row") for row in given]
        for row in numbers:
            if not 0 <= row < count:
                raise InvalidArgumentError(
                    f"rows: row {row} is out of range: {file} has {count} rows"
                )
        found[index.files[number]] = distinct(np.array(numbers, dtype=np.int64))
    return found
