"""Tables: CSV, and Arrow files of Feather and Hugging Face's datasets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pagefeed.arrow_files import SIGNS
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    UnsupportedError,
)
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    FileRange,
    Rejected,
    Wanted,
    arrow,
    rejection,
    shown,
    too_long,
)
from pagefeed.prepare.texts.streams import Reader, opened, with_compressed

_ARROW_MAGIC = b"ARROW1"
SEEN_BYTES = 1 << 20
"""Bytes of CSV that decide on the types of columns."""


class Csv(Reader):
    """Comma- or tab-separated values with a line of names.

    A quoted value may hold line ends.
    """

    suffixes = with_compressed(".csv", ".tsv")

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the types of numbers and flags in the first rows; all else is text."""
        types = arrow().types
        plain = (types.is_integer, types.is_floating, types.is_boolean)
        return {
            field.name: field.type
            if any(is_such(field.type) for is_such in plain)
            else arrow().string()
            for field in self._schema(storage, file)
        }

    def _schema(self, storage: Storage, file: str) -> Any:
        for size in (SEEN_BYTES, RECORD_BYTES):
            with opened(storage, file) as stream:
                try:
                    return _reader(stream, file, size, lambda _: "skip").schema
                except arrow().ArrowInvalid:  # A row may be longer.
                    if size == RECORD_BYTES:
                        raise
        return None

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the rows, as texts."""
        pa, file = arrow(), file_range.file
        names = self._schema(storage, file).names
        check_columns_of(names, wanted, file)
        for name in wanted.columns:
            if names.count(name) > 1:
                raise UnsupportedError(
                    f"{file}: {names.count(name)} columns are called {name!r}: rename "
                    "all but one"
                )
        options = arrow("pyarrow.csv").ConvertOptions(
            check_utf8=False,
            column_types={
                **dict.fromkeys(wanted.kept, pa.string()),
                wanted.source: pa.binary(),
            },
            include_columns=wanted.columns,
            strings_can_be_null=False,
        )
        before, rejected = 0, list[Rejected]()

        def skip(row: Any) -> str:
            rejected.append(_other_columns(row, file))
            return "skip"

        # A block holds the largest row that may be.
        size = max(wanted.batch_bytes, wanted.record_bytes)
        with opened(storage, file) as stream:
            try:
                for block in _reader(stream, file, size, skip, options):
                    for table in _parts(pa.Table.from_batches([block]), wanted):
                        yield Batch(
                            table,
                            lambda row, before=before: (
                                f"row {before + row + 1} of the sound"
                            ),  # type: ignore[misc]
                            tuple(rejected),
                        )
                        rejected.clear()
                        before += len(table)
            except pa.ArrowInvalid as problem:
                if "straddling" not in str(problem):
                    raise
                raise CorruptFileError(too_long(wanted.record_bytes)) from None
        for record in rejected:
            yield rejection(record, wanted)


def _parts(table: Any, wanted: Wanted) -> Iterator[Any]:
    """Yield a table in parts of about the bytes of a batch."""
    step = max(1, wanted.batch_bytes * len(table) // max(1, table.nbytes))
    for begin in range(0, len(table), step):
        yield table[begin : begin + step]


def _other_columns(row: Any, file: str) -> Rejected:
    error = f"{row.actual_columns} values for {row.expected_columns} columns"
    position = "a row" if row.number is None else f"row {row.number}"
    return Rejected(file, position, error)


def _reader(
    stream: Any, file: str, size: int, skip: Callable[[Any], str], options: Any = None
) -> Any:
    csv = arrow("pyarrow.csv")
    parsing = csv.ParseOptions(
        delimiter="\t" if file.endswith(with_compressed(".tsv")) else ",",
        newlines_in_values=True,
        invalid_row_handler=skip,
    )
    reading = csv.ReadOptions(use_threads=False, block_size=size)
    return csv.open_csv(stream, reading, parsing, options)


class ArrowFile(Reader):
    """Arrow's files and streams."""

    suffixes = SIGNS

    def ranges(self, storage: Storage, file: str, most: int) -> Iterator[FileRange]:
        """Divide a file at its record batches; a stream is one range."""
        if not _is_file(storage, file):
            yield from super().ranges(storage, file, most)
            return
        size = storage.size(file)
        with opened(storage, file) as stream:
            batches = arrow("pyarrow.ipc").open_file(stream).num_record_batches
        parts = max(1, min(batches, -(-size // most)))
        borders = [batches * index // parts for index in range(parts + 1)]
        for begin, end in itertools.pairwise(borders):
            yield FileRange(file, begin, end, size // parts)

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of the file."""
        with opened(storage, file) as stream:
            schema = _ipc_reader(stream, is_file=_is_file(storage, file)).schema
            return {field.name: field.type for field in schema}

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the rows of a range."""
        is_file, file = _is_file(storage, file_range.file), file_range.file
        with opened(storage, file) as stream:
            batches = reader = _ipc_reader(stream, is_file=is_file)
            if is_file:
                numbers = range(reader.num_record_batches)[
                    file_range.begin : file_range.end
                ]
                batches = map(reader.get_batch, numbers)
            check_columns_of(reader.schema.names, wanted, file)

            @cache
            def before() -> int:
                """Count the rows of the ranges before; only an error asks for it."""
                return sum(len(reader.get_batch(n)) for n in range(file_range.begin))

            rows = 0
            for batch in batches:
                table = arrow().Table.from_batches([batch]).select(wanted.columns)
                # Offsets come from the file: check them before any use.
                table.validate(full=True)
                for part in _parts(table, wanted):
                    yield Batch(
                        part,
                        lambda row, first=rows: f"row {before() + first + row}",  # type: ignore[misc]
                    )
                    rows += len(part)


def _ipc_reader(stream: Any, *, is_file: bool) -> Any:
    ipc = arrow("pyarrow.ipc")
    return ipc.open_file(stream) if is_file else ipc.open_stream(stream)


def check_columns_of(names: list[str], wanted: Wanted, file: str) -> None:
    """Check that a file has all wanted columns.

    Raises:
        ColumnNotFoundError: Naming the missing column and those of the file.
    """
    for name in wanted.columns:
        if name not in names:
            raise ColumnNotFoundError(
                f"{file}: there is no column {name!r}; it has {shown(names)}"
            ).at(file=file)


def _is_file(storage: Storage, file: str) -> bool:
    end = min(len(_ARROW_MAGIC), storage.size(file))
    return storage.read(file, 0, end) == _ARROW_MAGIC
