"""Wrong offset indexes: the right values or a typed error, never other rows."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import pagefeed
from made import thrift
from made.files import (
    ParquetBytes,
    column_chunks,
    footer_offset,
    offset_index,
    read_footer,
    with_footer,
    with_offset_index,
)
from made.handmade import (
    INT32,
    REQUIRED,
    data_page,
    element,
    one_column,
    token_list,
    token_page,
    token_page_v2,
)
from made.thrift import Struct, i32, i64
from models.probing import Job, assert_all, probe
from pagefeed import Documents, Loader, Packed, Windows
from pagefeed.core.sequences import Cut
from pagefeed.errors import CorruptFileError

Locations = list[Struct]
COLUMNS = ["input_ids", "text"]


def add(locations: Locations, number: int, by: int, *, start: int = 0) -> Locations:
    for one in locations[start:]:
        one[number] = one[number]._replace(value=one[number].value + by)
    return locations


def put(locations: Locations, at: int, number: int, value: int) -> Locations:
    locations[at][number] = locations[at][number]._replace(value=value)
    return locations


def swapped(locations: Locations) -> Locations:
    locations[1], locations[2] = locations[2], locations[1]
    return locations


def swapped_places(locations: Locations) -> Locations:
    first, second = locations[1], locations[2]
    for number in (1, 2):
        first[number], second[number] = second[number], first[number]
    return locations


WRONG: dict[str, Callable[[Locations], Locations]] = {
    "rows-one-later": lambda found: add(found, 3, 1, start=1),
    "rows-one-earlier": lambda found: add(found, 3, -1, start=1),
    "rows-from-one": lambda found: add(found, 3, 1),
    "last-rows-later": lambda found: add(found, 3, 1, start=-1),
    "rows-negative": lambda found: put(found, 1, 3, -5),
    "rows-huge": lambda found: put(found, -1, 3, 1 << 62),
    "rows-equal": lambda found: put(found, 2, 3, found[1][3].value),
    "offsets-later": lambda found: add(found, 1, 1),
    "offsets-earlier": lambda found: add(found, 1, -1),
    "one-offset-later": lambda found: add(found, 1, 3, start=-1),
    "offset-negative": lambda found: put(found, 1, 1, -1),
    "offset-huge": lambda found: put(found, 1, 1, (1 << 63) - 1),
    "offset-zero": lambda found: put(found, 0, 1, 0),
    "sizes-larger": lambda found: add(found, 2, 1),
    "sizes-smaller": lambda found: add(found, 2, -1),
    "size-zero": lambda found: put(found, 1, 2, 0),
    "size-negative": lambda found: put(found, 1, 2, -1),
    "size-huge": lambda found: put(found, 1, 2, (1 << 31) - 1),
    "without-first": lambda found: found[1:],
    "without-second": lambda found: [found[0], *found[2:]],
    "without-last": lambda found: found[:-1],
    "twice": lambda found: [*found, *found],
    "repeated-page": lambda found: [found[0], *found],
    "swapped": swapped,
    "swapped-places": swapped_places,
    "same-place": lambda found: put(found, 1, 1, found[0][1].value),
    "reversed": lambda found: found[::-1],
    "only-first": lambda found: found[:1],
    "none": lambda _: [],
}


@pytest.mark.parametrize("kind", ["v1-zstd-index", "v2-lz4-crc"])
def test_wrong_offset_indexes(sound: dict[str, Path], tmp_path: Path, kind: str):
    data = sound[kind].read_bytes()
    jobs = []
    for column in COLUMNS:
        chunk = column_chunks(read_footer(data), column)[0]
        assert len(offset_index(data, chunk)) > 3
        for name, change in WRONG.items():
            path = tmp_path / f"{name}-{column}.parquet"
            locations = change(offset_index(data, chunk))
            path.write_bytes(with_offset_index(data, column, locations))
            jobs.append(Job(path=path, column=column, expected=sound[kind]))
    outcomes = probe(jobs)
    assert_all(outcomes, {"same"})
    assert any(one.typed for one in outcomes)


@pytest.mark.parametrize("number", [4, 5])
def test_offset_indexes_out_of_the_file(
    sound: dict[str, Path], tmp_path: Path, number: int
):
    """Where the footer says that the index lies: 4 its offset, 5 its length."""
    data = sound["v1-zstd-index"].read_bytes()
    jobs = []
    for value in (-(1 << 31), -1, 0, 1, 5, len(data) - 1, (1 << 31) - 1):
        footer = read_footer(data)
        for chunk in column_chunks(footer, "text"):
            chunk[number] = chunk[number]._replace(value=value)
        path = tmp_path / f"{value}.parquet"
        path.write_bytes(with_footer(data, footer))
        jobs.append(Job(path=path, column="text", expected=sound["v1-zstd-index"]))
    assert_all(probe(jobs), {"same"})


def test_offset_indexes_of_random_bytes(sound: dict[str, Path], tmp_path: Path):
    """Among them lists of a billion pages."""
    data = sound["v1-zstd-index"].read_bytes()
    draw = random.Random(1)
    blobs = [draw.randbytes(draw.randrange(1, 99)) for _ in range(60)]
    blobs += [
        bytes([1 << 4 | thrift.LIST]) + thrift.list_header(thrift.STRUCT, count)
        for count in (1 << 20, (1 << 31) - 1, 1 << 40)
    ]
    jobs = []
    for number, blob in enumerate(blobs):
        footer = read_footer(data)
        for chunk in column_chunks(footer, "text"):
            chunk[4], chunk[5] = i64(footer_offset(data)), i32(len(blob))
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(with_footer(data, footer, before=blob))
        jobs.append(Job(path=path, column="text", expected=sound["v1-zstd-index"]))
    assert_all(probe(jobs), {"same"})


def mid_record_file(version: int) -> ParquetBytes:
    """Pages that begin in the middle of a record, which an offset index rules out."""
    page = token_page if version == 1 else token_page_v2
    pages = [
        page([[1, 2], [3]]),
        page([[4, 5], [6, 7]], mid=True),
        page([[8], [9, 10], []], mid=True),
        page([[11]]),
    ]
    return one_column(token_list(), pages, num_rows=6)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("rows", [[0, 2, 3, 5], [0, 2, 4, 6], [0, 1, 2, 5]])
def test_offset_indexes_over_split_records(
    tmp_path: Path, version: int, rows: list[int]
):
    """What a writer that ignores the rule makes: arrow-go did for years."""
    data = mid_record_file(version).encode()
    walked, at = [], 4
    for page in mid_record_file(version).chunks[0]:
        size = len(page.encode())
        walked.append((at, size))
        at += size
    locations = [
        {1: i64(offset), 2: i32(size), 3: i64(row)}
        for (offset, size), row in zip(walked, rows, strict=True)
    ]
    plain, indexed = tmp_path / "plain.parquet", tmp_path / "indexed.parquet"
    plain.write_bytes(data)
    indexed.write_bytes(with_offset_index(data, "input_ids", locations))
    jobs = [
        Job(path=plain, column="input_ids", expected=plain),
        Job(path=indexed, column="input_ids", expected=plain),
        Job(
            path=indexed,
            column="input_ids",
            expected=plain,
            options={"page_index": False},
        ),
    ]
    without, trusted, ignored = probe(jobs)
    assert without.outcome == ignored.outcome == "same"
    assert_all([trusted], {"same"})


@pytest.mark.parametrize("column", COLUMNS)
def test_sizes_without_headers_are_read_by_headers(
    sound: dict[str, Path], tmp_path: Path, column: str
):
    data = sound["v1-zstd-index"].read_bytes()
    found = offset_index(data, column_chunks(read_footer(data), column)[0])
    for location in found:
        location[2] = i32(location[2].value - 20)
    path = tmp_path / "without.parquet"
    path.write_bytes(with_offset_index(data, column, found))
    [outcome] = probe([Job(path=path, column=column, expected=sound["v1-zstd-index"])])
    assert outcome.outcome == "same", str(outcome)
    assert len(pagefeed.PageIndex.build(path, column=column)) > 1


def flat_file(tmp_path: Path, rows: list[int]) -> Path:
    """Three pages of 12, 10 and 8 rows, indexed as beginning with `rows`."""
    numbers, pages, at = iter(range(30)), [], 0
    for count in (12, 10, 8):
        values = [next(numbers) for _ in range(count)]
        body = b"".join(value.to_bytes(4, "little") for value in values)
        pages.append(data_page(count, body))
    schema = [element("number", kind=INT32, repetition=REQUIRED)]
    file = one_column(schema, pages, num_rows=30)
    locations, at = [], 4
    for page, row in zip(pages, rows, strict=True):
        size = len(page.encode())
        locations.append({1: i64(at), 2: i32(size), 3: i64(row)})
        at += size
    path = tmp_path / f"{rows}.parquet"
    path.write_bytes(with_offset_index(file.encode(), "number", locations))
    return path


@pytest.mark.parametrize("rows", [[0, 10, 20], [0, 14, 22], [0, 12, 20]])
def test_pages_of_flat_columns_hold_what_the_index_says(
    tmp_path: Path, rows: list[int]
):
    path = flat_file(tmp_path, rows)
    index = pagefeed.PageIndex.build(path, column="number")
    sound = [12, 10, 8]
    bounds = [*rows, 30]
    for page, (first, end) in enumerate(itertools.pairwise(bounds)):
        if end - first == sound[page]:
            assert len(index.read_page(page)) == sound[page]
            continue
        for read in (index.read_page, index.row_offsets):
            with pytest.raises(CorruptFileError, match="page_index=False") as caught:
                read(page)
            error = caught.value
            assert (error.file, error.row_group) == (str(path), 0)
            assert (error.column, error.page) == ("number", page)
    again = pagefeed.PageIndex.build(path, column="number", page_index=False)
    assert again.page_rows.tolist() == sound
    assert len(again.read_page(0)) == 12


@pytest.mark.parametrize(
    "sequences", [Windows(5), Packed(5), Documents(columns=["number"])]
)
def test_loaders_refuse_flat_pages_of_other_rows(tmp_path: Path, sequences: Cut):
    path = flat_file(tmp_path, [0, 10, 20])
    data = pagefeed.parquet(path, column="number")
    with pytest.raises(CorruptFileError, match="rows were expected"):
        list(Loader(data, sequences=sequences, batch_size=1, shuffle=None))
