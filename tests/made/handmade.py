"""Parquet files from nothing: a schema, and pages whose bodies a test writes itself.

For what no writer of today makes: pages of a million equal values in ten bytes, headers
that lie, records split between pages.
"""

import itertools
import zlib
from collections.abc import Sequence

from made.files import DATA, DATA_V2, DICTIONARY, PageBytes, ParquetBytes
from made.thrift import (
    BINARY,
    I32,
    STRUCT,
    Struct,
    binary,
    boolean,
    i32,
    i64,
    listed,
    struct,
    varint,
)

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
REQUIRED, OPTIONAL, REPEATED = range(3)
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW = 0, 1, 2, 4, 6, 7


def element(
    name: str,
    *,
    kind: int | None = None,
    repetition: int | None = None,
    children: int | None = None,
    converted: int | None = None,
) -> Struct:
    """A SchemaElement; a leaf has a physical type, a group its number of children."""
    out: Struct = {4: binary(name)}
    for number, value in ((1, kind), (3, repetition), (5, children), (6, converted)):
        if value is not None:
            out[number] = i32(value)
    return out


def data_page(
    num_values: int, body: bytes, *, encoding: int = PLAIN, raw_size: int | None = None
) -> PageBytes:
    """A V1 data page; `raw_size` is what a compressed body decompresses to."""
    detail = {1: i32(num_values), 2: i32(encoding), 3: i32(RLE), 4: i32(RLE)}
    size = len(body) if raw_size is None else raw_size
    return PageBytes(
        {1: i32(DATA), 2: i32(size), 3: i32(len(body)), 5: struct(detail)}, body
    )


def data_page_v2(
    num_values: int,
    num_rows: int,
    values: bytes,
    *,
    repetition: bytes = b"",
    definition: bytes = b"",
    encoding: int = PLAIN,
) -> PageBytes:
    """An uncompressed V2 data page without nulls."""
    detail = {
        1: i32(num_values),
        2: i32(0),
        3: i32(num_rows),
        4: i32(encoding),
        5: i32(len(definition)),
        6: i32(len(repetition)),
        7: boolean(False),
    }
    body = repetition + definition + values
    size = i32(len(body))
    return PageBytes({1: i32(DATA_V2), 2: size, 3: size, 8: struct(detail)}, body)


def dictionary_page(num_values: int, body: bytes) -> PageBytes:
    size = i32(len(body))
    detail = {1: i32(num_values), 2: i32(PLAIN)}
    return PageBytes({1: i32(DICTIONARY), 2: size, 3: size, 7: struct(detail)}, body)


def rle_run(count: int, value: int, bit_width: int) -> bytes:
    """One run of equal values in the RLE/bit-packed hybrid encoding."""
    return varint(count << 1) + value.to_bytes((bit_width + 7) // 8, "little")


def one_column(
    schema: list[Struct],
    pages: Sequence[PageBytes],
    *,
    num_rows: int,
    codec: int = UNCOMPRESSED,
    root: str = "schema",
) -> ParquetBytes:
    """A file of one row group and one leaf; `schema` is what lies below the root."""
    leaf = schema[-1]
    meta: Struct = {
        1: leaf[1],
        2: listed(I32, [PLAIN, RLE, RLE_DICTIONARY]),
        3: listed(BINARY, [one[4].value for one in schema]),
        4: i32(codec),
        5: i64(sum(page.num_values for page in pages if page.kind != DICTIONARY)),
        9: i64(0),
    }
    group: Struct = {
        1: listed(STRUCT, [{2: i64(0), 3: struct(meta)}]),
        2: i64(sum(len(page.body) for page in pages)),
        3: i64(num_rows),
    }
    footer: Struct = {
        1: i32(2),
        2: listed(STRUCT, [element(root, children=1), *schema]),
        3: i64(num_rows),
        4: listed(STRUCT, [group]),
    }
    return ParquetBytes(footer, [list(pages)])


def levels(values: list[int], bit_width: int) -> bytes:
    """Levels as runs of equal values."""
    runs = ((value, len(list(run))) for value, run in itertools.groupby(values))
    return b"".join(rle_run(count, value, bit_width) for value, count in runs)


def token_levels(pieces: list[list[int]], *, mid: bool) -> tuple[bytes, bytes, bytes]:
    """Repetition levels, definition levels and PLAIN values of `token_list` rows.

    With `mid`, the first piece continues the record of the page before.
    """
    repetition, definition = [], []
    for row, piece in enumerate(pieces):
        starts = 1 if mid and row == 0 else 0
        repetition += [starts, *[1] * (len(piece) - 1)]
        definition += [2] * len(piece) or [1]
    tokens = [token for piece in pieces for token in piece]
    plain = b"".join(token.to_bytes(4, "little", signed=True) for token in tokens)
    return levels(repetition, 1), levels(definition, 2), plain


def token_page(pieces: list[list[int]], *, mid: bool = False) -> PageBytes:
    """A V1 page of `token_list` rows; an empty piece is an empty list."""
    parts = token_levels(pieces, mid=mid)
    sized = [len(part).to_bytes(4, "little") + part for part in parts[:2]]
    return data_page(sum(len(p) or 1 for p in pieces), b"".join([*sized, parts[2]]))


def token_page_v2(
    pieces: list[list[int]], *, mid: bool = False, num_rows: int | None = None
) -> PageBytes:
    """The same as a V2 page, with the true number of rows unless told otherwise."""
    repetition, definition, plain = token_levels(pieces, mid=mid)
    return data_page_v2(
        sum(len(piece) or 1 for piece in pieces),
        len(pieces) - mid if num_rows is None else num_rows,
        plain,
        repetition=repetition,
        definition=definition,
    )


def token_list(name: str = "input_ids") -> list[Struct]:
    """The schema of `list<int32>`: optional list, required elements in three levels."""
    return [
        element(name, repetition=OPTIONAL, children=1, converted=3),
        element("list", repetition=REPEATED, children=1),
        element("element", kind=INT32, repetition=REQUIRED),
    ]


def with_checksums(file: ParquetBytes) -> ParquetBytes:
    """Every page with the CRC-32 of its body."""
    for page in (page for pages in file.chunks for page in pages):
        crc = zlib.crc32(page.body)
        page.header[4] = i32(crc - (1 << 32) if crc >= 1 << 31 else crc)
    return file
