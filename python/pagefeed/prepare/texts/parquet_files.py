"""Parquet files, divided at their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagefeed.errors import CorruptFileError
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    no_rows,
    translated,
)
from pagefeed.prepare.texts.streams import opened
from pagefeed.prepare.texts.tables import check_columns_of
from pagefeed.storage import PARQUET, Storage

__all__ = ["ParquetFile"]


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
                yield Piece("parquet", file, begin, number + 1, weight)
                begin, weight = number + 1, 0

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of the file."""
        schema = _opened(storage, file).schema_arrow
        return {field.name: field.type for field in schema}

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the rows of a piece; a row group that is damaged is rejected whole."""
        opened_file = _opened(storage, piece.file)
        check_columns_of(opened_file.schema_arrow.names, wanted, piece.file)
        groups = [opened_file.metadata.row_group(n) for n in range(piece.end or 0)]
        rows = sum(group.num_rows for group in groups[: piece.begin])
        for number in range(piece.begin, piece.end or 0):
            group = groups[number]
            mean = max(1, group.total_byte_size // max(1, group.num_rows))
            done = 0
            try:
                with translated(piece.file):
                    for batch in opened_file.iter_batches(
                        batch_size=max(1, wanted.batch_bytes // mean),
                        row_groups=[number],
                        columns=wanted.columns,
                        use_threads=False,
                    ):
                        table = arrow().Table.from_batches([batch])
                        at = rows + done
                        yield Batch(
                            table.select(wanted.columns),
                            lambda row, at=at: f"row {at + row}",  # type: ignore[misc]
                        )
                        done += len(batch)
            except CorruptFileError as problem:
                place = f"rows {rows + done} to {rows + group.num_rows - 1}"
                lost = group.num_rows - done
                found = Rejected(piece.file, place, str(problem), None, lost)
                yield Batch(no_rows(wanted), str, (found,))
            rows += group.num_rows


def _opened(storage: Storage, file: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    parquet = arrow("pyarrow.parquet")
    with translated(file):
        return parquet.ParquetFile(
            opened(storage, file),
            page_checksum_verification=True,
            # Ahead it would read all of a column chunk, into memory of its own.
            pre_buffer=storage.handle is not None,
        )
