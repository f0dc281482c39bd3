"""Parquet files, divided at their row groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pagefeed import _core
from pagefeed.core.storage import PARQUET, Storage
from pagefeed.errors import CorruptFileError, DataError
from pagefeed.prepare.texts.records import (
    Batch,
    FileRange,
    Rejected,
    Wanted,
    arrow,
    rejection,
    translated,
)
from pagefeed.prepare.texts.streams import Reader, opened
from pagefeed.prepare.texts.tables import check_columns_of
from pagefeed.selection import check_years, int96_columns, is_coarse, rows_at_once

READ_BYTES = 2 << 20
"""Bytes of rows that pyarrow reads at once; both fewer and more are slower."""
TEXT_BYTES = 128
"""Bytes of a text, on average, from which on texts are read by pages. Shorter ones may
repeat a few, of which a page can hold any number."""
PAGE_BYTES = 32 << 20
"""Bytes of a page of texts, at most, that is read whole; pyarrow reads larger ones in
parts."""
MOST_RANGES = 10
"""Ranges of a file, at most, whose pages are listed: each lists all of the file."""


class ParquetReader(Reader):
    """Parquet files."""

    suffixes = PARQUET

    def ranges(self, storage: Storage, file: str, most: int) -> Iterator[FileRange]:
        """Divide a file into runs of row groups."""
        metadata = _opened(storage, file).metadata
        begin = weight = 0
        for group in range(metadata.num_row_groups):
            weight += metadata.row_group(group).total_byte_size
            if weight >= most or group == metadata.num_row_groups - 1:
                yield FileRange(file, begin, group + 1, weight)
                begin, weight = group + 1, 0

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of the file."""
        schema = _opened(storage, file).schema_arrow
        return {field.name: field.type for field in schema}

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the rows of a range; rows after damage in a row group are rejected."""
        file = _opened(storage, file_range.file)
        check_columns_of(file.schema_arrow.names, wanted, file_range.file)
        groups = [file.metadata.row_group(n) for n in range(file_range.end or 0)]
        rows = sum(group.num_rows for group in groups[: file_range.begin])
        pages = _TextPages(storage, file, file_range, wanted)
        for group_number in range(file_range.begin, file_range.end or 0):
            begin, end = rows, rows + groups[group_number].num_rows
            try:
                with translated(file_range.file):
                    for batch in pages.read(group_number, rows):
                        yield batch
                        rows += len(batch.table)
                    if rows == end:
                        continue
                    _check_years(
                        storage, file, file_range.file, group_number, wanted.columns
                    )
                    most = rows_at_once(
                        storage,
                        file_range.file,
                        wanted.columns,
                        [group_number],
                        max(1, end - begin),
                    )
                    for batch in _batches(
                        file, group_number, begin, rows, wanted, most
                    ):
                        yield batch
                        rows += len(batch.table)
            except CorruptFileError as problem:
                # Other errors may be temporary, and batches must not change.
                position = f"rows {rows} to {end - 1}"
                error = pages.problem_of(group_number, rows) or (
                    f"row group {group_number}: {_without(file_range.file, problem)}"
                )
                rejected = Rejected(file_range.file, position, error, end - rows)
                yield rejection(rejected, wanted)
            rows = end


class _TextPages:
    """Reads texts by pages, in less processor time than pyarrow's batches take.

    Only texts of a local file are read that way, without further columns. pyarrow
    reads row groups with large pages: it does so in parts.
    """

    def __init__(
        self, storage: Storage, file: Any, file_range: FileRange, wanted: Wanted
    ) -> None:
        self._file = file_range.file
        self._wanted = wanted
        self._pages = defaultdict[int, list[int]](list)
        self._problem: tuple[DataError, int | None] | None = None
        """The last page that could not be read, and the row where it was."""
        chunks = {} if wanted.kept else _chunks(file, file_range, wanted.source)
        if storage.handle is not None or not _has_texts(chunks, file):
            return
        try:
            self._index = _core.Index.build(
                [self._file],
                wanted.source,
                page_index=True,
                verify_checksums=True,
                num_threads=1,
            )
        except DataError as problem:
            self._problem = problem, None
            return
        largest = dict.fromkeys(chunks, 0)
        for page in range(self._index.num_pages):
            _, group, *_, size = self._index.locate(page)
            self._pages[group].append(page)
            largest[group] = max(size, largest.get(group, 0))
        for group, chunk in chunks.items():
            if _plain_bytes(chunk, largest[group]) > PAGE_BYTES:
                self._pages.pop(group, None)

    def read(self, group: int, first: int) -> Iterator[Batch]:
        """Yield the texts of a row group, up to a page that cannot be read.

        That may be one with a text that is not UTF-8, or a large one: pyarrow reads the
        others.
        """
        for page in self._pages[group]:
            try:
                read = self._index.read_page(
                    page, verify_checksums=True, most_bytes=PAGE_BYTES
                )
                texts = arrow().array(read)
            except DataError as problem:
                self._problem = problem, first
                return
            num_parts = -(-texts.nbytes // self._wanted.batch_bytes)
            step = max(1, -(-len(texts) // max(1, num_parts)))
            for begin in range(0, len(texts), step):
                some = texts[begin : begin + step]
                yield Batch(
                    arrow().table({self._wanted.source: some}),
                    lambda row, first=first: f"row {first + row}",  # type: ignore[misc]
                )
                first += len(some)

    def problem_of(self, group: int, row: int) -> str:
        """Return what is wrong with the page at a row, with its place in the file.

        It is empty if that is not known.
        """
        if self._problem is None:
            return ""
        problem, first = self._problem
        is_there = isinstance(problem, CorruptFileError) and first in (None, row)
        if not is_there or problem.row_group != group:
            return ""
        return _without(self._file, problem)


def _without(file: str, problem: Exception) -> str:
    """Return what an error says, without its file."""
    return str(problem).removeprefix(file).lstrip(":, ")


def _chunks(file: Any, file_range: FileRange, name: str) -> dict[int, Any]:
    """Return the chunks of a column by row group; none if it has no texts."""
    schema, types, metadata = file.schema_arrow, arrow("pyarrow.types"), file.metadata
    if "." in name or schema.names.count(name) != 1:
        return {}
    kind = schema.field(name).type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return {}
    groups = range(file_range.begin, file_range.end or 0)
    paths = [file.schema.column(n).path for n in range(metadata.num_columns)]
    number = paths.index(name)
    return {group: metadata.row_group(group).column(number) for group in groups}


def _has_texts(chunks: Mapping[int, Any], file: Any) -> bool:
    """Whether texts have some length, and their row groups are many of the file's."""
    num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks.values())
    num_values = sum(chunk.num_values for chunk in chunks.values())
    is_much = len(chunks) * MOST_RANGES >= file.metadata.num_row_groups
    return is_much and num_bytes >= TEXT_BYTES * num_values


def _plain_bytes(chunk: Any, size: int) -> float:
    """Return about what a page of some bytes, or the dictionary, decompresses to."""
    if chunk.has_dictionary_page:
        size = max(size, chunk.data_page_offset - chunk.dictionary_page_offset)
    ratio = chunk.total_uncompressed_size / max(1, chunk.total_compressed_size)
    return float(size * ratio)


def _batches(
    file: Any, group: int, begin: int, first: int, wanted: Wanted, most: int
) -> Iterator[Batch]:
    """Yield the rows of a row group, whose first has the number ``begin`` in the file.

    Rows before ``first`` are left out. At most ``most`` rows are decoded at once.
    """
    metadata = file.metadata.row_group(group)
    columns = map(metadata.column, range(metadata.num_columns))
    begins = tuple(f"{name}." for name in wanted.columns)
    size = sum(
        column.total_uncompressed_size
        for column in columns
        if f"{column.path_in_schema}.".startswith(begins)
    )
    share = min(READ_BYTES, wanted.batch_bytes) / max(1, size)
    for batch in file.iter_batches(
        batch_size=max(1, min(most, int(metadata.num_rows * share))),
        row_groups=[group],
        columns=wanted.columns,
        use_threads=False,
    ):
        new = batch[max(0, first - begin) :]
        begin += len(batch)
        if not len(new):
            continue
        table = arrow().Table.from_batches([new]).select(wanted.columns)
        yield Batch(table, lambda row, first=first: f"row {first + row}")  # type: ignore[misc]
        first += len(new)


def _check_years(
    storage: Storage, file: Any, path: str, group: int, columns: list[str]
) -> None:
    """Refuse INT96 timestamps of a row group that would wrap around.

    Raises:
        UnsupportedError: If the unit in which they are read does not hold one.
    """
    int96 = int96_columns(file)
    names = {name.partition(".")[0] for name in int96}.intersection(columns)
    if not names:
        return
    unit = "us" if is_coarse(file, int96) else "ns"
    coarse = _open(storage, path, unit="s")
    table = coarse.read_row_group(group, columns=sorted(names), use_threads=False)
    for name in table.column_names:
        for chunk in table[name].chunks:
            for times in _timestamps(chunk):
                check_years(name, times, unit, path)


def _timestamps(array: Any) -> Iterator[Any]:
    """Yield the arrays of timestamps in an array, those in structs and lists too."""
    types = arrow("pyarrow.types")
    if types.is_timestamp(array.type):
        yield array
    elif types.is_map(array.type):
        yield from _timestamps(array.keys)
        yield from _timestamps(array.items)
    elif types.is_struct(array.type):
        for field in array.flatten():
            yield from _timestamps(field)
    elif types.is_nested(array.type):
        yield from _timestamps(array.flatten())


def _opened(storage: Storage, file: str) -> Any:
    """Open a file; INT96 timestamps have microseconds where its writer had no finer."""
    parquet_file = _open(storage, file)
    int96 = int96_columns(parquet_file)
    is_fine = not int96 or not is_coarse(parquet_file, int96)
    return parquet_file if is_fine else _open(storage, file, unit="us")


def _open(storage: Storage, file: str, unit: str | None = None) -> Any:
    return arrow("pyarrow.parquet").ParquetFile(
        opened(storage, file),
        coerce_int96_timestamp_unit=unit,
        page_checksum_verification=True,
        # Without buffers, or with those ahead, it reads whole column chunks.
        buffer_size=READ_BYTES,
        pre_buffer=storage.handle is not None,
    )
