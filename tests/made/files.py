"""Parquet files taken apart and put together again, byte by byte.

pyarrow writes only files that are right. `ParquetBytes` holds a file as its footer and
its pages; whatever a test changes, `encode` lays the pages out again and writes honest
offsets and sizes, so that the only thing wrong with the file is what the test made
wrong. `handmade` makes such files from nothing.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from made.thrift import I32, STRUCT, Field, Struct, decode, encode, i64, listed

MAGIC = b"PAR1"
DATA, INDEX, DICTIONARY, DATA_V2 = range(4)


@dataclass
class PageBytes:
    """One page: its header's fields and its body as stored."""

    header: Struct
    body: bytes

    @property
    def kind(self) -> int:
        return int(self.header[1].value)

    @property
    def detail(self) -> Struct:
        """The header of its kind: data page, dictionary page or data page V2."""
        value: Struct = self.header[
            {DATA: 5, DICTIONARY: 7, DATA_V2: 8}[self.kind]
        ].value
        return value

    @property
    def num_values(self) -> int:
        return int(self.detail[1].value)

    def encode(self) -> bytes:
        return encode(self.header) + self.body


@dataclass
class ParquetBytes:
    """A file as its footer and, for every column chunk in file order, its pages."""

    footer: Struct
    chunks: list[list[PageBytes]] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes) -> "ParquetBytes":
        footer = read_footer(data)
        return cls(footer, [list(_pages(data, meta)) for meta in chunk_metas(footer)])

    def encode(self) -> bytes:
        """The file, with offsets and sizes as they are and without page indexes."""
        out = bytearray(MAGIC)
        for chunk, pages in zip(_column_chunks(self.footer), self.chunks, strict=True):
            meta: Struct = chunk[3].value
            start, raw = len(out), 0
            first_data = next((p for p in pages if p.kind != DICTIONARY), None)
            for page in pages:
                encoded = page.encode()
                if page.kind == DICTIONARY:
                    meta[11] = i64(len(out))
                elif page is first_data:
                    meta[9] = i64(len(out))
                raw += len(encoded) - len(page.body) + int(page.header[2].value)
                out += encoded
            meta[6], meta[7] = i64(raw), i64(len(out) - start)
            for index_field in (4, 5, 6, 7):
                chunk.pop(index_field, None)
        return bytes(out) + _tail(self.footer)


def read_footer(data: bytes) -> Struct:
    size = int.from_bytes(data[-8:-4], "little")
    return decode(data, len(data) - 8 - size)[0]


def with_footer(data: bytes, footer: Struct, *, before: bytes = b"") -> bytes:
    """The file with another footer, and some bytes more between its pages and that."""
    size = int.from_bytes(data[-8:-4], "little")
    return data[: len(data) - 8 - size] + before + _tail(footer)


def _tail(footer: Struct) -> bytes:
    encoded = encode(footer)
    return encoded + len(encoded).to_bytes(4, "little") + MAGIC


def footer_offset(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _column_chunks(footer: Struct) -> list[Struct]:
    groups = footer[4].value[1]
    return [chunk for group in groups for chunk in group[1].value[1]]


def column_chunks(footer: Struct, column: str | None = None) -> list[Struct]:
    """The ColumnChunk structs in file order, of one top-level column or of all."""
    chunks = _column_chunks(footer)
    if column is None:
        return chunks
    return [one for one in chunks if one[3].value[3].value[1][0] == column.encode()]


def chunk_metas(footer: Struct, column: str | None = None) -> list[Struct]:
    """The ColumnMetaData structs in file order, of one top-level column or of all."""
    return [chunk[3].value for chunk in column_chunks(footer, column)]


def _pages(data: bytes, meta: Struct) -> Iterable[PageBytes]:
    """The pages of one chunk, by walking their headers."""
    at, dictionary = int(meta[9].value), meta.get(11)
    if dictionary is not None and 0 < dictionary.value < at:
        at = int(dictionary.value)
    values, total = 0, int(meta[5].value)
    end = at + int(meta[7].value)
    while values < total or at < end:
        header, body = decode(data, at)
        at = body + int(header[3].value)
        page = PageBytes(header, data[body:at])
        if page.kind in (DATA, DATA_V2):
            values += page.num_values
        if page.kind != INDEX:
            yield page


@functools.lru_cache(maxsize=4)
def _parsed(path: Path) -> tuple[ParquetBytes, list[Struct]]:
    file = ParquetBytes.parse(path.read_bytes())
    return file, chunk_metas(file.footer)


def data_pages(path: Path, column: str) -> list[PageBytes]:
    """The data pages with values of a column that has a single leaf, in file order."""
    file, metas = _parsed(path)
    return [
        page
        for meta, pages in zip(metas, file.chunks, strict=True)
        for page in pages
        if meta[3].value[1][0] == column.encode()
        and page.kind != DICTIONARY
        and page.num_values
    ]


# The offset index, which is the one structure that another reader would trust blindly.


def offset_index(data: bytes, chunk: Struct) -> list[Struct]:
    """The PageLocation structs of a column chunk: 1 offset, 2 size, 3 first row."""
    locations: list[Struct] = decode(data, int(chunk[4].value))[0][1].value[1]
    return locations


def with_offset_index(data: bytes, column: str, locations: list[Struct]) -> bytes:
    """The file with another offset index for the first chunk of a column."""
    footer = read_footer(data)
    chunk = column_chunks(footer, column)[0]
    encoded = encode({1: listed(STRUCT, locations)})
    chunk[4], chunk[5] = i64(footer_offset(data)), Field(I32, len(encoded))
    return with_footer(data, footer, before=encoded)
