"""The erased rows of a dataset, and where their tokens are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.caches import (
    ArrayFolder,
    ArrayWriter,
    are_rising,
    derived_arrays,
    derived_key,
)
from pagefeed.core._base import Int64Array, Work, lazy, logger
from pagefeed.core.dataset import Dataset, Spans
from pagefeed.core.run import StatePart, reading_state
from pagefeed.errors import InvalidArgumentError, StateMismatchError

PAGES_AT_ONCE = 16
VERSION = 1
"""Version of the stored positions of erased rows."""
DIGITS = 12
"""Digits that a record has of erased rows."""


class ErasedRows:
    """The rows of spans that were erased, as runs of consecutive rows.

    Args:
        spans: All rows, with consecutive numbers.
        erasures: Erased rows of each call in order, as spans of rows of the same files.
    """

    def __init__(self, spans: Spans, erasures: Sequence[Spans]) -> None:
        self._spans = spans
        self._erasures = tuple(erasures)

    @lazy
    def runs(self) -> Int64Array:
        """First row and end of each run (exclusive), rising: int64 [runs, 2]."""
        return self._runs_of(len(self._erasures))

    @property
    def num_rows(self) -> int:
        """Rows that were erased."""
        return int(np.diff(self.runs).sum())

    @lazy
    def records(self) -> tuple[str, ...]:
        """Records that identify the erased rows: before the first call, and after each.

        A record has the number of rows and their digest; it is "" for no row.
        """
        counts = range(len(self._erasures) + 1)
        return tuple(_record(self._runs_of(count)) for count in counts)

    def _runs_of(self, count: int) -> Int64Array:
        """The runs of the first few calls together."""
        chosen = self._erasures[:count]
        ranks = [self._spans.ranks(selection.row_runs) for selection in chosen]
        return _united(np.concatenate([np.empty((0, 2), dtype=np.int64), *ranks]))

    def holds(self, rows: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which rows were erased: bool, of the shape of ``rows``."""
        borders = np.searchsorted(self.runs.reshape(-1), rows, side="right")
        return borders % 2 == 1

    def tokens(self, per_row: int) -> tuple[Int64Array, Int64Array]:
        """Return where runs begin and end among all tokens: int64 [runs] each.

        Reads the pages of erased rows; with a cache folder once for all processes.

        Args:
            per_row: Separators of a row, which count as tokens.
        """
        begins, ends = (self._values + per_row * self.runs).T
        return begins, ends

    @lazy
    def _values(self) -> Int64Array:
        """Values before the rows of :attr:`runs`: int64 [runs, 2]."""
        if not len(self.runs):
            return self.runs
        index = self._spans.index
        rows = self.runs.tobytes()
        key = derived_key(index, str(VERSION), self._spans.fingerprint, rows)
        write, is_sound = self._write_values, self._is_sound
        stored = derived_arrays(index, "erased", key, write, is_sound)
        return stored["values"].reshape(-1, 2)

    def _is_sound(self, stored: ArrayFolder) -> bool:
        are_many = stored.sizes == {"values": self.runs.size}
        return are_many and are_rising(stored["values"], self._spans.num_values)

    def _write_values(self, writer: ArrayWriter) -> None:
        spans, rows = self._spans, self.runs.reshape(-1)
        logger.info(
            "positions of %d erased rows are found, once, in %d tokens",
            *(self.num_rows, spans.num_values),  # Counted here, for all threads.
        )
        pages = spans.index.pages_before(spans.rows_of_index(rows))
        cuts = np.flatnonzero(np.diff(pages // PAGES_AT_ONCE)) + 1
        work = Work("places of erased rows", total=len(rows), unit="borders")
        for values in work.map(spans.values_of_rows, np.split(rows, cuts), len):
            writer.append("values", values)


def _united(runs: Int64Array) -> Int64Array:
    """Join runs that overlap or touch, leave empty ones out, and sort them.

    Example:
        >>> _united(np.array([[5, 7], [0, 2], [3, 3], [6, 9], [9, 10]])).tolist()
        [[0, 2], [5, 10]]
    """
    runs = runs[runs[:, 0] < runs[:, 1]]
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    ends = np.maximum.accumulate(runs[:, 1])
    first = np.flatnonzero(np.append(True, runs[1:, 0] > ends[:-1])[: len(runs)])
    last = np.append(first[1:], len(runs))[: len(first)] - 1
    return np.stack([runs[first, 0], ends[last]], axis=1)


def _record(runs: Int64Array) -> str:
    if not len(runs):
        return ""
    digest = hashlib.blake2b(runs.astype("<i8").tobytes(), digest_size=DIGITS // 2)
    return f"{int(np.diff(runs).sum())} {digest.hexdigest()}"


Records: TypeAlias = tuple[tuple[str, str], ...]
"""Records of :class:`ErasedRows` by the name of the dataset, or ""."""


def records_after(
    then: Records, names: Sequence[str | None], datasets: Sequence[Dataset]
) -> Records | None:
    """Return the records of the rows erased now; None if there are none.

    Raises:
        StateMismatchError: If documents erased before would be delivered again.
    """
    erased = {
        name or "": dataset.spans.erased
        for name, dataset in zip(names, datasets, strict=True)
    }
    now = {name: rows.records[-1] for name, rows in erased.items() if rows is not None}
    for name, record in then:
        if name not in erased:  # A mixture may have the dataset again.
            now[name] = record
            continue
        rows = erased[name]
        if rows is None or record not in rows.records:
            of = f" of {name!r}" if name else ""
            raise StateMismatchError(
                f"{record.split()[0]:.20} documents{of:.80} were erased when the "
                "state was saved, and this loader would deliver them: erase the same "
                "ones, by the same calls of dataset.erase() in their order, and others "
                "after"
            )
    records = sorted((name, record) for name, record in now.items() if record)
    return tuple(records) or None


def _read_records(given: Any) -> Records | None:
    are_texts = isinstance(given, Mapping) and all(
        isinstance(text, str) and text for text in given.values()
    )
    with reading_state({}, {}):
        if not are_texts or not all(isinstance(name, str) for name in given):
            raise InvalidArgumentError(f"erased={given!r:.60} must be records by name")
    return tuple(sorted(given.items())) or None


ERASED = StatePart(to_json=dict, from_json=_read_records)
