"""Parquet files, divided at their row groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
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
from pagefeed.selection import check_years, int96_columns, is_coarse

__all__ = ["ParquetReader"]

READ_BYTES = 2 << 20
"""Bytes of rows that pyarrow reads at once; both fewer and more are slower."""
TEXT_BYTES = 128
"""Bytes of a text, on average, from which on texts are read by pages. Shorter ones may
repeat a few, of which a page can hold any number."""
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
        pages = _text_pages(storage, file, file_range, wanted)
        for group_number in range(file_range.begin, file_range.end or 0):
            begin, end = rows, rows + groups[group_number].num_rows
            try:
                with translated(file_range.file):
                    for batch in _by_pages(pages[group_number], rows, wanted):
                        yield batch
                        rows += len(batch.table)
                    if rows == end:
                        continue
                    _check_years(
                        storage, file, file_range.file, group_number, wanted.columns
                    )
                    for batch in _batches(file, group_number, begin, rows, wanted):
                        yield batch
                        rows += len(batch.table)
            except CorruptFileError as problem:
                # Other errors may be temporary, and batches must not change.
                position = f"rows {rows} to {end - 1}"
                rejected = Rejected(
                    file_range.file, position, str(problem), None, end - rows
                )
                yield rejection(rejected, wanted)
            rows = end


def _text_pages(
    storage: Storage, file: Any, file_range: FileRange, wanted: Wanted
) -> defaultdict[int, list[Callable[[], Any]]]:
    """Return, by row group, functions that read the texts of a page.

    There is none if pyarrow is to read the file. Pages of the core need less processor
    time than pyarrow's batches. Only texts of a local file are read that way, without
    columns beside them.
    """
    pages = defaultdict[int, list[Callable[[], Any]]](list)
    is_local = storage.handle is None
    if not is_local or wanted.kept or not _has_texts(file, file_range, wanted.source):
        return pages
    try:
        index = _core.Index.build(
            [file_range.file],
            wanted.source,
            page_index=True,
            verify_checksums=True,
            num_threads=1,
        )
    except DataError:
        return pages
    for page in range(index.num_pages):
        read = partial(index.read_page, page, verify_checksums=True)
        pages[index.locate(page)[1]].append(read)
    return pages


def _has_texts(file: Any, file_range: FileRange, name: str) -> bool:
    """Whether a column has texts of some length, and the range much of the file."""
    schema, types, metadata = file.schema_arrow, arrow("pyarrow.types"), file.metadata
    if "." in name or schema.names.count(name) != 1:
        return False
    kind = schema.field(name).type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return False
    groups = range(file_range.begin, file_range.end or 0)
    paths = [file.schema.column(n).path for n in range(metadata.num_columns)]
    number = paths.index(name)
    chunks = [metadata.row_group(group).column(number) for group in groups]
    num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    is_long = num_bytes >= TEXT_BYTES * sum(chunk.num_values for chunk in chunks)
    return is_long and len(groups) * MOST_RANGES >= metadata.num_row_groups


def _by_pages(
    pages: Iterable[Callable[[], Any]], first: int, wanted: Wanted
) -> Iterator[Batch]:
    """Yield the texts of pages, page by page, up to one that cannot be read.

    That may be a page with one text that is not UTF-8: pyarrow reads the others.
    """
    for read in pages:
        try:
            texts = arrow().array(read())
        except DataError:
            return
        num_parts = -(-texts.nbytes // wanted.batch_bytes)
        step = max(1, -(-len(texts) // max(1, num_parts)))
        for begin in range(0, len(texts), step):
            some = texts[begin : begin + step]
            yield Batch(
                arrow().table({wanted.source: some}),
                lambda row, first=first: f"row {first + row}",  # type: ignore[misc]
            )
            first += len(some)


def _batches(
    file: Any, group: int, begin: int, first: int, wanted: Wanted
) -> Iterator[Batch]:
    """Yield the rows of a row group, whose first has the number ``begin`` in the file.

    Rows before ``first`` are left out.
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
        batch_size=max(1, int(metadata.num_rows * share)),
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
