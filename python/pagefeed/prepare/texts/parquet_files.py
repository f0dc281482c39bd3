"""Parquet files, divided at their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DataError,
    UnsupportedError,
)
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    rejection,
    translated,
)
from pagefeed.prepare.texts.streams import opened
from pagefeed.prepare.texts.tables import check_columns_of, sliced
from pagefeed.storage import PARQUET, Storage

__all__ = ["ParquetFile"]

JOINED_BYTES = 1 << 20
"""Smaller pages are joined, since every batch has a cost."""


class ParquetFile:
    """Parquet files."""

    suffixes = PARQUET

    def pieces(self, storage: Storage, file: str, most: int) -> Iterator[Piece]:
        """Divide a file into runs of row groups."""
        metadata = _opened(storage, file).metadata
        begin = weight = 0
        for number in range(metadata.num_row_groups):
            weight += metadata.row_group(number).total_byte_size
            if weight >= most or number == metadata.num_row_groups - 1:
                yield Piece(file, begin, number + 1, weight)
                begin, weight = number + 1, 0

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of the file."""
        schema = _opened(storage, file).schema_arrow
        return {field.name: field.type for field in schema}

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the rows of a piece; rows after damage in a row group are rejected."""
        opened_file = _opened(storage, piece.file)
        check_columns_of(opened_file.schema_arrow.names, wanted, piece.file)
        groups = [opened_file.metadata.row_group(n) for n in range(piece.end or 0)]
        rows = sum(group.num_rows for group in groups[: piece.begin])
        # pyarrow reads what the core refuses: it can tell which rows are not UTF-8.
        readers = (_pages_of(storage, piece.file, wanted), _Groups(opened_file, wanted))
        for number in range(piece.begin, piece.end or 0):
            end, done, error = rows + groups[number].num_rows, rows, ""
            for reader in readers:
                try:
                    with translated(piece.file):
                        for table in reader.read(number, rows, done, end):
                            yield from sliced(table, done, wanted)
                            done += len(table)
                except (CorruptFileError, UnsupportedError) as problem:
                    # Other errors may be temporary, and batches must not change.
                    error = str(problem)
            if done < end:
                place = f"rows {done} to {end - 1}"
                found = Rejected(piece.file, place, error, None, end - done)
                yield rejection(found, wanted)
            rows = end


class _Groups:
    """Reads row groups with pyarrow."""

    def __init__(self, file: Any, wanted: Wanted) -> None:
        self._file = file
        self._wanted = wanted

    def read(self, group: int, first: int, begin: int, end: int) -> Iterator[Any]:
        """Yield the rows from ``begin`` on of the group of rows ``[first, end)``."""
        if begin == end:
            return
        size, wanted = (
            self._file.metadata.row_group(group).total_byte_size,
            self._wanted,
        )
        mean = max(1, size // (end - first))
        for batch in self._file.iter_batches(
            batch_size=max(1, wanted.batch_bytes // mean),
            row_groups=[group],
            columns=wanted.columns,
            use_threads=False,
        ):
            skipped = min(len(batch), max(0, begin - first))
            table = arrow().Table.from_batches([batch[skipped:]])
            yield table.select(wanted.columns)
            first += len(batch)


class _Pages:
    """Reads pages of one column with the data plane."""

    def __init__(self, index: _core.Index | None, name: str) -> None:
        self._index = index
        self._name = name

    def read(self, group: int, first: int, begin: int, end: int) -> Iterator[Any]:
        """Yield the rows ``[begin, end)``, of a group that begins with ``first``."""
        del group, first
        index, pa = self._index, arrow()
        if index is None or begin == end:
            return
        pages = np.empty(2, np.int64)
        index.look_up("pages_of_rows", np.array([begin, end - 1]), pages)
        waiting: list[Any] = []
        for page in range(pages[0], pages[1] + 1):
            array = index.read_page(page, verify_checksums=True)
            waiting.append(pa.array(array))
            is_last = page == pages[1]
            if is_last or sum(one.nbytes for one in waiting) >= JOINED_BYTES:
                yield pa.table({self._name: pa.chunked_array(waiting)})
                waiting = []


def _pages_of(storage: Storage, file: str, wanted: Wanted) -> _Pages:
    """Return a reader of pages for a local file of which only texts are wanted.

    It yields nothing if the data plane does not read the column.
    """
    name, index = wanted.source, None
    is_plain = not (wanted.kept or wanted.is_chat or "." in name)
    if is_plain and storage.handle is None:
        with suppress(DataError, ColumnNotFoundError):
            index = _core.Index.build(
                [file], name, page_index=True, verify_checksums=True, num_threads=1
            )
    return _Pages(index, name)


def _opened(storage: Storage, file: str) -> Any:
    parquet = arrow("pyarrow.parquet")
    with translated(file):
        return parquet.ParquetFile(
            opened(storage, file),
            page_checksum_verification=True,
            # Buffering ahead would read whole column chunks into memory.
            pre_buffer=storage.handle is not None,
        )
