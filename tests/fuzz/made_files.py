"""Tiny files that claim much: a column of one page, whose body stands for any count."""

import random
from collections.abc import Callable

from made.files import PageBytes
from made.handmade import (
    BYTE_ARRAY,
    FIXED,
    INT32,
    INT64,
    OPTIONAL,
    REQUIRED,
    ZSTD,
    data_page,
    data_page_v2,
    dictionary_page,
    element,
    one_column,
    rle_run,
    token_list,
)
from made.thrift import i32, varint, zigzag

COUNTS = [3, 1 << 10, 1 << 20, 1 << 26, 1 << 28, (1 << 31) - 1]
PLAIN, RLE, DELTA, DELTA_LENGTH, DELTA_BYTES, SPLIT, DICTIONARY = 0, 3, 5, 6, 7, 9, 8


def delta(count: int, draw: random.Random, *, first: int = 0, step: int = 0) -> bytes:
    """A delta-encoded run of so many numbers, each ``step`` above the one before."""
    block = draw.choice([128, 128, 1 << 16, 1 << 30])
    header = varint(block) + varint(draw.choice([4, 4, 1])) + varint(count)
    blocks = (zigzag(step) + bytes(4)) * draw.choice([0, 1, 9, 4096])
    return header + zigzag(first) + blocks


def lengths(count: int, draw: random.Random) -> bytes:
    first = draw.choice([0, 1, 100, 1 << 20, 1 << 30])
    return delta(count, draw, first=first, step=draw.choice([0, 0, 1, 1 << 20]))


def prefixed(count: int, draw: random.Random) -> bytes:
    """Prefixes as long as all before, and suffixes: a few bytes stand for very many."""
    size = draw.choice([0, 1, 1000])
    text = bytes(size) * draw.choice([0, 1, 5])
    suffixes = delta(count, draw, first=size) + text
    return delta(count, draw, first=0, step=size) + suffixes


BODIES: dict[int, Callable[[int, random.Random], bytes]] = {
    PLAIN: lambda _count, draw: bytes(draw.choice([0, 12, 4096])),
    RLE: lambda count, _: rle_run(count, 1, 1),
    DELTA: delta,
    DELTA_LENGTH: lambda count, draw: lengths(count, draw) + bytes(64),
    DELTA_BYTES: prefixed,
    SPLIT: lambda _count, draw: bytes(draw.choice([0, 4, 64])),
    DICTIONARY: lambda count, draw: (
        bytes([draw.choice([0, 1, 8, 32])]) + rle_run(count, draw.choice([0, 1]), 1)
    ),
}


def made(column: str, draw: random.Random) -> bytes:
    """A file whose page claims a count of values, nulls or rows."""
    count = draw.choice(COUNTS)
    encoding = draw.choice(list(BODIES))
    body = BODIES[encoding](draw.choice([count, count, 2]), draw)
    shape = draw.choice(["required", "optional", "list"])
    if shape == "list":
        definition = rle_run(count, draw.choice([0, 1, 2]), 2)
        repetition = rle_run(count, draw.choice([0, 0, 1]), 1)
        schema = token_list(column)
    else:
        kind = draw.choice([INT32, INT64, BYTE_ARRAY, FIXED])
        is_required = shape == "required"
        repetition = b""
        definition = b"" if is_required else rle_run(count, draw.choice([0, 1]), 1)
        place = REQUIRED if is_required else OPTIONAL
        leaf = element(column, kind=kind, repetition=place)
        if kind == FIXED:
            leaf[2] = i32(draw.choice([1, 16, 1 << 20, 1 << 30]))
        schema = [leaf]
    page = page_of(count, repetition, definition, body, encoding, draw)
    pages = [page] * draw.choice([1, 1, 3])
    if draw.random() < 0.5:
        pages = [dictionary_page(draw.choice([1, 2, count]), bytes(8)), *pages]
    rows = draw.choice([count, count, 1])
    codec = ZSTD if draw.random() < 0.1 else 0
    return one_column(schema, pages, num_rows=rows * len(pages), codec=codec).encode()


def page_of(
    count: int,
    repetition: bytes,
    definition: bytes,
    body: bytes,
    encoding: int,
    draw: random.Random,
) -> PageBytes:
    if draw.random() < 0.5:
        return data_page_v2(
            count,
            draw.choice([count, 1]),
            body,
            repetition=repetition,
            definition=definition,
            encoding=encoding,
        )
    sized = [
        len(part).to_bytes(4, "little") + part
        for part in (repetition, definition)
        if part
    ]
    return data_page(count, b"".join([*sized, body]), encoding=encoding)
