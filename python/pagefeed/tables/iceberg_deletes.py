"""Deleted rows of an Iceberg snapshot: lists of positions, and deletion vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import chain

import numpy as np

from pagefeed.core._base import Int64Array, in_order
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError, LimitExceededError
from pagefeed.selection import check_expansion, rows_at_once
from pagefeed.tables.deletion_vector import ranges_of_file, rows_of_vector
from pagefeed.tables.manifests import LiveFile, LiveFiles
from pagefeed.tables.snapshot import path_of, readers_of

MAGIC = b"PFA1"
"""First bytes of a Puffin file."""


def deleted_rows(storage: Storage, live: LiveFiles) -> dict[str, Int64Array]:
    """Return the deleted rows, by the path of their file as the table has it.

    Raises:
        CorruptFileError: If what deletes rows cannot be read, or a file has two
            deletion vectors.
    """
    data = {file.path: file for file in live.data}
    listed: defaultdict[str, list[Int64Array]] = defaultdict(list)
    lists = in_order(
        partial(_rows_of_list, storage), live.positions, num_threads=readers_of(storage)
    )
    for deletes, rows_of in zip(live.positions, lists, strict=True):
        for path, rows in rows_of.items():
            if _applies(deletes, data.get(path)):
                listed[path].append(rows)
    deleted: dict[str, Int64Array] = {}
    in_file: defaultdict[str, list[LiveFile]] = defaultdict(list)
    for deletes in live.vectors:
        in_file[path_of(deletes.path)].append(deletes)
    vectors = in_order(
        partial(_rows_of_puffin, storage),
        in_file.items(),
        num_threads=readers_of(storage),
    )
    for deletes, path, rows in chain.from_iterable(vectors):
        if not _applies(deletes, data.get(path)):
            continue
        if path in deleted:
            raise _damaged(deletes, f"{path} has another deletion vector: one may be")
        deleted[path] = rows
        # A vector includes the rows of earlier lists.
        listed.pop(path, None)
    deleted |= {
        path: np.unique(np.concatenate(lists_of_rows))
        for path, lists_of_rows in listed.items()
    }
    return deleted


def _applies(deletes: LiveFile, data: LiveFile | None) -> bool:
    """Whether a file of deletes means a file of data that it names."""
    if data is None:
        return False
    # Files that were added later have none of these rows.
    is_older = data.sequence <= deletes.sequence
    return is_older and data.partition.scope == deletes.partition.scope


def _rows_of_list(storage: Storage, deletes: LiveFile) -> dict[str, Int64Array]:
    """Return the rows in a file of position deletes, by the path of their file."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    path = path_of(deletes.path)
    stored = storage.read(path, 0, deletes.size)
    try:
        file = parquet.ParquetFile(
            pa.BufferReader(stored), read_dictionary=["file_path"]
        )
        groups = range(file.num_row_groups)
        check_expansion(storage, path, ["pos"], groups)
        at_once = rows_at_once(storage, path, ["file_path"], groups, 1 << 20)
        # Files are read on threads already: those of pyarrow take ten times as long.
        names_of = ["file_path", "pos"]
        batches = [*file.iter_batches(at_once, columns=names_of, use_threads=False)]
        deletions = pa.Table.from_batches(batches) if batches else file.read(names_of)
        count = len(deletions)
        # A row that names no file deletes nothing.
        deletions = deletions.filter(compute.is_valid(deletions["file_path"]))
        paths = compute.dictionary_encode(deletions["file_path"]).combine_chunks()
        rows = np.asarray(deletions["pos"].combine_chunks(), dtype=np.int64)
        file = np.asarray(paths.indices, dtype=np.int64)
        names = paths.dictionary.to_pylist()
    except LimitExceededError:
        raise
    except (pa.ArrowException, KeyError, TypeError, ValueError) as problem:
        raise _damaged(deletes, str(problem)) from None
    if count < deletes.num_rows:
        raise _damaged(
            deletes,
            f"the table says that it deletes {deletes.num_rows} rows, it lists {count}",
        )
    if not names:
        return {}
    order = np.argsort(file, kind="stable")
    ends = np.cumsum(np.bincount(file, minlength=len(names)))
    return dict(zip(names, np.split(rows[order], ends[:-1]), strict=True))


def _rows_of_puffin(
    storage: Storage, of_file: tuple[str, Sequence[LiveFile]]
) -> list[tuple[LiveFile, str, Int64Array]]:
    """Return the deletion vectors of a file: each with its data file and its rows."""
    path, vectors = of_file
    owners, ranges = [], []
    for deletes in vectors:
        data_file, begin = deletes.vector_of, deletes.vector_begin
        size = deletes.vector_size
        if data_file is None or begin is None or size is None:
            raise _damaged(deletes, "the table does not say whose rows it deletes")
        if min(begin, size) < 0:
            raise _damaged(deletes, f"it has no {size} bytes from {begin} on")
        owners.append(data_file)
        ranges.append((begin, begin + size))
    try:
        stored = ranges_of_file(storage, path, MAGIC, ranges)
    except CorruptFileError as error:
        raise _damaged(
            vectors[0], f"it is not a Puffin file: {error.args[0]}"
        ) from None
    deleted = []
    for deletes, data_file, (begin, _), own in zip(
        *(vectors, owners, ranges, stored), strict=True
    ):
        try:
            rows = rows_of_vector(own, deletes.num_rows)
        except CorruptFileError as error:
            error.args = (f"{path}, at {begin}, deletes rows of {data_file}: {error}",)
            error.file = path
            raise
        deleted.append((deletes, data_file, rows))
    return deleted


def _damaged(deletes: LiveFile, what: str) -> CorruptFileError:
    error = CorruptFileError(f"{deletes.path}, which deletes rows: {what}")
    return error.at(file=path_of(deletes.path))
