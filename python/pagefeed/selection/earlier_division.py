"""Divisions that were made, over some of the files."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagefeed.core._base import joined_ranges
from pagefeed.errors import MissingFileError
from pagefeed.selection.criteria import NO_PART, Criterion, Labels
from pagefeed.selection.divided_rows import DividedRows
from pagefeed.selection.row_groups import RowGroups

__all__ = ["EarlierDivision"]


class EarlierDivision(Criterion):
    """Divides rows as an earlier division of more files did.

    It reads nothing. Another process, which does not have the division, makes it again.

    Args:
        division: The division of more files.
    """

    by_file = False

    def __init__(self, division: DividedRows) -> None:
        self._division = division
        criterion = division.criterion
        self.plain: Criterion = (
            criterion.plain if isinstance(criterion, EarlierDivision) else criterion
        )
        """The criterion that divides rows by their values."""
        self.parts, self.what = self.plain.parts, self.plain.what
        self.key = self.plain.key

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what divides the rows by what they hold."""
        return _same, (self.plain,)

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        stored, of_all = self._division.stored, self._division.spans.index
        part_of_row = np.full(row_groups.num_rows, NO_PART, dtype=np.uint16)
        before, paths = row_groups.index.file_first_row, row_groups.index.recipe.files
        for file in row_groups.files:
            file_of_all = of_all.find_file(paths[file])
            if file_of_all is None:
                raise MissingFileError(f"{paths[file]} is not in {self.what}")
            first, end = np.clip(
                before[file : file + 2], *row_groups.first_rows[[0, -1]]
            )
            moved = int(of_all.file_first_row[file_of_all] - before[file])
            for n in range(len(self.parts)):
                row = stored[f"{n}.row"]
                here = slice(*np.searchsorted(row, [first + moved, end + moved]))
                begins = row[here] - (moved + row_groups.begin)
                ends = np.diff(stored[f"{n}.rows_before"][here.start : here.stop + 1])
                part_of_row[joined_ranges(begins, begins + ends)] = n
        return Labels(part_of_row)


def _same(criterion: Criterion) -> Criterion:
    return criterion
