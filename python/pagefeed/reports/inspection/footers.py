"""Storage of files, read from their footers and page headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pagefeed.core._base import Work, require
from pagefeed.core.dataset import PageIndex
from pagefeed.reports.sampling import evenly
from pagefeed.reports.soundness import UNREADABLE

MOST_FOOTERS = 512
MOST_HEADERS = 64
NO_CHECKSUMS = (
    "{:.0%} of the pages carry no checksum: bits flipped in them, on a disk or on the "
    "way, cannot be noticed; write files with write_page_checksum=True"
)
HEADER_BYTES = 64
"""More than the fields of a page header up to its checksum take."""

_INT32 = 5
_CHECKSUM_FIELD = 4


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column of the files, by the footers read."""

    name: str
    """Dotted path of the leaf."""
    type: str
    """Parquet type, with the logical type if there is one."""
    codecs: tuple[str, ...]
    """Compression codecs of the pages."""
    encodings: tuple[str, ...]
    """Encodings of values and levels."""
    stored_bytes: int
    """Bytes of its chunks as stored."""
    decoded_bytes: int
    """Bytes of the pages, decompressed."""


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """Facts from the footers; with many files, from some of them."""

    footers_read: int
    """Files whose footers were read."""
    writers: dict[str, int]
    """Files by the program that wrote them."""
    columns: tuple[ColumnFacts, ...]
    """All columns."""
    offset_index_share: float
    """Share of the column's chunks that have an offset index."""
    tokenizer: dict[str, str]
    """Facts about the tokenizer that the files record."""


def file_facts(index: PageIndex) -> FileFacts:
    """Return facts from the footers of files.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
    """
    parquet: Any = require(
        "pyarrow.parquet", extra="pyarrow", purpose="reading all of a footer"
    )
    files = index.files
    chosen = [files[n] for n in evenly(len(files), MOST_FOOTERS)]

    def read(file: str) -> Any:
        return parquet.read_metadata(index.storage.open_arrow(file))

    writers, tokenizer = Counter[str](), dict[str, str]()
    columns: dict[str, ColumnFacts] = {}
    has_index: list[bool] = []
    for footer in Work("footers", total=len(chosen), unit="files").map(read, chosen):
        writers[footer.created_by or "unknown"] += 1
        for key, value in (footer.metadata or {}).items():
            if b"tokenizer" in key.lower():
                name = key.decode(errors="replace")
                tokenizer[name] = value.decode(errors="replace")
        for chunk, leaf in _chunks(footer):
            name = chunk.path_in_schema
            columns[name] = _with_chunk(columns.get(name), chunk, leaf)
            if name == index.column or name.startswith(f"{index.column}."):
                has_index.append(chunk.has_offset_index)
    return FileFacts(
        footers_read=writers.total(),
        writers=dict(writers.most_common()),
        columns=tuple(columns.values()),
        offset_index_share=float(np.mean(has_index or [False])),
        tokenizer=tokenizer,
    )


def _chunks(footer: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each column chunk of a file, with its leaf of the schema."""
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for leaf in range(group.num_columns):
            yield group.column(leaf), footer.schema.column(leaf)


def _with_chunk(column: ColumnFacts | None, chunk: Any, leaf: Any) -> ColumnFacts:
    """Return the facts of a column, with those of another chunk added."""
    logical = str(leaf.logical_type)
    facts = ColumnFacts(
        name=chunk.path_in_schema,
        type=chunk.physical_type + ("" if logical == "None" else f" ({logical})"),
        codecs=(chunk.compression,),
        encodings=tuple(sorted(set(chunk.encodings))),
        stored_bytes=chunk.total_compressed_size,
        decoded_bytes=chunk.total_uncompressed_size,
    )
    if column is None:
        return facts
    return replace(
        column,
        codecs=tuple(sorted({*column.codecs, *facts.codecs})),
        encodings=tuple(sorted({*column.encodings, *facts.encodings})),
        stored_bytes=column.stored_bytes + facts.stored_bytes,
        decoded_bytes=column.decoded_bytes + facts.decoded_bytes,
    )


def checksum_share(index: PageIndex) -> float | None:
    """Return the share of pages with a checksum, from the headers of some pages.

    None if none could be read.
    """
    flags = []
    for page in evenly(len(index), MOST_HEADERS).tolist():
        where, file = index.locate(page), index.core.locate(page)[0]
        end = where.offset + min(HEADER_BYTES, where.compressed_size)
        try:
            header = index.storage.read(index.files[file], where.offset, end)
        except UNREADABLE:
            continue
        flags.append(_has_checksum(header))
    return float(np.mean(flags)) if flags else None


def _has_checksum(header: bytes) -> bool:
    """Whether a page header in Thrift's compact protocol has its fourth field.

    The first four fields are 32-bit integers, in their order; the fourth may be left
    out.
    """
    offset = field = 0
    while offset < len(header):
        kind, step = header[offset] & 15, header[offset] >> 4
        field += step
        if kind != _INT32 or not step or field >= _CHECKSUM_FIELD:
            return kind == _INT32 and field == _CHECKSUM_FIELD
        offset += 1
        while offset < len(header) and header[offset] & 128:
            offset += 1
        offset += 1
    return False
