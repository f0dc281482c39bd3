"""Counts beside the data that lie: level histograms and null counts.

The index may take the number of values from them; then reading must find out.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from made import thrift
from made.files import (
    DICTIONARY,
    PageBytes,
    ParquetBytes,
    column_chunks,
    footer_offset,
    offset_index,
    read_footer,
    with_footer,
)
from made.thrift import I64, Field, Struct, i32, i64
from models.probing import Job, assert_all, probe

REPETITION, DEFINITION = 6, 7  # fields of the ColumnIndex


def column_index(data: bytes, column: str) -> Struct:
    chunk = column_chunks(read_footer(data), column)[0]
    found: Struct = thrift.decode(data, int(chunk[6].value))[0]
    return found


def with_column_index(data: bytes, column: str, index: Struct) -> bytes:
    """The file with another column index for the first chunk of a column."""
    footer = read_footer(data)
    chunk = column_chunks(footer, column)[0]
    encoded = thrift.encode(index)
    chunk[6], chunk[7] = i64(footer_offset(data)), i32(len(encoded))
    return with_footer(data, footer, before=encoded)


def moved(field: int, level: int, levels: int, by: int) -> Callable[[Struct], None]:
    """Some of a level's count moved from the first page to the second."""

    def change(index: Struct) -> None:
        counts = index[field].value[1]
        counts[level] -= by
        counts[levels + level] += by

    return change


def recounted(field: int, count: int) -> Callable[[Struct], None]:
    """One level more counted in the first page, one less of the level below."""

    def change(index: Struct) -> None:
        counts = index[field].value[1]
        counts[0] -= count
        counts[1] += count

    return change


def relisted(field: int, change: Callable[[list[int]], list[int]]):
    def apply(index: Struct) -> None:
        kind, counts = index[field].value
        index[field] = Field(thrift.LIST, (kind, change(counts)))

    return apply


LISTS: dict[str, Callable[[Struct], None]] = {
    "row-moved": moved(REPETITION, 0, 2, 1),
    "token-moved": moved(DEFINITION, 3, 4, 1),
    "tokens-moved-back": moved(DEFINITION, 3, 4, -2),
    "row-for-token": recounted(REPETITION, 1),
    "null-for-empty": recounted(DEFINITION, 1),
    "all-zero": relisted(DEFINITION, lambda counts: [0] * len(counts)),
    "negative": relisted(DEFINITION, lambda counts: [-one for one in counts]),
    "huge": relisted(DEFINITION, lambda counts: [(1 << 63) - 1] * len(counts)),
    "short": relisted(DEFINITION, lambda counts: counts[:-1]),
    "long": relisted(REPETITION, lambda counts: counts * 2),
    "none": relisted(DEFINITION, lambda _: []),
    "reversed": relisted(DEFINITION, lambda counts: counts[::-1]),
}
FLAT: dict[str, Callable[[Struct], None]] = {
    "no-nulls": relisted(5, lambda counts: [0] * len(counts)),
    "all-nulls": relisted(5, lambda counts: [one + 3 for one in counts]),
    "null-moved": relisted(
        5, lambda counts: [counts[0] - 1, counts[1] + 1, *counts[2:]]
    ),
    "negative": relisted(5, lambda counts: [-1] * len(counts)),
    "value-moved": moved(DEFINITION, 1, 2, 1),
    "none-defined": relisted(DEFINITION, lambda counts: [0] * len(counts)),
}


@pytest.mark.parametrize("kind", ["v1-zstd-index", "v2-lz4-crc"])
def test_histograms_of_the_column_index(
    sound: dict[str, Path], tmp_path: Path, kind: str
):
    data = sound[kind].read_bytes()
    jobs = []
    for column, changes in (("input_ids", LISTS), ("number", FLAT)):
        for name, change in changes.items():
            index = column_index(data, column)
            change(index)
            path = tmp_path / f"{column}-{name}.parquet"
            path.write_bytes(with_column_index(data, column, index))
            jobs.append(Job(path=path, column=column, expected=sound[kind]))
    assert_all(probe(jobs), {"same"})


@pytest.mark.parametrize("count", [-1, 0, 1, 59, 60, 1 << 40])
@pytest.mark.parametrize("kind", ["v1", "v2-snappy", "v1-zstd-index", "v2-lz4-crc"])
def test_null_counts_of_chunks(
    sound: dict[str, Path], tmp_path: Path, kind: str, count: int
):
    data = sound[kind].read_bytes()
    jobs = []
    for column in ("number", "word", "input_ids"):
        footer = read_footer(data)
        for chunk in column_chunks(footer, column):
            chunk[3].value[12].value[3] = Field(I64, count)
        path = tmp_path / f"{column}.parquet"
        path.write_bytes(with_footer(data, footer))
        jobs.append(Job(path=path, column=column, expected=sound[kind]))
    assert_all(probe(jobs), {"same"})


@pytest.mark.parametrize("count", [-1, 0, 1, 16, 1 << 40])
@pytest.mark.parametrize("kind", ["v1", "v2-snappy"])
def test_null_counts_of_pages(
    sound: dict[str, Path], tmp_path: Path, kind: str, count: int
):
    """In the statistics of a page header, and the V2 header's own."""
    file = ParquetBytes.parse(sound[kind].read_bytes())
    for page in (page for pages in file.chunks for page in pages):
        statistics = page.detail.get(8 if kind.startswith("v2") else 5)
        if statistics is not None and page.kind != DICTIONARY:
            statistics.value[3] = Field(I64, count)
        if kind.startswith("v2") and page.kind != DICTIONARY:
            page.detail[2] = i32(min(count, 16))
    path = tmp_path / "nulls.parquet"
    path.write_bytes(file.encode())
    jobs = [
        Job(path=path, column=column, expected=sound[kind])
        for column in ("number", "word", "input_ids")
    ]
    assert_all(probe(jobs), {"same"})


@pytest.mark.parametrize("column", ["input_ids", "plain", "text", "number"])
@pytest.mark.parametrize("kind", ["v1-zstd-index", "v2-lz4-crc"])
def test_page_headers_that_count_less_than_the_index(
    sound: dict[str, Path], tmp_path: Path, kind: str, column: str
):
    """One page of a few values less: its last row would be cut short unseen."""
    data = sound[kind].read_bytes()
    first = column_chunks(read_footer(data), column)[0]
    jobs = []
    for number, location in enumerate(offset_index(data, first)):
        at = int(location[1].value)
        header, body = thrift.decode(data, at)
        page = PageBytes(header, b"")
        for less in (1, 2, 5):
            page.detail[1] = i32(max(0, page.num_values - less))
            encoded = page.encode()
            if len(encoded) == body - at:
                path = tmp_path / f"page-{number}-{page.num_values}.parquet"
                path.write_bytes(data[:at] + encoded + data[body:])
                jobs.append(Job(path=path, column=column, expected=sound[kind]))
    assert len(jobs) > 2
    assert_all(probe(jobs), {"same"})
