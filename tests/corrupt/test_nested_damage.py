"""Damaged pages of texts, floats and nested lists: what pyarrow reads, or refused."""

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.files import ParquetBytes
from made.thrift import BINARY, Field, i32
from pagefeed.errors import PagefeedError

TURN = pa.struct([("a", pa.string()), ("b", pa.float32())])
TEXTS = [["ab", "abc"], None, [], ["abcd", None, "x"], ["abcd"]] * 4
KINDS: dict[str, tuple[pa.DataType, list[Any], str | None]] = {
    "texts": (pa.list_(pa.string()), TEXTS, "DELTA_BYTE_ARRAY"),
    "text": (pa.string(), ["a", "ab", None, "abc", "b"] * 5, "DELTA_BYTE_ARRAY"),
    "float": (pa.float64(), [0.5, None, 2.0] * 7, "BYTE_STREAM_SPLIT"),
    "deep": (pa.list_(pa.list_(pa.float32())), [[[1.5], []], None, [[2.0]]] * 6, None),
    "turns": (
        *(pa.list_(TURN), [[{"a": "x", "b": 1.0}], [None, {"a": None}], []] * 6),
        None,
    ),
}


def shown(path: Path) -> str:
    """What pyarrow reads; empty if it refuses, or makes an array that cannot be."""
    try:
        column = pq.read_table(path)["x"]
        column.validate(full=True)
        return repr(column.to_pylist())
    except (pa.ArrowException, OSError, ValueError):
        return ""


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_damaged_pages_hold_no_other_rows(tmp_path: Path, kind: str):
    data_type, rows, encoding = KINDS[kind]
    leaf = "x.list.element" if kind == "texts" else "x"
    encodings = {"column_encoding": {leaf: encoding}} if encoding else {}
    table = pa.table({"x": pa.array(rows, data_type)})
    pq.write_table(
        table,
        written := io.BytesIO(),
        use_dictionary=False,
        compression="none",
        data_page_size=64,
        write_batch_size=8,
        **encodings,
    )
    sound, end = written.getvalue(), len(written.getvalue())
    end -= 8 + int.from_bytes(sound[-8:-4], "little")
    draw, path, outcomes = random.Random(kind), tmp_path / "a.parquet", set()
    for _ in range(60):
        at = draw.randrange(4, end)
        damaged = sound[at] ^ 1 << draw.randrange(8)
        path.write_bytes(sound[:at] + bytes([damaged]) + sound[at + 1 :])
        try:
            index = pagefeed.PageIndex.build(path, column="x")
            pages = [pa.array(index.read_page(page)) for page in range(len(index))]
        except PagefeedError:
            outcomes.add("refused")
            continue
        # What pyarrow refuses may be read as if nothing were damaged.
        expected = shown(path) or repr(table["x"].to_pylist())
        read = repr([value for page in pages for value in page.to_pylist()])
        assert read == expected, f"byte {at} is {damaged}"
        outcomes.add("equal")
    assert outcomes == {"refused", "equal"}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("data_type", "encoding"),
    [
        (pa.int64(), "PLAIN"),
        (pa.string(), "PLAIN"),
        (pa.int64(), "DELTA_BINARY_PACKED"),
        (pa.string(), "DELTA_LENGTH_BYTE_ARRAY"),
        (pa.string(), "DELTA_BYTE_ARRAY"),
        (pa.binary(2), "PLAIN"),
        (pa.int64(), "RLE_DICTIONARY"),
        (pa.string(), "RLE_DICTIONARY"),
    ],
)
def test_values_without_levels_are_refused(
    tmp_path: Path, version: str, data_type: pa.DataType, encoding: str
):
    """Fewer levels have a value than there are values: they would be shifted."""
    is_dictionary = encoding == "RLE_DICTIONARY"
    pq.write_table(
        pa.table({"x": pa.array(["00"] * 7).cast(data_type)}),
        path := tmp_path / "a.parquet",
        use_dictionary=is_dictionary,
        compression="none",
        data_page_version=version,
        column_encoding=None if is_dictionary else {"x": encoding},
    )
    sound = path.read_bytes()
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    at = sound.index(levels := bytes([7 << 1, 1]), start)
    # All null; six values, or one, in a group of eight levels, in seven groups; a
    # level more.
    runs = [(7 << 1, 0), (3, 63), (3, 1), (7 << 1 | 1, 1), (8 << 1, 1)]
    for damaged in runs:
        path.write_bytes(sound[:at] + bytes(damaged) + sound[at + len(levels) :])
        with pytest.raises(PagefeedError, match=r"left after|were expected"):
            pagefeed.PageIndex.build(path, column="x").read_page(0)


@pytest.mark.parametrize("writer", [b"fastparquet-python version 0.8.2", b"other"])
@pytest.mark.parametrize("padding", [0, 8])
def test_eight_zeros_end_the_pages_of_fastparquet_alone(
    tmp_path: Path, writer: bytes, padding: int
):
    """Elsewhere they are a value that the levels of a damaged page lost."""
    table = pa.table({"x": pa.array([1, None, 0], pa.int64())})
    pq.write_table(
        table, path := tmp_path / "a.parquet", use_dictionary=False, compression="none"
    )
    file = ParquetBytes.parse(path.read_bytes())
    ((page,),) = file.chunks
    page.body += bytes(padding)
    page.header[2] = page.header[3] = i32(len(page.body))
    file.footer[6] = Field(BINARY, writer)
    path.write_bytes(file.encode())
    index = pagefeed.PageIndex.build(path, column="x")
    if (padding == 8) == writer.startswith(b"fastparquet"):
        assert pa.array(index.read_page(0)).to_pylist() == [1, None, 0]
    else:
        with pytest.raises(PagefeedError, match=f"{padding} bytes are left"):
            index.read_page(0)


def test_a_part_of_the_padding_of_differences_is_damage(tmp_path: Path):
    """Writers pad the last part of the differences, or not; none pads half of it."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"x": pa.array([1, 0] * 4, pa.int64())}),
        path,
        use_dictionary=False,
        compression="none",
        column_encoding="DELTA_BINARY_PACKED",
    )
    sound = path.read_bytes()
    # Blocks of 256 in 4 parts, 8 values, the first one, the least difference, bits.
    header = bytes([0x80, 2, 4, 8, 2, 1, 2])
    at = sound.index(header) + len(header) - 1
    path.write_bytes(sound[:at] + b"\3" + sound[at + 1 :])
    with pytest.raises(PagefeedError, match="bytes are left"):
        pagefeed.PageIndex.build(path, column="x").read_page(0)
