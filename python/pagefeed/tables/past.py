"""The way from an earlier snapshot of a table to the present one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pagefeed.core._base import lazy
from pagefeed.errors import FileAccessError
from pagefeed.parquet_files import ParquetDataset
from pagefeed.remote import StorageOptions
from pagefeed.tables.delta_checkpoint import added_up_to, log_of
from pagefeed.tables.row_keys import KeyedRows, RowIds

__all__ = ["DeltaPast", "IcebergPast"]

ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"


@dataclass(frozen=True, eq=False)
class DeltaPast(KeyedRows):
    """The versions of a Delta table up to one."""

    root: str
    """Folder or URL of the table."""
    version: int
    configuration: Mapping[str, str]
    """Properties of the table."""
    key: str | None
    """Column that identifies rows, if the user named one."""
    path_of: Callable[[str, str], str]
    """Returns the path of a file, by the root and the path in the log."""
    reopen: Callable[..., ParquetDataset]
    """Opens a version of a table."""
    arguments: Mapping[str, Any]
    """Arguments for opening a version."""
    options: StorageOptions | None
    """Settings of remote storage."""

    def at(self, snapshot: str) -> ParquetDataset:
        """Return a dataset of another version, such as ``"delta:3"``."""
        version = int(snapshot.partition(":")[2])
        options = {"storage_options": self.options, **self.arguments}
        return self.reopen(self.root, version, **options)

    def keeps_rows(self, since: str, files: set[str]) -> bool:
        """Return whether rewrites since a version kept all rows of its files.

        Commits say whether they change data.

        Args:
            since: The earlier version.
            files: Files of that version.
        """
        held = {*files}
        for version in range(int(since.partition(":")[2]) + 1, self.version + 1):
            try:
                actions = [*self._actions(version)]
            except FileAccessError:  # A cleanup removed it.
                return False
            removed = [each["remove"] for each in actions if "remove" in each]
            gone = [each for each in removed if self._path(each) in held]
            if any(each.get("dataChange", True) for each in gone):
                return False
            if gone:
                added = [each["add"] for each in actions if "add" in each]
                held |= {self._path(each) for each in added}
        return True

    @lazy
    def row_ids(self) -> RowIds | None:
        """Ids of the rows of this version; None if the log does not have them all."""
        first_ids: dict[str, int] = {}
        try:
            added = added_up_to(*log_of(self.root, self.options), self.version)
        except FileAccessError:  # Neither commits nor a checkpoint tell.
            return None
        for add in added:
            if add.get("baseRowId") is not None:
                first_ids[self._path(add)] = add["baseRowId"]
        column = self.configuration.get(ROW_ID_COLUMN)
        return RowIds(first_ids, column)

    def _path(self, action: Mapping[str, Any]) -> str:
        return self.path_of(self.root, action["path"])

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        storage, log = log_of(self.root, self.options)
        stored = storage.read_all(f"{log}/{version:020}.json")
        return map(json.loads, filter(None, stored.decode().splitlines()))


@dataclass(frozen=True, eq=False)
class IcebergPast(KeyedRows):
    """The snapshots of an Iceberg table up to one."""

    table: Any
    """A ``Table`` of pyiceberg, or the path of its metadata."""
    snapshot: int
    operations: Mapping[int, tuple[int | None, str]]
    """The parent of each snapshot, and the operation that made it."""
    key: str | None
    """Column that identifies rows, if the user named one."""
    ids: RowIds
    """Ids of the rows of this one."""
    reopen: Callable[..., ParquetDataset]
    """Opens a snapshot of a table."""
    arguments: Mapping[str, Any]
    """Arguments for opening a snapshot."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the path of the metadata instead of the table."""
        location = getattr(self.table, "metadata_location", self.table)
        return {**vars(self), "table": location}

    @property
    def row_ids(self) -> RowIds:
        """Ids of the rows of this snapshot."""
        return self.ids

    def at(self, snapshot: str) -> ParquetDataset:
        """Return a dataset of another snapshot, such as ``"iceberg:3051729675"``."""
        snapshot_id = int(snapshot.partition(":")[2])
        return self.reopen(self.table, snapshot_id, **self.arguments)

    def keeps_rows(self, since: str, files: set[str]) -> bool:  # noqa: ARG002
        """Return whether rewrites since a snapshot kept all rows of its files.

        Later snapshots say so: ``replace`` rewrites files, and ``append`` adds some.

        Args:
            since: The earlier snapshot.
            files: Files of that snapshot.
        """
        first, now = int(since.partition(":")[2]), self.snapshot
        while now != first:
            parent, operation = self.operations.get(now, (None, ""))
            if parent is None or operation not in ("append", "replace"):
                return False
            now = parent
        return True
