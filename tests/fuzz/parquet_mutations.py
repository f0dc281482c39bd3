"""Parquet files made wrong: bits, footers, headers, levels, page indexes, claims."""

import random
from collections.abc import Iterator
from typing import Any

from made import thrift
from made.damage import NUMBERS, Damage, bytes_changed, pieces
from made.files import (
    DICTIONARY,
    ParquetBytes,
    chunk_metas,
    column_chunks,
    footer_offset,
    read_footer,
    with_footer,
)
from made.thrift import Field, Struct, i32, i64, varint

INTEGERS = (thrift.BYTE, thrift.I16, thrift.I32, thrift.I64)
BITS = {thrift.BYTE: 8, thrift.I16: 16, thrift.I32: 32, thrift.I64: 64}


def fields_of(struct: Struct) -> Iterator[tuple[Struct, int]]:
    """Every field at any depth, as its struct and its number."""
    for number, (kind, value) in list(struct.items()):
        yield struct, number
        if kind == thrift.STRUCT:
            yield from fields_of(value)
        elif kind == thrift.LIST and value[0] == thrift.STRUCT:
            for one in value[1]:
                yield from fields_of(one)


def change_field(struct: Struct, draw: random.Random) -> None:
    """One field of a struct becomes another, or is gone."""
    holder, number = draw.choice(list(fields_of(struct)))
    kind, value = holder[number]
    if draw.random() < 0.1:
        del holder[number]
    elif kind in INTEGERS:
        changed = draw.choice([*NUMBERS, value + 1, value - 1, value * 2, -value])
        half = 1 << (BITS[kind] - 1)
        holder[number] = Field(kind, (changed + half) % (2 * half) - half)
    elif kind == thrift.BINARY:
        holder[number] = Field(kind, bytes_changed(value, draw) if value else b"\xff")
    elif kind == thrift.LIST:
        holder[number] = Field(kind, (value[0], changed_list(value[0], value[1], draw)))
    elif kind in (thrift.TRUE, thrift.FALSE):
        holder[number] = thrift.boolean(not value)


def changed_list(kind: int, values: list[Any], draw: random.Random) -> list[Any]:
    if kind in INTEGERS and values and draw.random() < 0.7:
        at = draw.randrange(len(values))
        half = 1 << (BITS[kind] - 1)
        number = draw.choice([*NUMBERS, values[at] + 1])
        number = (number + half) % (2 * half) - half
        return [*values[:at], number, *values[at + 1 :]]
    return draw.choice([values[:-1], values[1:], values * 2, values[::-1], []])


def footer(data: bytes, draw: random.Random) -> bytes:
    changed = read_footer(data)
    for _ in range(draw.choice([1, 1, 2])):
        change_field(changed, draw)
    return with_footer(data, changed)


def page_header(data: bytes, draw: random.Random) -> bytes:
    file = ParquetBytes.parse(data)
    pages = [page for chunk in file.chunks for page in chunk]
    before = draw.random() < 0.5  # Sizes by the old header, or by the new one.
    page = draw.choice(pages)
    change_field(page.header, draw)
    if before and 3 in page.header:
        page.header[3] = i32(len(page.body))
    return file.encode()


def levels(data: bytes, draw: random.Random) -> bytes:
    """Runs of levels or of indices that are longer than their page."""
    file = ParquetBytes.parse(data)
    page = draw.choice([page for chunk in file.chunks for page in chunk])
    run = varint(draw.choice([0, 1, 2, 9, 1 << 20, 1 << 33]) << 1 | draw.randrange(2))
    at = draw.randrange(min(24, len(page.body)) + 1)
    page.body = page.body[:at] + run + page.body[at + draw.choice([0, len(run)]) :]
    page.header[3] = i32(len(page.body))
    if draw.random() < 0.7:
        page.header[2] = i32(len(page.body))
    return file.encode()


def claims(data: bytes, draw: random.Random) -> bytes:
    """Counts of values and rows that are the same lie everywhere."""
    file = ParquetBytes.parse(data)
    count = draw.choice([1 << 10, 1 << 20, 1 << 28, (1 << 31) - 1])
    metas = chunk_metas(file.footer)
    number = draw.randrange(len(metas))
    for page in file.chunks[number]:
        if page.kind != DICTIONARY:
            page.detail[1] = i32(count)
            if 3 in page.detail and page.kind == 3:
                page.detail[3] = i32(draw.choice([count, 1]))
            if draw.random() < 0.3:
                page.body = page.body[: draw.randrange(len(page.body) + 1)]
                page.header[3] = i32(len(page.body))
    metas[number][5] = i64(count * len(file.chunks[number]))
    if draw.random() < 0.5:
        file.chunks[number] = [p for p in file.chunks[number] if p.kind != DICTIONARY]
        metas[number].pop(11, None)
    if draw.random() < 0.5:
        for group in file.footer[4].value[1]:
            group[3] = i64(draw.choice([count, 1]))
    return file.encode()


def encoding(data: bytes, draw: random.Random) -> bytes:
    """A page said to be encoded, or compressed, in another way."""
    file = ParquetBytes.parse(data)
    page = draw.choice([page for chunk in file.chunks for page in chunk])
    place = 4 if page.kind == 3 else 2
    page.detail[place] = i32(draw.choice([0, 2, 3, 4, 5, 6, 7, 8, 9, 10]))
    if draw.random() < 0.3:
        draw.choice(chunk_metas(file.footer))[4] = i32(draw.randrange(9))
    return file.encode()


def page_index(data: bytes, draw: random.Random) -> bytes:
    """A column index or an offset index with a field changed, or where another is."""
    changed = read_footer(data)
    chunks = [chunk for chunk in column_chunks(changed) if 4 in chunk and 6 in chunk]
    if not chunks:
        return footer(data, draw)
    chunk = draw.choice(chunks)
    place = draw.choice([4, 6])
    if draw.random() < 0.3:
        other = draw.choice(chunks)
        chunk[place], chunk[place + 1] = other[place], other[place + 1]
        return with_footer(data, changed)
    struct = thrift.decode(data, int(chunk[place].value))[0]
    change_field(struct, draw)
    encoded = thrift.encode(struct)
    chunk[place], chunk[place + 1] = i64(footer_offset(data)), i32(len(encoded))
    return with_footer(data, changed, before=encoded)


MUTATIONS: dict[str, Damage] = {
    "bytes": bytes_changed,
    "pieces": pieces,
    "footer": footer,
    "header": page_header,
    "levels": levels,
    "claims": claims,
    "encoding": encoding,
    "index": page_index,
}
