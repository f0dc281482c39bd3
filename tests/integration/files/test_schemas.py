"""Files that differ: types that go together do, all others are refused at once."""

import math
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError, UnsupportedError

ROWS = 10


def write(folder: Path, columns: list[pa.Array], **others: Any) -> list[Path]:
    """A file of each column, beside tokens of different integers and lists."""
    kinds = [
        pa.list_(pa.int32()),
        pa.large_list(pa.int64()),
        pa.list_(pa.field("element", pa.uint16())),
        pa.list_(pa.uint32(), 3),
    ]
    paths = []
    for number, column in enumerate(columns):
        rows = range(number * ROWS, number * ROWS + len(column))
        tokens = [[3 * row, 3 * row + 1, 3 * row + 2] for row in rows]
        kind = kinds[number % len(kinds)]
        table = pa.table({"input_ids": pa.array(tokens, kind), "column": column})
        paths.append(folder / f"{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=4, **others)
    return paths


def batches(paths, column="column", **options: Any):
    dataset = pf.parquet(paths, column="input_ids", **options)
    settings: dict[str, Any] = {"batch_size": 7, "shuffle": "row", "drop_last": False}
    loader = pf.Loader(
        dataset, sequences=pf.Documents(columns=["input_ids", column]), **settings
    )
    return [{name: batch[name] for name in ("input_ids", column)} for batch in loader]


def listed(values: Any) -> list[Any]:
    """Values of a batch as pyarrow would list them."""
    if isinstance(values, list):
        return [bytes(v) if isinstance(v, memoryview) else v for v in values]
    found = pa.array(values).to_pylist()
    is_nan = [isinstance(value, float) and math.isnan(value) for value in found]
    return [None if nan else v for nan, v in zip(is_nan, found, strict=True)]


ITEMS = [[1, 2], [], None] * 3 + [[3]]
STRUCTS = [{"a": n, "b": [str(n)]} for n in range(ROWS - 1)] + [None]
WORDS = ["a", None, "ccc", "", "\N{SNOWMAN}"] * 2
TOGETHER = {
    "text": ([pa.array(WORDS), pa.array(WORDS, pa.large_string())], pa.large_string()),
    "bytes": (
        [
            pa.array([b"a", None] * 5, pa.large_binary()),
            pa.array([b"b", None] * 5, pa.binary()),
        ],
        pa.large_binary(),
    ),
    "integers": (
        [pa.array([-1, None] * 5, pa.int8()), pa.array([1, 65535] * 5, pa.uint16())],
        pa.int32(),
    ),
    "long integers": (
        [
            pa.array([-1, None] * 5, pa.int8()),
            pa.array([1, 2**63 - 1] * 5, pa.uint64()),
            pa.array([2**32 - 1] * 10, pa.uint32()),
        ],
        pa.int64(),
    ),
    "unsigned": (
        [pa.array([1] * 10, pa.uint8()), pa.array([2**64 - 1] * 10, pa.uint64())],
        pa.uint64(),
    ),
    "numbers": (
        [
            pa.array([1, None] * 5, pa.int64()),
            pa.array([0.5, None] * 5, pa.float32()),
            pa.array([0.1] * 10, pa.float64()),
        ],
        pa.float64(),
    ),
    "halves": (
        [
            pa.array(np.arange(10).astype(np.float16)),
            pa.array([0.5, None] * 5, pa.float32()),
        ],
        pa.float32(),
    ),
    "nothing": ([pa.nulls(10), pa.array(WORDS), pa.nulls(10)], pa.string()),
    "items": (
        [
            pa.array(ITEMS, pa.list_(pa.field("element", pa.int32()))),
            pa.array(ITEMS, pa.list_(pa.int16())),
            pa.array([[]] * 10, pa.list_(pa.null())),
        ],
        pa.list_(pa.field("element", pa.int32())),
    ),
    "large lists": (
        [
            pa.array([[1, 2], None] * 5, pa.list_(pa.int32(), 2)),
            pa.array(ITEMS, pa.large_list(pa.int64())),
        ],
        pa.large_list(pa.int64()),
    ),
    "structs": (
        [
            pa.array(
                STRUCTS,
                pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())}),
            ),
            pa.array(
                STRUCTS,
                pa.struct({"b": pa.large_list(pa.large_string()), "a": pa.int64()}),
            ),
        ],
        pa.struct({"a": pa.int64(), "b": pa.large_list(pa.large_string())}),
    ),
    "maps": (
        [
            pa.array([[("k", 1)]] * 10, pa.map_(pa.string(), pa.int32())),
            pa.array([[("k", 1)], None] * 5, pa.map_(pa.string(), pa.int64())),
        ],
        pa.map_(pa.string(), pa.int64()),
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_types_that_go_together_come_as_one(tmp_path, name):
    columns, kind = TOGETHER[name]
    paths = write(tmp_path, columns)
    rows = [value for column in columns for value in column.to_pylist()]
    seen: dict[int, Any] = {}
    for batch in batches(paths):
        values = batch["column"]
        assert isinstance(values, list) or pa.array(values).type == kind
        tokens = pa.array(batch["input_ids"])
        assert tokens.type.value_type == pa.int64()
        pairs = zip(tokens.to_pylist(), listed(values), strict=True)
        seen |= {tokens[0] // 3: value for tokens, value in pairs if tokens}
    assert seen == dict(enumerate(rows))
    index = pf.PageIndex.build(paths, "column", tmp_path / "cache")
    whole = [pa.array(index.read_page(page)) for page in range(len(index))]
    assert all(page.type == kind for page in whole)
    assert len({str(page.type) for page in whole}) == 1
    assert pa.concat_arrays(whole).to_pylist() == rows


def test_tokens_of_any_width_make_one_line(tmp_path):
    paths = write(tmp_path, [pa.nulls(ROWS)] * 4)
    dataset = pf.parquet(paths, column="input_ids")
    assert dataset.index.value_bytes == 8
    for sequences in (pf.Windows(5), pf.Packed(5)):
        loader = pf.Loader(
            dataset, sequences=sequences, batch_size=2, drop_last=False, padding=-1
        )
        found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
        assert sorted(found[found >= 0].tolist()) == list(range(3 * ROWS * 4))


def test_files_without_a_token_have_lists_of_nothing(tmp_path):
    tokens = [pa.array([[]] * 5, pa.list_(pa.null())), pa.array([[1, 2]] * 5)]
    for number, column in enumerate(tokens):
        table = pa.table({"input_ids": column})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    dataset = pf.parquet(tmp_path, column="input_ids")
    loader = pf.Loader(dataset, sequences=pf.Windows(5), batch_size=1)
    assert [batch["input_ids"].tolist() for batch in loader] == [
        [[1, 2, 1, 2, 1]],
        [[2, 1, 2, 1, 2]],
    ]


STAMPS = [datetime(2024, 1, 1)] * ROWS
APART = {
    "text and numbers": [pa.array(WORDS), pa.array([1] * 10)],
    "text and bytes": [pa.array(WORDS), pa.array([b"a"] * 10)],
    "lists and numbers": [pa.array([[1]] * 10), pa.array([1] * 10)],
    "lists of those": [pa.array([["a"]] * 10), pa.array([[1]] * 10)],
    "times": [
        pa.array(STAMPS, pa.timestamp("us")),
        pa.array(STAMPS, pa.timestamp("us", tz="UTC")),
    ],
    "fields": [pa.array([{"a": 1}] * 10), pa.array([{"b": 1}] * 10)],
    "more fields": [pa.array([{"a": 1}] * 10), pa.array([{"a": 1, "b": 1}] * 10)],
}


@pytest.mark.parametrize("name", APART)
def test_all_others_are_refused_with_both_files_and_types(tmp_path, name):
    columns = [APART[name][0], *APART[name]]
    paths = write(tmp_path, columns)
    with pytest.raises(
        UnsupportedError, match=r"no type in common|another number of fields"
    ) as caught:
        batches(paths)
    message = str(caught.value)
    assert str(paths[0]) in message
    assert str(paths[2]) in message
    assert caught.value.file == str(paths[2])
    assert re.search(r"""column ['"]?column['"]?\b""", message)


def test_datasets_of_a_mixture_go_together_alike(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    one = write(tmp_path / "a", [pa.array(WORDS)])
    two = write(tmp_path / "b", [pa.array(WORDS, pa.large_string())])
    other = write(tmp_path / "c", [pa.array([1] * 10)])[0]

    def make(second):
        parts = [pf.parquet(paths, column="input_ids") for paths in (one, second)]
        mixed = pf.mix({"a": (parts[0], 0.5), "b": (parts[1], 0.5)}, max_tokens=60)
        sequences = pf.Documents(columns=["column"])
        return pf.Loader(mixed, sequences=sequences, batch_size=4)

    seen = [text for batch in make(two) for text in batch["column"]]
    assert set(seen) == set(WORDS)
    with pytest.raises(UnsupportedError, match="no type in common"):
        list(make([other]))


def test_a_number_that_the_common_type_has_not_is_refused(tmp_path):
    paths = write(tmp_path, [pa.array([0.5] * 10), pa.array([2**53 + 1] * 10)])
    with pytest.raises(
        UnsupportedError, match=r"9007199254740993 is no Float64"
    ) as told:
        batches(paths)
    assert told.value.file == str(paths[1])


FIELDS: dict[str, tuple[list[Any], list[Any], str]] = {
    "a field more": ([{"x": 1}], [{"x": 2, "y": "b"}], "which lacks column.y"),
    "a field less": ([{"x": 1, "y": "b"}], [{"x": 2}], "as it lacks column.y"),
    "in lists": ([[{"x": 1}], []], [[{"x": 1, "y": 2}]], "which lacks column.*y"),
    "in structs": ([{"s": {"x": 1}}], [{"s": {"x": 1, "y": 2}}], "lacks column.s.y"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_some_files_lack_is_named_or_null(tmp_path, name):
    first, second, told = FIELDS[name]
    paths = write(
        tmp_path, [pa.array((rows * ROWS)[:ROWS]) for rows in (first, second)]
    )
    with pytest.raises(UnsupportedError, match=told) as caught:
        batches(paths)
    assert 'missing="null"' in str(caught.value)

    tables = [pq.read_table(path, columns=["column"]) for path in paths]
    kinds = [table.schema for table in tables]
    kind = pa.unify_schemas(kinds, promote_options="permissive")
    expected = [
        row for table in tables for row in table.cast(kind)["column"].to_pylist()
    ]
    found = batches(paths, missing="null")
    together = {
        row[0]: value
        for batch in found
        for row, value in zip(
            listed(batch["input_ids"]), listed(batch["column"]), strict=True
        )
        if row is not None  # The last batch is filled up.
    }
    assert [together[row] for row in sorted(together)] == expected


def test_columns_and_fields_that_some_files_lack_are_null_for_where(tmp_path):
    for number in range(3):
        folder = tmp_path / f"lang={'ab'[number % 2]}"
        folder.mkdir(exist_ok=True)
        rows = [{"x": n, "y": n % 2} if number == 1 else {"x": n} for n in range(ROWS)]
        columns = {"input_ids": [[number, n] for n in range(ROWS)], "s": rows}
        if number == 2:
            columns["score"] = [n / 10 for n in range(ROWS)]
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    data = pf.parquet(tmp_path, column="input_ids", missing="null")
    assert len(data.where("score >= 0.5")) == 5
    assert len(data.where("score is null")) == 2 * ROWS
    assert len(data.where("s.y == 1")) == 5
    assert len(data.where("s.y is null and lang == 'a'")) == 2 * ROWS
    loader = pf.Loader(
        data.where("s.x == 3"),
        sequences=pf.Documents(columns=["score", "s"]),
        batch_size=3,
        shuffle=None,
        epochs=1,
    )
    batch = next(iter(loader))
    assert listed(batch["score"]) == [None, 0.3, None]  # lang=a has files 0 and 2.
    assert listed(batch["s"])[2] == {"x": 3, "y": 1}
    with pytest.raises(InvalidArgumentError, match="did you mean 'null'"):
        pf.parquet(tmp_path, column="input_ids", missing="nul")  # type: ignore[arg-type]


def test_columns_without_a_type_in_common_are_refused(tmp_path):
    paths = write(tmp_path, [pa.array([{"x": 1}]), pa.array([1])])
    with pytest.raises(UnsupportedError, match="column") as caught:
        pf.parquet(paths, column="input_ids", missing="null")
    assert str(paths[1]) in str(caught.value)


def test_files_that_are_added_grow_under_a_state(tmp_path):
    paths = write(tmp_path, [pa.array([{"x": 1}] * ROWS), pa.array([{"y": 1}] * ROWS)])

    def loader(paths):
        data = pf.parquet(paths, column="input_ids", missing="null")
        return pf.Loader(data, sequences=pf.Windows(3), batch_size=1, epochs=None)

    first = loader(paths[:1])
    next(iter(first))
    grown = loader(paths)
    grown.load_state_dict(first.state_dict(), grown="next-epoch")
    steps = iter(grown)
    rows = [int(next(steps)["input_ids"][0, 0]) // 3 for _ in range(3 * ROWS - 1)]
    assert max(rows[: ROWS - 1]) < ROWS  # The rest of the epoch has the first file.
    assert sorted(rows[ROWS - 1 :]) == list(range(2 * ROWS))
