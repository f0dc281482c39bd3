"""Parquet files, divided at their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagefeed.core.storage import PARQUET, Storage
from pagefeed.errors import CorruptFileError
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
from pagefeed.selection import rows_at_once

READ_BYTES = 2 << 20
"""Bytes of rows that pyarrow reads at once; both fewer and more are slower."""


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
        for group_number in range(file_range.begin, file_range.end or 0):
            end = rows + groups[group_number].num_rows
            try:
                with translated(file_range.file):
                    most = rows_at_once(
                        storage,
                        file_range.file,
                        wanted.columns,
                        [group_number],
                        max(1, end - rows),
                    )
                    for batch in _batches(file, group_number, rows, wanted, most):
                        yield batch
                        rows += len(batch.table)
            except CorruptFileError as problem:
                # Other errors may be temporary, and batches must not change.
                position = f"rows {rows} to {end - 1}"
                error = f"row group {group_number}: "
                error += str(problem).removeprefix(file_range.file).lstrip(":, ")
                rejected = Rejected(file_range.file, position, error, end - rows)
                yield rejection(rejected, wanted)
            rows = end


def _batches(
    file: Any, group: int, first: int, wanted: Wanted, most: int
) -> Iterator[Batch]:
    """Yield the rows of a row group, whose first has the number ``first`` in the file.

    At most ``most`` rows are decoded at once.
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
        table = arrow().Table.from_batches([batch]).select(wanted.columns)
        yield Batch(table, lambda row, first=first: f"row {first + row}")  # type: ignore[misc]
        first += len(batch)


def _opened(storage: Storage, file: str) -> Any:
    """Open a file; INT96 timestamps have microseconds, which hold any year."""
    return arrow("pyarrow.parquet").ParquetFile(
        opened(storage, file),
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
        # With no buffer, or with pre-buffering, pyarrow reads whole column chunks.
        buffer_size=READ_BYTES,
        pre_buffer=storage.handle is not None,
    )
