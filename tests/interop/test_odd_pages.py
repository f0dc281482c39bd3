"""Pages that today's writers do not make, put together by hand."""

import io
import itertools
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.files import (
    PageBytes,
    ParquetBytes,
    chunk_metas,
    read_footer,
    with_footer,
    with_offset_index,
)
from made.handmade import (
    BYTE_ARRAY,
    INT32,
    REQUIRED,
    RLE_DICTIONARY,
    data_page,
    data_page_v2,
    dictionary_page,
    element,
    one_column,
    rle_run,
    token_list,
    token_page,
    token_page_v2,
    with_checksums,
)
from made.thrift import encode, i32, i64
from models import golden

FLAT = [element("input_ids", kind=INT32, repetition=REQUIRED)]
Pieces = list[tuple[bool, list[list[int]]]]

# Pages as (whether it begins mid-record, pieces of records).
SPLIT: dict[str, Pieces] = {
    "aligned": [(False, [[1, 2], [3]]), (False, [[4], []]), (False, [[5, 6]])],
    "every-page": [
        (False, [[1], [2, 3]]),
        (True, [[4], [5]]),
        (True, [[6, 7], [], [8]]),
        (True, [[9]]),
    ],
    "record-over-pages": [
        (False, [[1], [2]]),
        (True, [[3, 4]]),
        (True, [[5]]),
        (True, [[6], [7, 8]]),
        (False, [[9]]),
    ],
    "one-record": [(False, [[1, 2]]), (True, [[3]]), (True, [[4, 5, 6]])],
    "ends-with-a-split": [(False, [[1]]), (False, [[2], [3]]), (True, [[4, 5]])],
    "one-piece-pages": [(at > 0 and at % 3 > 0, [[at]]) for at in range(40)],
}


def rows_of(pages: Pieces) -> list[list[int]]:
    rows: list[list[int]] = []
    for mid, pieces in pages:
        if mid:
            rows[-1] = rows[-1] + pieces[0]
        rows += pieces[1:] if mid else pieces
    return rows


def token_file(pages: list[PageBytes], num_rows: int) -> ParquetBytes:
    return one_column(token_list(), pages, num_rows=num_rows)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", sorted(SPLIT))
def test_records_split_between_pages(tmp_path: Path, name: str, version: int):
    make = token_page if version == 1 else token_page_v2
    rows = rows_of(SPLIT[name])
    pages = [make(pieces, mid=mid) for mid, pieces in SPLIT[name]]
    path = tmp_path / "split.parquet"
    path.write_bytes(with_checksums(token_file(pages, len(rows))).encode())
    index = golden.check_pages(path, "input_ids")
    begun = sum(len(pieces) > mid for mid, pieces in SPLIT[name])
    assert begun / 2 < len(index) <= len(pages)
    read = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert read == rows


@pytest.mark.parametrize("version", [1, 2])
def test_records_split_in_two_row_groups(tmp_path: Path, version: int):
    """The first page of the second row group does not continue the first one's."""
    make = token_page if version == 1 else token_page_v2
    pages = [make(pieces, mid=mid) for mid, pieces in SPLIT["every-page"]]
    rows = rows_of(SPLIT["every-page"])
    file = token_file(pages, len(rows))
    again = token_file([*pages], len(rows))
    group = again.footer[4].value[1][0]
    file.footer[4].value[1].append(group)
    file.footer[3] = i64(2 * len(rows))
    file.chunks.append(pages)
    path = tmp_path / "groups.parquet"
    path.write_bytes(file.encode())
    index = golden.check_pages(path, "input_ids")
    assert index.num_rows == 2 * len(rows)


def test_row_counts_of_old_v2_pages_are_not_believed(tmp_path: Path):
    """Arrow before version 12 wrote the number of levels, and split records too."""
    pages = [
        token_page_v2([[1], [2, 3, 4]], num_rows=4),
        token_page_v2([[5, 6], [7]], mid=True, num_rows=3),
        token_page_v2([[8], [9]], mid=True, num_rows=2),
    ]
    path = tmp_path / "lies.parquet"
    path.write_bytes(token_file(pages, 4).encode())
    assert golden.check_pages(path, "input_ids").num_values == 9


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("gap", [0, 1, 2, 3])
def test_pages_without_values(tmp_path: Path, version: int, gap: int):
    make = token_page if version == 1 else token_page_v2
    pages = [make([[1, 2], [3]]), make([[4]]), make([[5], []])]
    pages.insert(gap, make([]))
    path = tmp_path / "gap.parquet"
    path.write_bytes(token_file(pages, 5).encode())
    # pyarrow stops at an empty page, so it cannot say what is right.
    index = pagefeed.PageIndex.build(path, column="input_ids")
    read = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert read == [[1, 2], [3], [4], [5], []]
    assert (len(index), index.num_rows, index.num_values) == (3, 5, 5)


@pytest.mark.parametrize("written", ["offset", "zero", "absent"])
def test_dictionaries_that_the_footer_places_badly(tmp_path: Path, written: str):
    """The page that `data_page_offset` points to is the dictionary itself."""
    two = dictionary_page(2, (5).to_bytes(4, "little") + (9).to_bytes(4, "little"))
    indices = [
        data_page(10, b"\1" + rle_run(10, at % 2, 1), encoding=RLE_DICTIONARY)
        for at in range(3)
    ]
    data = one_column(FLAT, [two, *indices], num_rows=30).encode()
    footer = read_footer(data)
    (meta,) = chunk_metas(footer)
    if written != "offset":
        meta[9] = meta.pop(11)
    if written == "zero":
        meta[11] = i64(0)
    path = tmp_path / "dictionary.parquet"
    path.write_bytes(with_footer(data, footer))
    index = pagefeed.PageIndex.build(path, column="input_ids")
    read = [page.to_pylist() for page in golden.read_pages(index)]
    assert read == [[5] * 10, [9] * 10, [5] * 10]


def test_a_record_of_fifty_megabytes_over_fifty_pages(tmp_path: Path):
    size = (50 << 20) // 4 // 50
    raw = bytes(range(256)) * (size * 4 // 256)
    tokens = len(raw) // 4
    defined = rle_run(tokens, 2, 2)
    pages = []
    for number in range(50):
        runs = rle_run(tokens, 1, 1)
        if number == 0:
            runs = rle_run(1, 0, 1) + rle_run(tokens - 1, 1, 1)
        sized = [len(part).to_bytes(4, "little") + part for part in (runs, defined)]
        pages.append(data_page(tokens, b"".join([*sized, raw])))
    file = token_file([token_page([[7]]), *pages, token_page([[8], [9]])], 4)
    path = tmp_path / "record.parquet"
    path.write_bytes(file.encode())
    index = golden.check_pages(path, "input_ids")
    assert index.num_values == 50 * tokens + 3


@dataclass
class StampedPage(PageBytes):
    """A page whose header is encoded already."""

    stamp: bytes

    def encode(self) -> bytes:
        return self.stamp + self.body


@pytest.fixture(scope="module")
def tiny_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred thousand pages of one number, with and without an offset index."""
    folder = tmp_path_factory.mktemp("tiny")
    one = data_page(1, bytes(4))
    stamp = encode(one.header)
    pages = [
        StampedPage(one.header, number.to_bytes(4, "little"), stamp)
        for number in range(100_000)
    ]
    data = one_column(FLAT, pages, num_rows=len(pages)).encode()
    (folder / "walked.parquet").write_bytes(data)
    size = len(pages[0].encode())
    locations = [
        {1: i64(4 + size * row), 2: i32(size), 3: i64(row)} for row in range(len(pages))
    ]
    indexed = with_offset_index(data, "input_ids", locations)
    (folder / "indexed.parquet").write_bytes(indexed)
    return folder


@pytest.mark.parametrize("name", ["walked", "indexed"])
def test_a_hundred_thousand_pages_in_one_chunk(tiny_pages: Path, name: str):
    path = tiny_pages / f"{name}.parquet"
    index = pagefeed.PageIndex.build(path, column="input_ids")
    assert len(index) == index.num_rows == index.num_values == 100_000
    assert set(index.page_rows) == set(index.page_values) == {1}
    for at in (*range(0, 100_000, 97), 32_767, 32_768, 65_535, 65_536, 99_999):
        page = index.locate(at)
        assert (page.row_group, page.page, page.first_row) == (0, at, at)
        assert pa.array(index.read_page(at)).to_pylist() == [at]


HUGE_PAGES, HUGE_PAGE = 2100, 1 << 20


def check_huge(data: bytes, path: Path, num_rows: int, tokens: bool) -> None:
    """Over 2^31 values in a chunk; page i holds the value i modulo 256."""
    path.write_bytes(data)
    assert len(data) < 1 << 20
    index = pagefeed.PageIndex.build(path, column="input_ids")
    assert index.num_values == HUGE_PAGES * HUGE_PAGE > 1 << 31
    assert (len(index), index.num_rows) == (HUGE_PAGES, num_rows)
    assert set(index.page_values.tolist()) == {HUGE_PAGE}
    for at in (0, 1, 1023, 2047, 2048, HUGE_PAGES - 1):
        page = pa.array(index.read_page(at))
        assert index.locate(at).first_row == at * (num_rows // HUGE_PAGES)
        assert len(page) == num_rows // HUGE_PAGES
        values = page.flatten() if tokens else page
        assert len(values) == HUGE_PAGE
        assert pc.min_max(values).as_py() == {"min": at % 256, "max": at % 256}


def all_bytes_dictionary() -> PageBytes:
    return dictionary_page(
        256, b"".join(value.to_bytes(4, "little") for value in range(256))
    )


@pytest.mark.parametrize("version", [1, 2])
def test_two_billion_numbers_in_a_chunk(tmp_path: Path, version: int):
    pages = [all_bytes_dictionary()]
    for number in range(HUGE_PAGES):
        body = b"\x08" + rle_run(HUGE_PAGE, number % 256, 8)
        if version == 1:
            pages.append(data_page(HUGE_PAGE, body, encoding=RLE_DICTIONARY))
        else:
            page = data_page_v2(HUGE_PAGE, HUGE_PAGE, body, encoding=RLE_DICTIONARY)
            pages.append(page)
    num_rows = HUGE_PAGES * HUGE_PAGE
    data = one_column(FLAT, pages, num_rows=num_rows).encode()
    check_huge(data, tmp_path / "numbers.parquet", num_rows, tokens=False)


@pytest.mark.parametrize("version", [1, 2])
def test_two_billion_tokens_in_a_chunk(tmp_path: Path, version: int):
    """Four records of 262,144 tokens in each page."""
    row = rle_run(1, 0, 1) + rle_run(HUGE_PAGE // 4 - 1, 1, 1)
    repetition, definition = row * 4, rle_run(HUGE_PAGE, 2, 2)
    pages = [all_bytes_dictionary()]
    for number in range(HUGE_PAGES):
        body = b"\x08" + rle_run(HUGE_PAGE, number % 256, 8)
        if version == 1:
            sized = [len(p).to_bytes(4, "little") + p for p in (repetition, definition)]
            whole = b"".join([*sized, body])
            pages.append(data_page(HUGE_PAGE, whole, encoding=RLE_DICTIONARY))
        else:
            page = data_page_v2(
                HUGE_PAGE,
                4,
                body,
                repetition=repetition,
                definition=definition,
                encoding=RLE_DICTIONARY,
            )
            pages.append(page)
    data = token_file(pages, 4 * HUGE_PAGES).encode()
    check_huge(data, tmp_path / "tokens.parquet", 4 * HUGE_PAGES, tokens=True)


def test_over_two_gigabytes_of_text_in_a_chunk(tmp_path: Path):
    """Each page refers a hundred times to one of two texts of a megabyte."""
    texts = [letter * (1 << 20) for letter in (b"a", b"b")]
    body = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    pages = [dictionary_page(2, body)]
    pages += [
        data_page(100, b"\1" + rle_run(100, at % 2, 1), encoding=RLE_DICTIONARY)
        for at in range(25)
    ]
    schema = [element("text", kind=BYTE_ARRAY, repetition=REQUIRED, converted=0)]
    path = tmp_path / "text.parquet"
    path.write_bytes(one_column(schema, pages, num_rows=2500).encode())
    index = pagefeed.PageIndex.build(path, column="text")
    assert len(index) == 25
    for at in (0, 1, 24):
        page = pa.array(index.read_page(at))
        assert len(page) == 100
        assert {page[0].as_py(), page[99].as_py()} == {texts[at % 2].decode()}


def test_what_is_made_by_hand_is_what_pyarrow_reads():
    """The hand-made pages themselves are right."""
    for name, version in itertools.product(SPLIT, (1, 2)):
        make = token_page if version == 1 else token_page_v2
        pages = [make(pieces, mid=mid) for mid, pieces in SPLIT[name]]
        rows = rows_of(SPLIT[name])
        data = token_file(pages, len(rows)).encode()
        assert pq.read_table(io.BytesIO(data)).column(0).to_pylist() == rows
