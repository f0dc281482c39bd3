"""Checkpoints of a Delta table's log: what a version adds, where commits are gone."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pagefeed.core.storage import Storage

__all__ = ["CHECKPOINT", "added_by_checkpoint"]

CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.\d{10}\.(?P<parts>\d{10})|\.[0-9a-f-]{36})?"
    r"\.(?:parquet|json)"
)
"""Names of checkpoint files: one file, several parts, or one with sidecars."""
COLUMNS = ["add.path", "add.baseRowId", "sidecar.path"]


def added_by_checkpoint(
    storage: Storage, log: str, version: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the newest checkpoint up to a version, and the files that it adds.

    Of each file its path and the id of its first row, as the log has them.

    Args:
        storage: Where the log lies.
        log: Its folder.
        version: The version.

    Returns:
        The version of the checkpoint, and its files; -1 and none without one.

    Raises:
        FileAccessError: If it cannot be read.
    """
    parts: defaultdict[int, dict[str, tuple[str, int]]] = defaultdict(dict)
    for path in storage.list_files(log, (".parquet", ".json")):
        match = CHECKPOINT.fullmatch(path.rpartition("/")[2])
        if match and int(match[1]) <= version:
            count = int(match["parts"] or 1)
            parts[int(match[1])][path] = path, count
    for number in sorted(parts, reverse=True):
        of_count: defaultdict[int, list[str]] = defaultdict(list)
        for path, count in parts[number].values():
            of_count[count].append(path)
        for count, paths in of_count.items():
            if count == 1 or len(paths) == count:
                chosen = paths[:1] if count == 1 else paths
                rows = [row for path in chosen for row in _rows(storage, path)]
                return number, [*_added(storage, log, rows)]
    return -1, []


def _rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    if path.endswith(".json"):
        lines = storage.read_all(path).decode().splitlines()
        return [json.loads(line) for line in lines if line]
    file = parquet.ParquetFile(storage.open_arrow(path))
    rows: list[dict[str, Any]] = file.read(columns=COLUMNS).to_pylist()
    return rows


def _added(
    storage: Storage, log: str, rows: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row.get("add") and row["add"].get("path"):
            yield row["add"]
        if row.get("sidecar") and row["sidecar"].get("path"):
            beside = f"{log}/_sidecars/{row['sidecar']['path'].rpartition('/')[2]}"
            yield from _added(storage, log, _rows(storage, beside))
