"""Page headers that lie, pages that expand without end: limits before allocation."""

import functools
import gzip
import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import pagefeed
from made import thrift
from made.files import DATA, DATA_V2, DICTIONARY, PageBytes, ParquetBytes
from made.handmade import (
    BROTLI,
    BYTE_ARRAY,
    GZIP,
    INT32,
    LZ4_RAW,
    OPTIONAL,
    REQUIRED,
    RLE_DICTIONARY,
    SNAPPY,
    ZSTD,
    data_page,
    dictionary_page,
    element,
    one_column,
    rle_run,
    token_list,
    token_page,
    token_page_v2,
)
from made.thrift import i32
from models.probing import Job, assert_all, probe
from pagefeed.errors import CorruptFileError

FLAT = [element("input_ids", kind=INT32, repetition=REQUIRED)]
NULLABLE = [element("input_ids", kind=INT32, repetition=OPTIONAL)]
TEXT = [element("input_ids", kind=BYTE_ARRAY, repetition=REQUIRED, converted=0)]
CODECS = {
    GZIP: "gzip",
    BROTLI: "brotli",
    ZSTD: "zstd",
    SNAPPY: "snappy",
    LZ4_RAW: "lz4_raw",
}


def job(folder: Path, name: str, data: bytes, expected: Path | None = None) -> Job:
    path = folder / f"{name}.parquet"
    path.write_bytes(data)
    return Job(path=path, column="input_ids", expected=expected)


def refused(folder: Path, files: dict[str, bytes]) -> None:
    assert_all(probe([job(folder, name, data) for name, data in files.items()]), set())


@functools.cache
def compressed(codec: int, raw: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(raw, 1)
    return bytes(pa.Codec(CODECS[codec]).compress(raw))


NUMBERS = [-(1 << 31), -1, 0, 1, 1 << 20, 1 << 30, (1 << 31) - 1]


KINDS_OF_V2 = ["v2-snappy", "v2-lz4-crc"]
FIELDS_OF_V2 = ["nulls", "rows", "def", "rep"]
FIELDS_OF_ALL = ["raw_size", "size", "values", "encoding"]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *itertools.product(["v1", "v1-zstd-index", *KINDS_OF_V2], FIELDS_OF_ALL),
        *itertools.product(KINDS_OF_V2, FIELDS_OF_V2),
    ],
)
def test_numbers_of_a_page_header(
    sound: dict[str, Path], tmp_path: Path, kind: str, field: str
):
    """One number of one header changed: the right values or a typed error."""
    jobs = []
    for kind_of_page in (DATA, DATA_V2, DICTIONARY):
        for number in NUMBERS:
            file = ParquetBytes.parse(sound[kind].read_bytes())
            pages = [page for page in file.chunks[0] if page.kind == kind_of_page]
            if not pages or not change(pages[-1], field, number):
                continue
            name = f"{kind_of_page}-{number}"
            jobs.append(job(tmp_path, name, file.encode(), sound[kind]))
    assert_all(probe(jobs), {"same"})


def change(page: PageBytes, field: str, number: int) -> bool:
    """Change a number of the header, or say that this kind of page has none."""
    v2 = {"nulls": 2, "rows": 3, "encoding": 4, "def": 5, "rep": 6}
    detail = {"values": 1, **(v2 if page.kind == DATA_V2 else {"encoding": 2})}
    if field in ("raw_size", "size"):
        page.header[2 if field == "raw_size" else 3] = i32(number)
    elif field in detail and page.detail[detail[field]].value != number:
        page.detail[detail[field]] = i32(number)
    else:
        return False
    return True


@dataclass
class LackingPage(PageBytes):
    """A page whose header is stored without one of its fields."""

    lacks: int

    def encode(self) -> bytes:
        kept = {number: f for number, f in self.header.items() if number != self.lacks}
        return thrift.encode(kept) + self.body


@pytest.mark.parametrize("kind", ["v1", "v2-snappy"])
def test_missing_parts_of_a_page_header(
    sound: dict[str, Path], tmp_path: Path, kind: str
):
    files = {}
    for number in (1, 2, 3, 5, 7, 8):
        file = ParquetBytes.parse(sound[kind].read_bytes())
        if any(number in page.header for page in file.chunks[0]):
            file.chunks[0] = [
                LackingPage(page.header, page.body, number) for page in file.chunks[0]
            ]
            files[f"without-{number}"] = file.encode()
    refused(tmp_path, files)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_bombs_that_expand_to_more_than_they_claim(tmp_path: Path, codec: int):
    """A quarter of a gigabyte behind a header that claims 400 bytes, and less."""
    bomb = compressed(codec, bytes(1 << 28))
    assert len(bomb) < 16 << 20
    files = {}
    for raw_size in (0, 1, 400):
        page = data_page(100, bomb, raw_size=raw_size)
        file = one_column(FLAT, [page], num_rows=100, codec=codec)
        files[f"page-{raw_size}"] = file.encode()
        dictionary = dictionary_page(100, bomb)
        dictionary.header[2] = i32(raw_size)
        indices = compressed(codec, b"\1" + rle_run(100, 1, 1))
        data = data_page(100, indices, encoding=RLE_DICTIONARY, raw_size=4)
        file = one_column(FLAT, [dictionary, data], num_rows=100, codec=codec)
        files[f"dictionary-{raw_size}"] = file.encode()
    jobs = [job(tmp_path, name, data) for name, data in files.items()]
    assert_all(probe(jobs, memory=192 << 20), set())


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("claimed", [1 << 28, (1 << 31) - 1])
def test_claims_of_more_than_there_is(tmp_path: Path, codec: int, claimed: int):
    """Ten bytes that claim to become gigabytes."""
    files = {}
    for name, body in {"empty": b"", "zeros": compressed(codec, bytes(400))}.items():
        page = data_page(claimed // 4, body, raw_size=claimed)
        file = one_column(FLAT, [page], num_rows=claimed // 4, codec=codec)
        files[name] = file.encode()
    refused(tmp_path, files)


@pytest.mark.parametrize("codec", [0, *sorted(CODECS)])
def test_bytes_that_the_codec_does_not_know(tmp_path: Path, codec: int):
    files = {}
    for number, body in enumerate([b"", b"\xff" * 399, b"\0" * 401, b"\x90\3" * 9]):
        page = data_page(100, body, raw_size=400)
        file = one_column(FLAT, [page], num_rows=100, codec=codec)
        files[f"body-{number}"] = file.encode()
    refused(tmp_path, files)


def test_few_bytes_that_decode_to_many_values(tmp_path: Path):
    """Two billion nulls, or references to one long text, in a run of ten bytes."""
    most = (1 << 31) - 1
    text = b"x" * (1 << 20)
    long = dictionary_page(1, len(text).to_bytes(4, "little") + text)
    run = data_page(most, b"\1" + rle_run(most, 0, 1), encoding=RLE_DICTIONARY)
    zeros = rle_run(most, 0, 1)
    sized = len(zeros).to_bytes(4, "little") + zeros
    ints = dictionary_page(1, bytes(4))
    files = {
        "texts": one_column(TEXT, [long, run], num_rows=most),
        "numbers": one_column(FLAT, [ints, run], num_rows=most),
        "nulls": one_column(NULLABLE, [data_page(most, sized)], num_rows=most),
        "null-lists": one_column(
            token_list(), [data_page(most, sized * 2)], num_rows=most
        ),
    }
    refused(tmp_path, {name: file.encode() for name, file in files.items()})


def test_a_page_of_over_two_gigabytes_of_text(tmp_path: Path):
    """More than 32-bit offsets reach: read with wider ones, or refused."""
    text = b"x" * (1 << 20)
    long = dictionary_page(1, len(text).to_bytes(4, "little") + text)
    run = data_page(2100, b"\1" + rle_run(2100, 0, 1), encoding=RLE_DICTIONARY)
    file = one_column(TEXT, [long, run], num_rows=2100)
    outcomes = probe([job(tmp_path, "wide", file.encode())], memory=5 << 30)
    assert_all(outcomes, {"values"})


def test_dictionaries_that_are_not_there(tmp_path: Path):
    indices = data_page(100, b"\1" + rle_run(100, 1, 1), encoding=RLE_DICTIONARY)
    two = dictionary_page(2, bytes(8))
    one = dictionary_page(1, bytes(4))
    short = dictionary_page(2, bytes(7))
    wide = data_page(100, b"\x21" + rle_run(100, 1, 33), encoding=RLE_DICTIONARY)
    few = data_page(100, b"\1" + rle_run(99, 1, 1), encoding=RLE_DICTIONARY)
    nothing = data_page(100, b"", encoding=RLE_DICTIONARY)
    files = {
        "none": [indices],
        "behind": [indices, two],
        "too-small": [one, indices],
        "cut": [short, indices],
        "bit-width": [two, wide],
        "too-few-indices": [two, few],
        "no-indices": [two, nothing],
        "dictionary-alone": [two],
    }
    encoded = {}
    for name, pages in files.items():
        encoded[name] = one_column(FLAT, pages, num_rows=100).encode()
    refused(tmp_path, encoded)


TOKENS = [[1, 2, 3], [], [4], [5, 6]]


def broken_levels() -> dict[str, PageBytes]:
    """Pages of four rows and seven levels, wrong in their levels."""
    sound = token_page(TOKENS)
    values = sound.body[-24:]
    size = int.from_bytes(sound.body[:4], "little")
    rep, rest = sound.body[4 : 4 + size], sound.body[4 + size :]
    defs = rest[4:-24]

    def page(repetition: bytes, definition: bytes, plain: bytes) -> PageBytes:
        sized = [len(p).to_bytes(4, "little") + p for p in (repetition, definition)]
        return data_page(7, b"".join([*sized, plain]))

    huge = b"\xff\xff\xff\x7f"
    return {
        "few-repetitions": page(rep[:-2], defs, values),
        "few-definitions": page(rep, defs[:-2], values),
        "few-values": page(rep, defs, values[:-1]),
        "more-values": page(rep, defs, values + bytes(4)),
        "all-present": page(rep, rle_run(7, 2, 2), values),
        "repetition-2": page(rle_run(7, 2, 2), defs, values),
        "definition-3": page(rep, rle_run(7, 3, 2), values),
        "one-row-less": page(rle_run(1, 0, 1) + rle_run(6, 1, 1), defs, values),
        "long-run": page(rle_run(1 << 40, 0, 1), defs, values),
        "repetition-size": data_page(7, huge + sound.body[4:]),
        "definition-size": data_page(7, sound.body[: 4 + size] + huge + defs + values),
        "nothing": data_page(7, b""),
        "starts-mid-record": token_page([[9], *TOKENS[1:]], mid=True),
    }


@pytest.mark.parametrize("name", sorted(broken_levels()))
def test_levels_that_do_not_add_up(tmp_path: Path, name: str):
    file = one_column(token_list(), [broken_levels()[name]], num_rows=4)
    outcomes = probe([job(tmp_path, name, file.encode())])
    assert_all(outcomes, set())


@pytest.mark.parametrize(
    ("behind", "is_read"),
    [("", True), ("block", True), ("blockblock", False), ("bloc", False), ("x", False)],
)
def test_one_more_block_of_levels_is_padding(
    tmp_path: Path, behind: str, *, is_read: bool
):
    """DuckDB 1.3 writes its buffer of 256 once more if it was full at the end."""
    block = bytes([256 // 8 << 1 | 1, *[0x55] * 32])
    parts = {"": b"", "block": block, "blockblock": block * 2, "bloc": block[:-1]}
    levels = block + parts.get(behind, b"x")
    values = b"".join(n.to_bytes(4, "little") for n in range(128))
    body = len(levels).to_bytes(4, "little") + levels + values
    data = one_column(NULLABLE, [data_page(256, body)], num_rows=256).encode()
    (path := tmp_path / "a.parquet").write_bytes(data)
    if not is_read:
        with pytest.raises(CorruptFileError, match="left after the last"):
            pagefeed.PageIndex.build(path, column="input_ids").read_page(0)
        return
    index = pagefeed.PageIndex.build(path, column="input_ids")
    read = pa.array(index.read_page(0)).to_pylist()
    assert read == [n // 2 if n % 2 == 0 else None for n in range(256)]


def test_levels_of_the_sound_page_do(tmp_path: Path):
    file = one_column(token_list(), [token_page(TOKENS)], num_rows=4)
    sound = job(tmp_path, "sound", file.encode(), tmp_path / "sound.parquet")
    (outcome,) = probe([sound])
    assert outcome.outcome == "same"


@pytest.mark.parametrize("lie", [-1, 0, 1, 3, 5, 7, 1 << 20, (1 << 31) - 1])
def test_row_counts_of_v2_pages_that_lie(tmp_path: Path, lie: int):
    """The row group tells the truth; old writers counted levels as rows."""
    pages = [token_page_v2(TOKENS, num_rows=lie), token_page_v2(TOKENS)]
    file = one_column(token_list(), pages, num_rows=8)
    one = job(tmp_path, "lie", file.encode())
    outcomes = probe([replace(one, expected=one.path)])
    assert_all(outcomes, {"same"})


@pytest.mark.parametrize("num_rows", [0, 7, 9, 1 << 20, 1 << 40])
def test_row_groups_with_another_number_of_rows(tmp_path: Path, num_rows: int):
    pages = [token_page(TOKENS), token_page(TOKENS)]
    pages_v2 = [token_page_v2(TOKENS), token_page_v2(TOKENS)]
    files = {
        "v1": one_column(token_list(), pages, num_rows=num_rows).encode(),
        "v2": one_column(token_list(), pages_v2, num_rows=num_rows).encode(),
    }
    refused(tmp_path, files)


def test_pages_of_a_kind_nobody_knows(tmp_path: Path):
    files = {}
    for kind in (-1, 1, 4, 99):
        page = token_page(TOKENS)
        file = one_column(token_list(), [page], num_rows=4)
        data = file.encode()
        sound = thrift.encode(page.header)
        broken = thrift.encode(page.header | {1: i32(kind)})
        assert len(sound) == len(broken) or kind == 99
        files[f"kind-{kind}"] = data.replace(sound, broken)
    refused(tmp_path, files)
