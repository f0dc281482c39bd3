"""Rows that an Iceberg table deletes by their values."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, in_order, lazy, logger
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError
from pagefeed.selection import NO_PART, Criterion, Labels, RowGroups
from pagefeed.tables.file_columns import FileColumns
from pagefeed.tables.keys import EVERYWHERE, DeletedKeys
from pagefeed.tables.manifests import LiveFile, Scope
from pagefeed.tables.snapshot import path_of


class _Rows(NamedTuple):
    """Rows of some row groups of one file, and the values of their keys."""

    rows: Int64Array
    columns: list[Any]
    scope: int
    sequence: int


@dataclass(eq=False)
class EqualityDeletes(Criterion):
    """Selects the rows that no newer file of equality deletes names.

    Files of deletes are read when rows are first examined. The key columns of a file of
    data are read only if a file of deletes is newer and applies to its partition.
    """

    storage: Storage
    data: Mapping[str, LiveFile]
    """Files of data by their paths."""
    deletes: Sequence[LiveFile]
    """Files of deleted keys."""
    columns: FileColumns
    """Finds columns by their ids."""

    by_file = False
    what = "rows deleted by their values"
    parts = ("not deleted by value",)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(digest_size=16)
        for file in (*self.deletes, *self.data.values()):
            digest.update(
                f"{file.path} {file.sequence} {file.partition.scope} ".encode()
            )
            digest.update(f"{file.keys} {file.size} ".encode())
        self.key = f"equality deletes {digest.hexdigest()}"
        """Differs between any two choices of rows."""
        self._scopes: dict[Scope | None, int] = {None: EVERYWHERE}
        self._by_ids: dict[tuple[int, ...], list[LiveFile]] = defaultdict(list)
        self._newest: dict[tuple[tuple[int, ...], int], int] = {}
        for file in self.deletes:
            scope = self._scopes.setdefault(file.partition.scope, len(self._scopes))
            self._by_ids[file.keys].append(file)
            means = file.keys, scope
            self._newest[means] = max(file.sequence, self._newest.get(means, 0))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the keys."""
        return {name: each for name, each in vars(self).items() if name != "_keys"}

    def begin(self) -> None:
        """Read the deleted keys."""
        count = sum(file.num_rows for file in self.deletes)
        logger.info("%d keys of %d files of deletes are read", count, len(self.deletes))
        _ = self._keys

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the labels of the rows of some row groups."""
        labels = np.zeros(row_groups.num_rows, dtype=np.uint16)
        for ids, keys in self._keys.items():
            if rows := self._rows_of(row_groups, ids):
                labels[_deleted(rows, keys)] = NO_PART
        return Labels(labels)

    @lazy
    def _keys(self) -> dict[tuple[int, ...], DeletedKeys]:
        return {ids: self._keys_of(ids, files) for ids, files in self._by_ids.items()}

    def _keys_of(self, ids: tuple[int, ...], files: Sequence[LiveFile]) -> DeletedKeys:
        read = in_order(partial(self._read_deletes, ids), files)
        columns, counts = [], []
        for file, keys in zip(files, read, strict=True):
            count = len(keys[0])
            if count < file.num_rows:  # With more keys, other readers use them all.
                raise CorruptFileError(
                    f"{file.path}, which deletes rows: the table says that it has "
                    f"{file.num_rows}, it has {count}"
                ).at(file=path_of(file.path))
            columns.append(keys)
            counts.append(count)
        scopes = [self._scopes[file.partition.scope] for file in files]
        return DeletedKeys(
            _joined(columns),
            np.repeat(np.array(scopes, dtype=np.int64), counts),
            np.repeat(np.array([file.sequence for file in files]), counts),
        )

    def _read_deletes(self, ids: tuple[int, ...], file: LiveFile) -> list[Any]:
        return self.columns.read(self.storage, path_of(file.path), ids)

    def _rows_of(self, row_groups: RowGroups, ids: tuple[int, ...]) -> list[_Rows]:
        """The rows of row groups which some file of deletes may mean."""
        rows_of_files, files = [], row_groups.index.files
        for index, groups, rows in row_groups.groups_by_file():
            file = self.data[files[index]]
            scope = self._scopes.get(file.partition.scope, -1)
            newest = [self._newest.get((ids, one), 0) for one in (scope, EVERYWHERE)]
            if max(newest) <= file.sequence:
                continue
            columns = self.columns.read(
                row_groups.index.storage,
                files[index],
                ids,
                groups,
                file.partition.constants,
            )
            if len(columns[0]) != len(rows):
                raise CorruptFileError(
                    f"{files[index]}: pyarrow finds {len(columns[0])} rows in the row "
                    f"groups {groups}, the index has {len(rows)}"
                ).at(file=files[index])
            rows_of_files.append(_Rows(rows, columns, scope, file.sequence))
        return rows_of_files


def _deleted(rows_of_files: Sequence[_Rows], keys: DeletedKeys) -> Int64Array:
    """Return those rows whose keys were deleted after they were written."""
    counts = [len(each.rows) for each in rows_of_files]
    scopes = np.array([each.scope for each in rows_of_files], dtype=np.int64)
    sequences = np.array([each.sequence for each in rows_of_files], dtype=np.int64)
    columns = _joined([each.columns for each in rows_of_files])
    times = keys.times_of(columns, np.repeat(scopes, counts))
    rows = np.concatenate([each.rows for each in rows_of_files])
    return rows[times > np.repeat(sequences, counts)]


def _joined(tables: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the columns of several tables, joined."""
    import pyarrow as pa

    columns = []
    for column in zip(*tables, strict=True):
        # If no schema has the column any more, files without it give no type.
        kind = next((each.type for each in column if each.type != pa.null()), pa.null())
        columns.append(pa.concat_arrays([each.cast(kind) for each in column]))
    return columns
