"""Checkpoints of a Delta table's log: what a version adds, where commits are gone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from pagefeed.core._base import in_order
from pagefeed.core.storage import Storage, is_url, located_exactly
from pagefeed.errors import CorruptFileError, LimitExceededError
from pagefeed.parsing import json_value, parsing
from pagefeed.remote import StorageOptions
from pagefeed.selection import check_expansion
from pagefeed.tables.snapshot import readers_of

CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.\d{10}\.(?P<parts>\d{10})|\.[0-9a-f-]{36})?"
    r"\.(?:parquet|json)"
)
"""Names of checkpoint files: one file, several parts, or one with sidecars."""
COLUMNS = ["add.path", "add.deletionVector", "sidecar.path"]


def log_of(root: str, options: StorageOptions | None) -> tuple[Storage, str]:
    """Return where the log of a table lies, and its folder."""
    log = f"{root.rstrip('/')}/_delta_log"
    options = options if is_url(root) else None
    return located_exactly((f"{log}/{0:020}.json",), options).storage, log


def added_up_to(storage: Storage, log: str, version: int) -> list[dict[str, Any]]:
    """Return the files that a log adds up to a version, from a checkpoint on.

    For each file its path and its deletion vector, as the log has them, in the order of
    commits. Files that later commits removed are among them.

    Args:
        storage: Storage of the log.
        log: Its folder.
        version: The version.

    Raises:
        FileAccessError: If a commit or the checkpoint cannot be read.
        CorruptFileError: If a commit is malformed.
    """

    def of_commit(commit: int) -> list[dict[str, Any]]:
        path = f"{log}/{commit:020}.json"
        lines = storage.read_all(path).splitlines()
        with parsing(path, "no commit of Delta"):
            actions = [json_value(line, path) for line in lines if b'"add"' in line]
            return [action["add"] for action in actions if action.get("add")]

    checkpoint, added = _added_by_checkpoint(storage, log, version)
    commits = range(checkpoint + 1, version + 1)
    read = in_order(of_commit, commits, num_threads=readers_of(storage))
    return [*added, *chain.from_iterable(read)]


def _added_by_checkpoint(
    storage: Storage, log: str, version: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the newest checkpoint up to a version, and the files that it adds.

    The version is -1 without one.
    """
    parts: defaultdict[int, dict[str, tuple[str, int]]] = defaultdict(dict)
    for path in storage.list_files(log, (".parquet", ".json")):
        match = CHECKPOINT.fullmatch(path.rpartition("/")[2])
        if match and int(match[1]) <= version:
            count = int(match["parts"] or 1)
            parts[int(match[1])][path] = path, count
    for checkpoint in sorted(parts, reverse=True):
        of_count: defaultdict[int, list[str]] = defaultdict(list)
        for path, count in parts[checkpoint].values():
            of_count[count].append(path)
        for count, paths in of_count.items():
            if count == 1 or len(paths) == count:
                chosen = paths[:1] if count == 1 else paths
                rows = [row for path in chosen for row in _rows(storage, path)]
                return checkpoint, [*_added(storage, log, rows)]
    return -1, []


def _rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    from pyarrow import ArrowException, parquet

    try:
        if path.endswith(".json"):
            lines = storage.read_all(path).splitlines()
            return [json_value(line, path) for line in lines if line]
        file = parquet.ParquetFile(storage.open_arrow(path))
        leaves = [file.schema.column(leaf).path for leaf in range(len(file.schema))]
        used = [leaf for leaf in leaves if leaf.startswith(tuple(COLUMNS))]
        check_expansion(storage, path, used, range(file.num_row_groups))
        rows: list[dict[str, Any]] = file.read(columns=COLUMNS).to_pylist()
    except LimitExceededError:
        raise
    except (ArrowException, ValueError) as problem:
        raise CorruptFileError(f"{path}: {problem}").at(file=path) from None
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
