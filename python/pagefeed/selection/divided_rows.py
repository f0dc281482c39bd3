"""Rows divided: the part of each row, stored as runs of rows."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.caches import (
    ArrayFolder,
    ArrayWriter,
    are_rising,
    are_sums,
    derived_arrays,
    derived_key,
)
from pagefeed.core._base import Int64Array, Work, lazy, logger
from pagefeed.core.dataset import Spans
from pagefeed.errors import StaleFileError
from pagefeed.selection.criteria import NO_PART, Criterion
from pagefeed.selection.row_groups import RowGroups, row_groups_of

VERSION = 5


class _Runs(NamedTuple):
    """Runs of consecutive rows of one part, each inside one page."""

    part_index: int
    row: Int64Array
    num_rows: Int64Array
    new_page: npt.NDArray[np.bool_]
    """Whether a run begins in a different page than the run before."""
    num_values: Int64Array | None


@dataclass(eq=False)
class DividedRows:
    """The rows of spans divided into parts, in one pass over the criterion.

    The cache folder of the index keeps the result, and all processes of the machine
    map it. Without a folder, every process makes its own.

    Args:
        spans: The rows.
        criterion: Divides the rows.
        expected: Digests of the rows of each part, if they are known.
    """

    spans: Spans
    criterion: Criterion
    expected: list[str] | None = None

    def __reduce__(self) -> tuple[type[DividedRows], tuple[Any, ...]]:
        """Pickle as the recipe; another process maps or makes the parts itself."""
        stored = self.__dict__.get("stored")
        expected = self.expected if stored is None else stored.about["digests"]
        return DividedRows, (self.spans, self.criterion, expected)

    @lazy
    def key(self) -> str:
        """Differs between any two divisions: by rows, criterion and folder columns."""
        index = self.spans.index
        parts: list[str | bytes] = [str(VERSION), index.fingerprint]
        parts += [self.spans.origin, self.criterion.key]
        for name, column in index.folder_columns.items():
            parts += [name, str(column.values), column.number_of_file.tobytes()]
        if index.recipe.table is not None:
            parts.append(index.recipe.table.key)
        return derived_key(index, *parts)

    @lazy
    def stored(self) -> ArrayFolder:
        """Arrays of the parts; made on first use."""
        stored = derived_arrays(
            self.spans.index, "select", self.key, self._write, self._is_sound
        )
        if self.expected not in (None, stored.about["digests"]):
            raise StaleFileError(
                f"the files changed while {self.criterion.parts} were sent to another "
                "process, where they select other rows: make the dataset again"
            )
        return stored

    def _is_sound(self, stored: ArrayFolder) -> bool:
        digests, num_parts = stored.about["digests"], len(self.criterion.parts)
        return (
            type(stored.about["has_values"]) is bool
            and len(digests) == num_parts
            and all(len(bytes.fromhex(digest)) == 16 for digest in digests)
            and all(self._is_part_sound(stored, part) for part in range(num_parts))
        )

    def _is_part_sound(self, stored: ArrayFolder, part_index: int) -> bool:
        """Whether the runs of a part rise, and those of a page lie in it."""
        index, part = self.spans.index, f"{part_index}."
        row, rows_before = stored[f"{part}row"], stored[f"{part}rows_before"]
        page_span, values = stored[f"{part}page_span"], stored[f"{part}values_before"]
        has_values, num_runs = stored.about["has_values"], len(row)
        sizes = len(rows_before), len(values) if has_values else num_runs + 1
        if (
            sizes != (num_runs + 1, num_runs + 1)
            or not are_sums(rows_before, index.num_rows)
            or not are_rising(row, index.num_rows - 1)
            or not are_sums(page_span, num_runs)
            or page_span[-1] != num_runs
            or not (page_span[:-1] < page_span[1:]).all()
            or (has_values and not are_sums(values, index.num_values))
        ):
            return False
        end = row + np.diff(rows_before)
        first_and_last = row[page_span[:-1]], end[page_span[1:] - 1] - 1
        page, page_of_last = index.pages_of_rows(np.stack(first_and_last))
        return bool(
            (row < end).all()
            and (end[:-1] <= row[1:]).all()
            and (page == page_of_last).all()
            and (page[:-1] < page[1:]).all()
        )

    def _write(self, writer: ArrayWriter) -> None:
        """Divide some row groups after the other, and store the parts."""
        num_parts = len(self.criterion.parts)
        digests = [hashlib.blake2b(digest_size=16) for _ in range(num_parts)]
        has_values = True
        for part_index in range(num_parts):
            for name in ("row", "page_span"):
                writer.append(f"{part_index}.{name}", [])
            for name in ("rows_before", "values_before"):
                writer.append_sums(f"{part_index}.{name}", [])
        num_spans = [0] * num_parts
        for runs in self._all_runs():
            for part_index, row, num_rows, new_page, num_values in runs:
                digests[part_index].update(np.stack([row, num_rows], axis=1).tobytes())
                writer.append(f"{part_index}.row", row)
                writer.append_sums(f"{part_index}.rows_before", num_rows)
                first = np.flatnonzero(new_page) + num_spans[part_index]
                writer.append(f"{part_index}.page_span", first)
                num_spans[part_index] += len(row)
                has_values = has_values and num_values is not None
                if num_values is not None:
                    writer.append_sums(f"{part_index}.values_before", num_values)
        for part_index, count in enumerate(num_spans):
            writer.append(f"{part_index}.page_span", [count])
        writer.about |= {
            "digests": [digest.hexdigest() for digest in digests],
            "has_values": has_values,
        }

    def _all_runs(self) -> Iterator[list[_Runs]]:
        """Yield the runs of the row groups in order, with one thread per CPU."""
        what, total = self.criterion.what, self.spans.num_rows
        logger.info("%s: %d rows are looked at, once", what, total)
        self.criterion.begin()
        every = row_groups_of(self.spans, by_file=self.criterion.by_file)
        work = Work(what, total=total, unit="rows")
        return work.map(self._runs_of, every, lambda row_groups: row_groups.num_wanted)

    def _runs_of(self, row_groups: RowGroups) -> list[_Runs]:
        """Return the runs of rows of each part; a run ends with its page."""
        index = row_groups.index
        part_of_row, num_values = self.criterion.labels(row_groups)
        part_of_row[~row_groups.wanted()] = NO_PART
        pages = index.pages_of_rows(
            [row_groups.begin, row_groups.begin + row_groups.num_rows - 1]
        )
        borders = (
            index.first_rows(np.arange(pages[0] + 1, pages[1] + 1)) - row_groups.begin
        )
        begins = np.ones(row_groups.num_rows, dtype=bool)
        np.not_equal(part_of_row[1:], part_of_row[:-1], out=begins[1:])
        begins[borders] = True
        first = np.flatnonzero(begins)
        length = np.diff(np.append(first, row_groups.num_rows))
        # Sort runs by part, and by row within a part.
        order = np.argsort(part_of_row[first], kind="stable")
        order = order[part_of_row[first[order]] != NO_PART]
        first, length = first[order], length[order]
        part_of_run, page = (
            part_of_row[first],
            np.searchsorted(borders, first, side="right"),
        )
        before = None
        if num_values is not None:
            before = np.append(0, np.cumsum(num_values))
        runs_of_parts = []
        cuts = np.append(
            np.flatnonzero(np.diff(part_of_run, prepend=NO_PART)), len(part_of_run)
        )
        for begin, end in itertools.pairwise(cuts.tolist()):
            row, num_rows = first[begin:end], length[begin:end]
            new_page = np.diff(page[begin:end], prepend=-1) != 0
            values = None if before is None else before[row + num_rows] - before[row]
            first_row = row + row_groups.begin
            runs = _Runs(int(part_of_run[begin]), first_row, num_rows, new_page, values)
            runs_of_parts.append(runs)
        return runs_of_parts
