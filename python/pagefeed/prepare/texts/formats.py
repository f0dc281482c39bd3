"""Finds inputs, and their formats by the names of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pagefeed.arrow_files import SIGNS, saved_files
from pagefeed.core.storage import Paths, Storage, located, plain_paths
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedError,
)
from pagefeed.prepare.texts.json_lines import JsonLines
from pagefeed.prepare.texts.parquet_files import ParquetReader
from pagefeed.prepare.texts.records import (
    Batch,
    FileRange,
    Rejected,
    Wanted,
    arrow,
    rejection,
    translated,
)
from pagefeed.prepare.texts.streams import Reader
from pagefeed.prepare.texts.tables import ArrowFile, Csv
from pagefeed.remote import OutputFolder, StorageOptions, options_of

Format = Literal["jsonl", "csv", "parquet", "arrow"]
_READERS: Mapping[str, Reader] = {
    "jsonl": JsonLines(),
    "csv": Csv(),
    "parquet": ParquetReader(),
    "arrow": ArrowFile(),
}
_OTHERS = (
    *(".txt", ".mds", ".mds.zstd", ".mds.gz"),
    *(".tar", ".tar.gz", ".tgz", ".tar.zst"),
)
FORMATS = tuple(_READERS)
"""Names of the formats."""


class Inputs(NamedTuple):
    """Input files and their formats."""

    storage: Storage
    files: tuple[str, ...]
    formats: tuple[str, ...]


def find_inputs(
    paths: Paths,
    name: str | None,
    options: StorageOptions | None,
    output: OutputFolder | None = None,
) -> Inputs:
    """Return the files that paths, folders, patterns and URLs name, and their format.

    A ``name`` of None finds the format by the names of the files.

    Options may be those of the output alone.

    Raises:
        InvalidArgumentError: If the name of a file does not show its format.
        MissingFileError: If a path does not exist.
    """
    readers = _READERS.values() if name is None else [_READERS[name]]
    suffixes = tuple(
        dict.fromkeys(end for reader in readers for end in reader.suffixes)
    )
    given = plain_paths(paths)
    if output is not None:
        options = options_of(given, options, output.path)
    listed = located(given, options, suffixes)
    files = saved_files(listed) if {*SIGNS} <= {*suffixes} else listed.files
    return Inputs(
        listed.storage,
        tuple(files),
        tuple(name or _format_of(file) for file in files),
    )


def _format_of(file: str) -> str:
    fitting = [
        name for name, reader in _READERS.items() if file.endswith(reader.suffixes)
    ]
    if file.endswith(_OTHERS):
        raise InvalidArgumentError(
            f"{file}: plain text, tar files and MDS shards are not read: write their "
            "samples to Parquet or JSON lines, by the library that reads them"
        )
    if not fitting:
        raise InvalidArgumentError(
            f"{file}: its name does not show its format: give one, format= "
            f"{' or '.join(map(repr, FORMATS))}"
        )
    return fitting[0]


def types_of(inputs: Inputs, file_number: int) -> dict[str, Any] | None:
    """Return the types of a file's columns by name; None if it may have any."""
    file = inputs.files[file_number]
    with translated(file):
        return _READERS[inputs.formats[file_number]].types(inputs.storage, file)


def ranges_of(inputs: Inputs, file_number: int, most: int) -> list[FileRange]:
    """Divide a file into ranges of some bytes, as far as its format allows."""
    file, name = inputs.files[file_number], inputs.formats[file_number]
    with translated(file):
        ranges = _READERS[name].ranges(inputs.storage, file, most)
        return [file_range._replace(format=name) for file_range in ranges]


def read_range(
    storage: Storage, file_range: FileRange, wanted: Wanted
) -> Iterator[Batch]:
    """Yield the records of a range; records after damage are rejected."""
    count = 0
    try:
        with translated(file_range.file):
            of_folder = wanted.folders.get(os.path.dirname(file_range.file), {})
            own = {n: kind for n, kind in wanted.kept.items() if n not in of_folder}
            reader, inside = _READERS[file_range.format], replace(wanted, kept=own)
            for batch in reader.read(storage, file_range, inside):
                count += len(batch.table)
                table = batch.table
                for name, value in of_folder.items():
                    values = [value] * len(table)
                    table = table.append_column(name, arrow().array(values))
                yield batch._replace(table=table)
    except UnsupportedError:
        raise
    except CorruptFileError as problem:
        rest = f"all that follows {count} records"
        error = str(problem).removeprefix(f"{file_range.file}: ")
        rejected = Rejected(file_range.file, rest, error, None)
        yield rejection(rejected, wanted)
