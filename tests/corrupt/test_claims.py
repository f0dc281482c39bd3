"""Few bytes that claim much: what a page decodes to is known before it is decoded."""

import re
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import thrift
from made.files import (
    PageBytes,
    ParquetBytes,
    column_chunks,
    footer_offset,
    read_footer,
    with_footer,
)
from made.handmade import (
    BYTE_ARRAY,
    FIXED,
    INT32,
    INT64,
    OPTIONAL,
    PLAIN,
    REQUIRED,
    RLE_DICTIONARY,
    data_page,
    dictionary_page,
    element,
    one_column,
    rle_run,
    token_list,
)
from made.thrift import Struct, i32, i64, varint, zigzag
from models.probing import Job, Outcome, assert_all, probe
from pagefeed.errors import CorruptFileError, LimitExceededError

DELTA, DELTA_LENGTH, DELTA_BYTES, SPLIT = 5, 6, 7, 9
SMALL = 64 << 20


def delta(count: int, first: int, blocks: bytes = b"") -> bytes:
    """A header of the delta encoding, and its blocks of 128 values in four parts."""
    return varint(128) + varint(4) + varint(count) + zigzag(first) + blocks


def attempts(
    folder: Path, files: dict[str, ParquetBytes], memory: int = SMALL
) -> list[Outcome]:
    jobs = []
    for name, file in files.items():
        path = folder / f"{name}.parquet"
        path.write_bytes(file.encode())
        jobs.append(Job(path=path, column="input_ids"))
    return probe(jobs, memory=memory)


def flat(kind: int, *, repetition: int = REQUIRED, length: int | None = None) -> Struct:
    leaf = element("input_ids", kind=kind, repetition=repetition)
    if length is not None:
        leaf[2] = i32(length)
    return leaf


@pytest.mark.parametrize("count", [1 << 20, 1 << 25, 1 << 28, (1 << 31) - 1])
def test_values_that_are_not_there(tmp_path: Path, count: int):
    """A header of a few bytes claims them; in every encoding and kind of column."""
    tiny = {
        PLAIN: bytes(64),
        DELTA: delta(count, 0, bytes(64)),
        SPLIT: bytes(64),
        RLE_DICTIONARY: b"\1" + rle_run(64, 0, 1),
        DELTA_LENGTH: delta(count, 0, bytes(64)),
        DELTA_BYTES: delta(count, 0, bytes(64)),
    }
    files = {}
    for encoding, body in tiny.items():
        for kind in (INT32, INT64, BYTE_ARRAY, FIXED):
            length = 16 if kind == FIXED else None
            page = data_page(count, body, encoding=encoding)
            pages = [dictionary_page(1, bytes(16)), page]
            file = one_column([flat(kind, length=length)], pages, num_rows=count)
            files[f"{encoding}-{kind}"] = file
    assert_all(attempts(tmp_path, files), set())


def test_lists_of_values_that_are_not_there(tmp_path: Path):
    """The levels are there, two runs for all of them; the values are not."""
    count = 1 << 28
    levels = [rle_run(count, 0, 1), rle_run(count, 2, 2)]
    sized = b"".join(len(run).to_bytes(4, "little") + run for run in levels)
    files = {
        str(encoding): one_column(
            token_list(),
            [data_page(count, sized + body, encoding=encoding)],
            num_rows=count,
        )
        for encoding, body in (
            (PLAIN, bytes(8)),
            (SPLIT, bytes(8)),
            (DELTA, delta(count, 0, bytes(8))),
        )
    }
    assert_all(attempts(tmp_path, files), set())


def test_strings_that_repeat_those_before_them(tmp_path: Path):
    """A text of 64 KiB, and a hundred thousand that share all of it: 6.5 GB."""
    size, count = 1 << 16, 100_001
    prefixes = delta(count, 0, zigzag(0) + b"\x11\0\0\0" + _first_of(32, 17, size))
    # The first difference is the whole length, then it stays.
    prefixes += b"\0\0\0\0\0" * ((count - 2) // 128)
    suffixes = delta(count, size, zigzag(-size) + b"\x11" * 4 + _rest_of(128, 17, size))
    suffixes += b"\0\0\0\0\0" * ((count - 2) // 128)
    body = prefixes + suffixes + b"x" * size
    schema = [flat(BYTE_ARRAY)]
    page = data_page(count, body, encoding=DELTA_BYTES)
    file = one_column(schema, [page], num_rows=count)
    (outcome,) = attempts(tmp_path, {"shared": file}, memory=1 << 30)
    assert outcome.outcome == "LimitExceededError", outcome
    assert "decodes to" in outcome.message


def _first_of(count: int, width: int, value: int) -> bytes:
    """Bit-packed values, the first of them `value` and the others 0."""
    return value.to_bytes(count * width // 8, "little")


def _rest_of(count: int, width: int, value: int) -> bytes:
    """Bit-packed values, the first of them 0 and the others `value`."""
    packed = sum(value << (at * width) for at in range(1, count))
    return packed.to_bytes(count * width // 8, "little")


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_delta_strings_are_read(tmp_path: Path, encoding: str):
    texts = [f"{'prefix ' * (row % 9)}{row}" for row in range(3000)]
    path = tmp_path / "texts.parquet"
    pq.write_table(
        pa.table({"text": texts, "list": [[text, None] for text in texts]}),
        path,
        use_dictionary=False,
        column_encoding={"text": encoding, "list.list.element": encoding},
        data_page_size=4096,
    )
    jobs = [Job(path=path, column=name, expected=path) for name in ("text", "list")]
    assert [one.outcome for one in probe(jobs)] == ["same", "same"]


def test_a_hint_of_wide_lists_beside_a_null(tmp_path: Path):
    """The schema for Arrow alone says that a row of null takes a gigabyte."""
    wide = pa.schema([("input_ids", pa.list_(pa.int32(), 1 << 28))])
    empty = tmp_path / "hint.parquet"
    pq.write_table(wide.empty_table(), empty)
    hints = read_footer(empty.read_bytes())[5]
    path = tmp_path / "null.parquet"
    pq.write_table(
        pa.table({"input_ids": pa.array([None, None], pa.list_(pa.int32()))}), path
    )
    data = path.read_bytes()
    path.write_bytes(with_footer(data, read_footer(data) | {5: hints}))
    (outcome,) = probe([Job(path=path, column="input_ids")], memory=SMALL)
    assert outcome.outcome == "LimitExceededError", outcome


def test_nulls_in_lists_of_fixed_size_are_read(tmp_path: Path):
    """Half the rows of what embeddings look like."""
    rows = [None if row % 2 else [float(row)] * 512 for row in range(2000)]
    table = pa.table(
        {
            "flat": pa.array(rows, pa.list_(pa.float32(), 512)),
            "list": pa.array(
                [[row, None] for row in rows], pa.list_(pa.list_(pa.float32(), 512))
            ),
        }
    )
    path = tmp_path / "embeddings.parquet"
    pq.write_table(table, path, use_dictionary=False)
    jobs = [Job(path=path, column=name, expected=path) for name in ("flat", "list")]
    assert [one.outcome for one in probe(jobs)] == ["same", "same"]


def test_nulls_as_wide_as_the_schema_says(tmp_path: Path):
    nulls = rle_run(4, 0, 1)
    body = len(nulls).to_bytes(4, "little") + nulls
    leaf = flat(FIXED, repetition=OPTIONAL, length=1 << 30)
    file = one_column([leaf], [data_page(4, body)], num_rows=4)
    (outcome,) = attempts(tmp_path, {"wide": file})
    assert outcome.outcome == "LimitExceededError", outcome


def test_one_page_index_for_many_row_groups(tmp_path: Path):
    """Every row group claims the same bytes; sixteen megabytes of them."""
    path = tmp_path / "one.parquet"
    table = pa.table({"input_ids": [[row] for row in range(400)]})
    pq.write_table(table, path, row_group_size=4, write_page_index=True)
    data = path.read_bytes()
    footer = read_footer(data)
    start, size = footer_offset(data), 17 << 20
    for chunk in column_chunks(footer):
        chunk[4], chunk[5] = i64(start), i32(size)
        chunk[6], chunk[7] = i64(start), i32(size)
    path.write_bytes(with_footer(data, footer, before=bytes(size)))
    (outcome,) = probe([Job(path=path, column="input_ids")], memory=4 * SMALL)
    assert outcome.outcome == "CorruptFileError", outcome
    assert "page_index=False" in outcome.message
    headers = Job(path=path, column="input_ids", options={"page_index": False})
    assert_all(probe([headers]), {"values"})


class Doubled(PageBytes):
    """A page whose header says its number of values twice."""

    def encode(self) -> bytes:
        encoded = thrift.encode(self.header)
        detail = thrift.encode(self.detail)
        # The second time by its full number, which may go back.
        twice = detail[:-1] + b"\x05" + zigzag(1) + zigzag(self.num_values) + b"\0"
        assert encoded.count(detail) == 1
        return encoded.replace(detail, twice) + self.body


def test_a_field_given_twice(tmp_path: Path):
    page = data_page(4, bytes(16))
    once = one_column([flat(INT32)], [page], num_rows=4)
    twice = one_column([flat(INT32)], [Doubled(page.header, page.body)], num_rows=4)
    outcomes = attempts(tmp_path, {"once": once, "twice": twice})
    assert [one.outcome for one in outcomes] == ["values", "CorruptFileError"]
    assert "twice" in outcomes[1].message


@pytest.mark.parametrize("first", [0, 5, 12, 13, 1 << 31, (1 << 32) - 1])
def test_a_first_string_that_is_as_long_as_the_page(tmp_path: Path, first: int):
    """Strings of no bytes but for the first, whose length is wrong."""
    body = first.to_bytes(4, "little") + bytes(12)
    file = one_column([flat(BYTE_ARRAY)], [data_page(4, body)], num_rows=4)
    (outcome,) = attempts(tmp_path, {"long": file})
    assert outcome.outcome == ("CorruptFileError" if first else "values"), outcome
    assert "defect" not in outcome.message


MOST = (1 << 31) - 1
NULLS = rle_run(MOST, 0, 1)
ROWS: dict[str, tuple[int, Struct, PageBytes, type[Exception]]] = {
    "nulls": (
        MOST,
        flat(INT32, repetition=OPTIONAL),
        data_page(MOST, len(NULLS).to_bytes(4, "little") + NULLS),
        LimitExceededError,
    ),
    "deltas": (
        1 << 26,
        flat(BYTE_ARRAY),
        data_page(1 << 26, bytes.fromhex("80808080040402") + bytes(6), encoding=DELTA),
        CorruptFileError,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_order_of_rows_that_are_not_there_takes_no_memory(tmp_path: Path, name: str):
    count, leaf, page, error = ROWS[name]
    path = tmp_path / "claims.parquet"
    path.write_bytes(one_column([leaf], [page], num_rows=count).encode())
    loader = pf.Loader(
        pf.parquet(path, column="input_ids"),
        sequences=pf.Documents(columns=["input_ids"]),
        batch_size=1,
        memory="16MiB",
        num_threads=1,
        rank=0,
        world_size=1,
    )
    tracemalloc.start()
    try:
        with pytest.raises(error, match=r"claims\.parquet"):
            next(iter(loader))
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()


def dictionary_indices(count: int) -> bytes:
    """So many values of the dictionary's first entry."""
    return b"\0" + rle_run(count, 0, 0)


LARGE = 1 << 28
RUN = rle_run(LARGE, 0, 1)
TRUE_RUNS: dict[str, tuple[Struct, list[PageBytes]]] = {
    "tokens": (
        flat(INT64),
        [
            dictionary_page(1, (1 << 20).to_bytes(8, "little")),
            data_page(LARGE, dictionary_indices(LARGE), encoding=RLE_DICTIONARY),
        ],
    ),
    "nulls": (
        flat(INT32, repetition=OPTIONAL),
        [data_page(LARGE, len(RUN).to_bytes(4, "little") + RUN)],
    ),
    "texts": (
        flat(BYTE_ARRAY),
        [
            dictionary_page(1, b"\4\0\0\0text"),
            data_page(LARGE, dictionary_indices(LARGE), encoding=RLE_DICTIONARY),
        ],
    ),
}


@pytest.mark.parametrize("name", TRUE_RUNS)
def test_a_page_of_more_than_all_memory_is_refused(
    tmp_path: Path, run_python, name: str
):
    """Its values are all there, and equal: some bytes that decode to gigabytes."""
    leaf, pages = TRUE_RUNS[name]
    path = tmp_path / "runs.parquet"
    path.write_bytes(one_column([leaf], pages, num_rows=LARGE).encode())
    program = f"""
import re
from pathlib import Path
import pagefeed as pf

STATUS = Path("/proc/self/status")
loader = pf.Loader(
    pf.parquet({str(path)!r}, column="input_ids"),
    sequences=pf.Documents(columns=["input_ids"]),
    batch_size=1, memory="80MiB", num_threads=1, rank=0, world_size=1,
)
before = int(re.search(r"VmRSS:\\s+(\\d+)", STATUS.read_text())[1])
try:
    next(iter(loader))
except pf.errors.LimitExceededError as error:
    print(error)
peak = int(re.search(r"VmHWM:\\s+(\\d+)", STATUS.read_text())[1])
assert peak - before < {SMALL} >> 10, peak - before
"""
    printed = run_python(program)
    assert re.search(r"the limit is 7\d{7}: give more memory", printed)
    assert "runs.parquet, row group 0, column input_ids, page 0" in printed


def test_a_page_of_more_than_little_memory_is_read(tmp_path: Path):
    """Genuine pages are a few megabytes: one may always be held."""
    path = tmp_path / "large.parquet"
    tokens = list(range(1 << 20))
    table = pa.table({"input_ids": pa.array([tokens], pa.list_(pa.int64()))})
    pq.write_table(table, path, use_dictionary=False)
    loader = pf.Loader(
        pf.parquet(path, column="input_ids"),
        sequences=pf.Windows(1 << 16),
        batch_size=1,
        memory="2MiB",
        shuffle=None,
        num_threads=1,
        rank=0,
        world_size=1,
    )
    read = [token for batch in loader for token in batch["input_ids"][0].tolist()]
    assert read == tokens
