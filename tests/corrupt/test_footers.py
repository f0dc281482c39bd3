"""Footers that lie, ask for the moon, or never end: refused before memory is."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made import thrift
from made.files import (
    MAGIC,
    ParquetBytes,
    column_chunks,
    footer_offset,
    read_footer,
    with_footer,
)
from made.handmade import INT32, OPTIONAL, REQUIRED, data_page, element, one_column
from made.thrift import BINARY, I32, LIST, STRUCT, Struct, i32, i64, list_header, zigzag
from models.probing import Job, assert_all, probe

HUGE = [15, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 64) - 1]


def tail(footer: bytes) -> bytes:
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def refused(files: dict[str, bytes], folder: Path, column: str = "input_ids") -> None:
    """Each file gives a typed error."""
    jobs = []
    for name, data in files.items():
        path = folder / f"{name}.parquet"
        path.write_bytes(data)
        jobs.append(Job(path=path, column=column))
    assert_all(probe(jobs), set())


def field_at(number: int, kind: int) -> bytes:
    return bytes([number << 4 | kind])


@pytest.mark.parametrize(
    "number", [2, 4, 5, 7], ids=["schema", "groups", "keys", "orders"]
)
def test_huge_lists(sound: dict[str, Path], tmp_path: Path, number: int):
    start = sound["v1"].read_bytes()[: footer_offset(sound["v1"].read_bytes())]
    version = thrift.encode({1: i32(2)})[:-1]
    files = {}
    for count in HUGE:
        for kind in (STRUCT, I32, BINARY, LIST):
            head = field_at(number - 1, LIST) + list_header(kind, count)
            for fill in (b"", b"\0" * 64):
                name = f"{count}-{kind}-{len(fill)}"
                files[name] = start + tail(version + head + fill)
    refused(files, tmp_path)


def test_huge_lists_inside_row_groups(sound: dict[str, Path], tmp_path: Path):
    """The count of a list deep in a sound footer replaced by a huge one."""
    data = sound["v1"].read_bytes()
    footer = data[footer_offset(data) : -8]
    start = data[: footer_offset(data)]
    columns = list_header(STRUCT, len(column_chunks(read_footer(data))) // 2)
    at = footer.index(bytes([0x19]) + columns, 20)  # RowGroup.columns
    files = {}
    for count in HUGE:
        broken = footer[: at + 1] + list_header(STRUCT, count) + footer[at + 2 :]
        files[f"columns-{count}"] = start + tail(broken)
    refused(files, tmp_path)


def test_huge_and_endless_numbers(sound: dict[str, Path], tmp_path: Path):
    data = sound["v1"].read_bytes()
    start = data[: footer_offset(data)]
    files = {"endless": start + tail(field_at(1, I32) + b"\xff" * 200)}
    for size in HUGE:
        created_by = field_at(6, BINARY) + thrift.varint(size) + b"x" * 10
        files[f"text-{size}"] = start + tail(created_by)
    for number, depth in enumerate([63, 65, 1000, 100_000]):
        files[f"structs-{number}"] = start + tail(field_at(15, STRUCT) * depth)
        lists = field_at(15, LIST) + (bytes([1 << 4 | LIST])) * depth
        files[f"lists-{number}"] = start + tail(lists)
    refused(files, tmp_path)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 10**6, (1 << 31) - 1, (1 << 32) - 1])
def test_footer_lengths(sound: dict[str, Path], tmp_path: Path, length: int):
    data = sound["v1"].read_bytes()
    broken = data[:-8] + length.to_bytes(4, "little") + MAGIC
    tiny = MAGIC + length.to_bytes(4, "little") + MAGIC
    refused({"long": broken, "tiny": tiny}, tmp_path)


def nested_schema(depth: int) -> list[Struct]:
    groups = [element(f"g{at}", repetition=OPTIONAL, children=1) for at in range(depth)]
    return [*groups, element("leaf", kind=INT32, repetition=REQUIRED)]


def test_deep_schemas_are_refused(tmp_path: Path):
    files = {}
    for depth in (101, 1000, 10_000, 120_000):
        page = data_page(1, b"\0" * 12)
        files[f"depth-{depth}"] = one_column(
            nested_schema(depth), [page], num_rows=1
        ).encode()
    refused(files, tmp_path, column="g0")
    jobs = [Job(path=tmp_path / f"{name}.parquet", column="g0.g1.g2") for name in files]
    assert_all(probe(jobs), set())


def schema_with(children: int, *, of: int) -> Callable[[Struct], None]:
    def change(footer: Struct) -> None:
        footer[2].value[1][of][5] = i32(children)

    return change


def chunk_with(number: int, value: Any, kind: int) -> Callable[[Struct], None]:
    def change(footer: Struct) -> None:
        for chunk in column_chunks(footer, "input_ids"):
            chunk[3].value[number] = thrift.Field(kind, value)

    return change


def group_with(number: int, value: int) -> Callable[[Struct], None]:
    def change(footer: Struct) -> None:
        footer[4].value[1][0][number] = i64(value)

    return change


LARGE = [-(1 << 63), -1, 1 << 31, 1 << 40, (1 << 63) - 1]
LIES: dict[str, Callable[[Struct], None]] = {
    **{f"root-children-{n}": schema_with(n, of=0) for n in (-1, 0, 5, 100, 1 << 30)},
    **{f"list-children-{n}": schema_with(n, of=1) for n in (-1, 0, 2, 1 << 30)},
    **{f"type-{n}": chunk_with(1, n, I32) for n in (-7, 8, 99)},
    **{f"codec-{n}": chunk_with(4, n, I32) for n in (-1, 3, 8, 99)},
    **{f"values-{n}": chunk_with(5, n, thrift.I64) for n in (*LARGE, 0, 3)},
    **{f"size-{n}": chunk_with(7, n, thrift.I64) for n in (*LARGE, 0, 3)},
    **{f"data-at-{n}": chunk_with(9, n, thrift.I64) for n in (*LARGE, 0, 3)},
    **{f"dictionary-at-{n}": chunk_with(11, n, thrift.I64) for n in (-1, -(1 << 63))},
    **{f"group-rows-{n}": group_with(3, n) for n in (*LARGE, 0, 3, 61)},
    "file-rows": lambda footer: footer.update({3: i64(100)}),
    "file-rows-negative": lambda footer: footer.update({3: i64(-1)}),
    "no-schema": lambda footer: footer.update({2: thrift.listed(STRUCT, [])}),
    "no-groups": lambda footer: footer.update({4: thrift.listed(STRUCT, [])}),
    "no-columns": lambda footer: (
        footer[4].value[1][0].update({1: thrift.listed(STRUCT, [])})
    ),
}


def test_lies_are_refused(sound: dict[str, Path], tmp_path: Path):
    data = sound["v1"].read_bytes()
    jobs = []
    for name, change in LIES.items():
        footer = read_footer(data)
        change(footer)
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(with_footer(data, footer))
        jobs.append(Job(path=path, column="input_ids", expected=sound["v1"]))
    assert_all(probe(jobs), {"same"})  # some say nothing that a reader needs


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_missing_fields_of_the_footer(
    sound: dict[str, Path], tmp_path: Path, number: int
):
    data = sound["v1"].read_bytes()
    footer = read_footer(data)
    del footer[number]
    path = tmp_path / "missing.parquet"
    path.write_bytes(with_footer(data, footer))
    job = Job(path=path, column="input_ids", expected=sound["v1"])
    # Neither the version nor the number of rows is needed to read a file.
    assert_all(probe([job]), {"same"} if number in (1, 3) else set())


@pytest.mark.parametrize("number", [1, 3, 4, 5, 7, 9])
def test_missing_fields_of_a_chunk(sound: dict[str, Path], tmp_path: Path, number: int):
    data = sound["v1"].read_bytes()
    footer = read_footer(data)
    for chunk in column_chunks(footer, "input_ids"):
        del chunk[3].value[number]
    path = tmp_path / "missing.parquet"
    path.write_bytes(with_footer(data, footer))
    job = Job(path=path, column="input_ids", expected=sound["v1"])
    assert_all(probe([job]), {"same"} if number in (1, 3, 7) else set())


def test_columns_in_another_file_are_refused(sound: dict[str, Path], tmp_path: Path):
    data = sound["v1"].read_bytes()
    footer = read_footer(data)
    for chunk in column_chunks(footer, "input_ids"):
        chunk[1] = thrift.binary("elsewhere.parquet")
    refused({"external": with_footer(data, footer)}, tmp_path)


def test_footer_counts_that_agree_with_nothing(tmp_path: Path):
    """A row group of rows without a single value."""
    schema = [element("input_ids", kind=INT32, repetition=REQUIRED)]
    page = data_page(3, zigzag(0) * 12)
    file = one_column(schema, [page], num_rows=4)
    empty = ParquetBytes(file.footer, [[]])
    refused({"four-of-three": file.encode(), "no-pages": empty.encode()}, tmp_path)


def test_files_that_are_not_parquet(tmp_path: Path):
    files = {
        "empty": b"",
        "magic": MAGIC,
        "twice": MAGIC * 2,
        "text": b"tokens, tokens, tokens\n" * 50,
        "gzip": zlib.compress(b"tokens" * 99),
        "zeros": b"\0" * 4096,
    }
    refused(files, tmp_path)


NAMES = {
    "nul": b"nul\0byte",
    "bytes": b"\xff\xfe",
    "long": b"x" * 100_000,
    "empty": b"",
}


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("kind", sorted(NAMES))
def test_strange_names(sound: dict[str, Path], tmp_path: Path, at: int, kind: str):
    """Of the column itself, its repeated group and its element."""
    name = NAMES[kind] if (at, kind) != (1, "empty") else b" "
    data = sound["v1"].read_bytes()
    footer = read_footer(data)
    footer[2].value[1][at][4] = thrift.binary(name)
    for chunk in column_chunks(footer, "input_ids"):
        chunk[3].value[3].value[1][at - 1] = name
    path = tmp_path / "names.parquet"
    path.write_bytes(with_footer(data, footer))
    column = "input_ids" if at > 1 else name.decode(errors="replace")
    expected = sound["v1"] if at > 1 else None
    job = Job(path=path, column=column, expected=expected)
    assert_all(probe([job]), {"same", "different", "values"})
