"""Criteria, which divide the rows of a dataset into parts."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt64Array
from pagefeed.core.dataset import lengths_of_rows
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
)
from pagefeed.selection.query import Query, field_of
from pagefeed.selection.row_groups import RowGroups
from pagefeed.selection.scanning import open_groups, scan, schema_of
from pagefeed.selection.statistics import without_groups

NO_PART = 65_535
"""Part number of rows in no part; also the largest number of parts."""


class Labels(NamedTuple):
    """The part of each row of some row groups."""

    part_of_row: npt.NDArray[np.uint16]
    """Part of each row, or ``NO_PART``; undefined for rows outside of the spans."""
    num_values: Int64Array | None = None
    """Values of each row, if they were read; 0 for rows outside of the spans."""


class Criterion(ABC):
    """Divides rows into parts, by their values or positions."""

    parts: tuple[str, ...]
    """Names of the parts."""
    key: str
    """Differs between any two criteria."""
    what: str
    """Description of the criterion, for messages."""
    by_file = True
    """Whether it needs row groups of one file at a time."""
    counts_rows = False
    """Whether the numbers of rows in the dataset decide, and so do its other files."""

    def begin(self) -> None:  # noqa: B027 - most need nothing
        """Read what all row groups need, before the first are labelled."""

    @abstractmethod
    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""


class Scan(Criterion):
    """Divides rows by the values of other columns, and reads only these.

    Args:
        query: Returns the number of the part; or true for the only part.
        parts: Names of the parts.
    """

    def __init__(self, query: Query, parts: Sequence[str]) -> None:
        self.query = query
        self.parts = tuple(parts)
        self.key = f"scan {len(self.parts)} {query.key}"
        self.what = query.text

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        opened = open_groups(row_groups)
        try:
            expression = self.query.bind(opened.schema)
        except (ColumnNotFoundError, InvalidArgumentError) as error:
            error.args = (
                f"{error}, in {row_groups.path}{self._elsewhere(row_groups)}",
            )
            error.file = row_groups.path
            raise
        part_of_row = np.full(row_groups.num_rows, NO_PART, dtype=np.uint16)
        if self.query.prunes(opened.schema):
            may_match = without_groups(
                opened.fragment, opened.schema, self.query, expression
            )
            opened = opened._replace(fragment=may_match)
        for rows, values in scan(row_groups, opened, expression):
            if values.dtype == np.bool_:
                part_of_row[rows[values]] = 0
            else:
                part_of_row[rows] = values
        return Labels(part_of_row)

    def _elsewhere(self, row_groups: RowGroups) -> str:
        """Return the types of the columns in the first file, which the query fits."""
        schema = schema_of(row_groups.index, 0)
        kinds = [
            f"{name} is {field_of(schema, name)[1]}" for name in self.query.columns
        ]
        return f"; in {row_groups.index.files[0]} {', '.join(kinds)}" if kinds else ""


class ByLength(Criterion):
    """Divides by the number of tokens; reads the pages of the rows.

    Args:
        edges: Rising numbers of tokens.
        parts: Names of the parts: below the first edge, from it on, and so on.
    """

    what = "lengths of rows"

    def __init__(self, edges: Sequence[int], parts: Sequence[str]) -> None:
        self._edges = np.array(edges, dtype=np.int64)
        self.parts = tuple(parts)
        self.key = f"lengths {self._edges.tolist()}"

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        num_values = np.zeros(row_groups.num_rows, dtype=np.int64)
        num_values[row_groups.wanted()] = lengths_of_rows(
            row_groups.spans, *row_groups.span_range
        )
        part_of_row = np.searchsorted(self._edges, num_values, side="right")
        return Labels(part_of_row.astype(np.uint16), num_values)


class Listed(Criterion):
    """Selects listed rows, or all others; reads nothing.

    Args:
        rows: Numbers of rows in files, rising, by the path of the file.
        are_deleted: Whether to leave these rows out.
    """

    by_file = False

    def __init__(self, rows: Mapping[str, Int64Array], *, are_deleted: bool) -> None:
        self._rows = dict(rows)
        self._are_deleted = are_deleted
        self.parts = ("not deleted" if are_deleted else "listed",)
        self.what = "deleted rows" if are_deleted else "listed rows"
        digest = hashlib.blake2b(digest_size=16)
        for file, numbers in sorted(self._rows.items()):
            digest.update(f"{file} {len(numbers)} ".encode() + numbers.tobytes())
        self.key = f"{self.what} {digest.hexdigest()}"

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        others, those = (0, NO_PART) if self._are_deleted else (NO_PART, 0)
        part_of_row = np.full(row_groups.num_rows, others, dtype=np.uint16)
        files, before = row_groups.index.recipe.files, row_groups.index.file_first_row
        for file in row_groups.files:
            rows = self._rows.get(files[file])
            if rows is None or not len(rows):
                continue
            num_rows = int(before[file + 1] - before[file])
            if rows[0] < 0 or rows[-1] >= num_rows:
                raise CorruptFileError(
                    f"{files[file]}: the table says that its row {rows[-1]} is "
                    f"deleted, and it has {num_rows} rows: the file, or what deletes "
                    "its rows, belongs to another table"
                ).at(file=files[file])
            first = row_groups.begin - int(before[file])
            here = slice(*np.searchsorted(rows, [first, first + row_groups.num_rows]))
            part_of_row[rows[here] - first] = those
        return Labels(part_of_row)


class Hashing(Criterion):
    """Divides by a hash of the file's footer and the number of the row in the file.

    Args:
        seed: Another seed gives another division.
        weights: Share of each part; they sum to 1 at most.
    """

    what = "hashes of rows"

    def __init__(self, seed: int, weights: Mapping[str, float]) -> None:
        self._seed = seed
        self.parts = tuple(weights)
        self._ends = share_ends(weights)
        self.key = f"hashing {seed} {self._ends.tolist()}"

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        first = row_groups.begin - int(row_groups.index.file_first_row[row_groups.file])
        rows = np.arange(first, first + row_groups.num_rows, dtype=np.uint64)
        hashes = mix_hash(rows, self._key_of(row_groups)) >> np.uint64(64 - HASH_BITS)
        part_of_row = np.searchsorted(self._ends, hashes, side="right")
        part_of_row[part_of_row == len(self._ends)] = NO_PART
        return Labels(part_of_row.astype(np.uint16))

    def _key_of(self, row_groups: RowGroups) -> tuple[np.uint64, np.uint64]:
        """Return two numbers from the seed, and from size and footer of the file.

        The name of the file and its position in the dataset do not count: both may
        change.
        """
        size = row_groups.index.storage.size(row_groups.path)
        footer = row_groups.index.file_identity(row_groups.file)
        digest = hashlib.blake2b(footer, digest_size=16, person=b"pagefeed.split")
        digest.update(f"{size} {self._seed}".encode())
        first, second = np.frombuffer(digest.digest(), dtype="<u8").astype(np.uint64)
        return first, second


HASH_BITS = 53


def share_ends(shares: Mapping[str, float]) -> UInt64Array:
    """Return the hashes, of ``HASH_BITS`` bits, at which parts of these shares end."""
    ends = np.cumsum(list(shares.values()))
    if abs(ends[-1] - 1) < 1e-9:
        ends[-1] = 1  # Every row is in a part.
    return np.round(ends * 2.0**HASH_BITS).astype(np.uint64)


_ODD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix_hash(numbers: UInt64Array, key: tuple[np.uint64, np.uint64]) -> UInt64Array:
    """Return 64-bit hashes of 64-bit numbers.

    Multiplications and shifts as in splitmix64 (Steele, Lea and Flood, "Fast
    splittable pseudorandom number generators", 2014), twice, with a key before each.
    """
    mixed = numbers
    for word in key:
        mixed = mixed + word
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _ODD[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _ODD[1]
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
