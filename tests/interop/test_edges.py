"""Files at the edges: nothing in them, too much of it, names nobody expected."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from models import golden
from pagefeed import Loader, Packed, Windows

LAYOUTS: dict[str, dict[str, Any]] = {
    "v1": {"data_page_version": "1.0"},
    "v1-index": {"data_page_version": "1.0", "write_page_index": True},
    "v2": {"data_page_version": "2.0"},
    "v2-index": {"data_page_version": "2.0", "write_page_index": True},
}


def write(path: Path, columns: dict[str, pa.Array], **options: Any) -> Path:
    """Several pages and row groups, unless told otherwise."""
    small = {"data_page_size": 128, "write_batch_size": 8, "row_group_size": 100}
    pq.write_table(pa.table(columns), path, **(small | options))
    return path


def empties() -> dict[str, pa.Array]:
    """Columns of nulls, of empty lists, and of both with something in between."""
    draw = random.Random(3)
    number = 330

    def lists(*choices: Any) -> pa.Array:
        drawn = [draw.choice(choices) for _ in range(number)]
        return pa.array(drawn, pa.list_(pa.int32()))

    return {
        "null_int": pa.nulls(number, pa.int64()),
        "null_text": pa.nulls(number, pa.string()),
        "null_list": pa.nulls(number, pa.list_(pa.int32())),
        "null_struct": pa.nulls(number, pa.struct({"x": pa.list_(pa.int8())})),
        "null_type": pa.nulls(number),
        "empty_lists": lists([]),
        "empty_texts": pa.array([""] * number),
        "null_or_empty": lists(None, []),
        "null_elements": lists([None], [None, None]),
        "any": lists(None, [], [None], [1, None, 3], [4, 5]),
        "runs": pa.array(
            [None] * 90 + [[1, 2]] * 50 + [[]] * 100 + [[3]] * 90,
            pa.list_(pa.uint16()),
        ),
        "struct_of_nothing": pa.array(
            [
                draw.choice([None, {"x": None}, {"x": []}, {"x": [1]}])
                for _ in range(number)
            ],
            pa.struct({"x": pa.list_(pa.int8())}),
        ),
    }


@pytest.mark.parametrize("page_index", [True, False])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_nulls_and_empty_lists(
    tmp_path: Path, subtests: pytest.Subtests, layout: str, page_index: bool
):
    path = write(tmp_path / "empties.parquet", empties(), **LAYOUTS[layout])
    for column in empties():
        with subtests.test(column=column):
            index = golden.check_pages(path, column, page_index=page_index)
            assert index.num_rows == 330


SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "text": pa.string()})


@pytest.mark.parametrize("column", SCHEMA.names)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_files_without_rows(tmp_path: Path, layout: str, column: str):
    no_groups = tmp_path / "no-groups.parquet"
    pq.ParquetWriter(no_groups, SCHEMA).close()
    no_rows = tmp_path / "no-rows.parquet"
    pq.write_table(SCHEMA.empty_table(), no_rows, **LAYOUTS[layout])
    for path in (no_groups, no_rows):
        index = golden.check_pages(path, column)
        assert (len(index), index.num_rows, index.num_values) == (0, 0, 0)
        assert index.files == [str(path)]


@pytest.mark.parametrize("column", SCHEMA.names)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_row_groups_without_rows(tmp_path: Path, layout: str, column: str):
    path = tmp_path / "gaps.parquet"
    some = pa.table({"input_ids": [[1], [2, 3]], "text": ["a", "b"]}, SCHEMA)
    with pq.ParquetWriter(path, SCHEMA, **LAYOUTS[layout]) as writer:
        for table in (SCHEMA.empty_table(), some, SCHEMA.empty_table(), some):
            writer.write_table(table)
    index = golden.check_pages(path, column)
    assert index.num_rows == 4
    assert {index.locate(at).row_group for at in range(len(index))} == {1, 3}


def test_empty_files_between_others(tmp_path: Path):
    some = pa.table({"input_ids": [[1], [2, 3]], "text": ["a", "b"]}, SCHEMA)
    for name, table in {"a": SCHEMA.empty_table(), "b": some, "c": some[:0]}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    index = pagefeed.PageIndex.build(tmp_path, column="input_ids")
    assert [Path(file).name for file in index.files] == [
        "a.parquet",
        "b.parquet",
        "c.parquet",
    ]
    assert [page.to_pylist() for page in golden.read_pages(index)] == [[[1], [2, 3]]]


BIG = 50 << 20


@pytest.mark.parametrize("layout", ["v1", "v1-index", "v2"])
def test_one_row_of_fifty_megabytes(tmp_path: Path, layout: str):
    values = pa.array(np.arange(BIG // 4, dtype=np.int32))
    sizes = [3, 0, len(values) - 8, 5]
    offsets = pa.array([0, *[sum(sizes[: at + 1]) for at in range(4)]], pa.int32())
    columns = {
        "input_ids": pa.ListArray.from_arrays(offsets, values),
        "text": pa.array(["a", "b", "x" * BIG, "c"]),
    }
    path = tmp_path / "big.parquet"
    options = {"use_dictionary": False, "compression": "zstd", **LAYOUTS[layout]}
    pq.write_table(pa.table(columns), path, **options)
    for column in columns:
        golden.check_pages(path, column)


NAMES = [
    "gr\u00f6\u00dfe",
    "\u6f22\u5b57",
    "\U0001f4d6",
    "with space",
    "with.dot",
    "with.dot.more",
    ".",
    "a/b",
    "quote\"'",
    "new\nline",
    "list",
    "element",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns(tmp_path: Path, name: str):
    tokens = pa.array([[1, 2], [], [3]] * 50, pa.list_(pa.int32()))
    path = write(tmp_path / "names.parquet", {"other": tokens[::-1], name: tokens})
    index = pagefeed.PageIndex.build(path, column=name)
    assert len(index) > 2
    rows = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert rows == tokens.to_pylist()


def test_a_column_of_that_name_goes_before_a_dotted_path(tmp_path: Path):
    columns = {
        "a": pa.array([{"b": 1}, {"b": 2}]),
        "a.b": pa.array(["x", "y"]),
    }
    path = write(tmp_path / "dots.parquet", columns)
    index = pagefeed.PageIndex.build(path, column="a.b")
    assert [page.to_pylist() for page in golden.read_pages(index)] == [["x", "y"]]


FILE_NAMES = [
    "\u00e4\u6f22 \U0001f4d6.parquet",
    "with space.parquet",
    "brackets[1].parquet",
    "question?.parquet",
    "star*.parquet",
    "per%20cent.parquet",
    "no_extension",
    "upper.PARQUET",
]


@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("kind", [str, Path])
def test_names_of_files(tmp_path: Path, name: str, kind: type):
    folder = tmp_path / "f\u00fcr [all] of* them"
    folder.mkdir()
    path = write(folder / name, {"input_ids": pa.array([[1, 2], [3]])})
    index = pagefeed.PageIndex.build(kind(path), column="input_ids")
    assert index.files == [str(path)]
    assert Path(index.locate(0).file) == path
    assert index.num_values == 3


def test_nested_structs(tmp_path: Path, subtests: pytest.Subtests):
    draw = random.Random(5)

    def row(depth: int) -> Any:
        if depth == 0:
            return [
                draw.choice([None, draw.randrange(9)]) for _ in range(draw.randrange(4))
            ]
        return None if draw.random() < 0.1 else {"x": row(depth - 1)}

    kind: pa.DataType = pa.list_(pa.int32())
    for _ in range(12):
        kind = pa.struct({"x": kind})
    columns = {
        "deep": pa.array([row(12) for _ in range(300)], kind),
        "twice": pa.array(
            [
                draw.choice([None, [], [[{"a": [1, 2], "b": {"c": "x"}}], None, []]])
                for _ in range(300)
            ],
            pa.list_(
                pa.list_(
                    pa.struct(
                        {
                            "a": pa.list_(pa.int64()),
                            "b": pa.struct({"c": pa.string()}),
                        }
                    )
                )
            ),
        ),
    }
    path = write(tmp_path / "nested.parquet", columns)
    for column in golden.columns_of(path):
        with subtests.test(column=column):
            golden.check_pages(path, column)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_text_that_lies_in_the_dictionary(tmp_path: Path, layout: str):
    """Row groups of a thousand rows: the data page holds a kilobyte of indices."""
    texts = [f"document {row} " + "word " * (row % 50) for row in range(3500)]
    options = {"row_group_size": 1000, **LAYOUTS[layout]}
    path = tmp_path / "text.parquet"
    pq.write_table(pa.table({"text": texts}), path, **options)
    index = golden.check_pages(path, "text")
    assert index.page_rows.tolist() == [1000, 1000, 1000, 500]
    assert index.locate(2).compressed_size < 3000


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("column", ["text", "tokens"])
def test_dictionaries_given_up_midway(tmp_path: Path, layout: str, column: str):
    draw = random.Random(8)
    columns = {
        "text": pa.array([f"{draw.random()}" for _ in range(2000)]),
        "tokens": pa.array(
            [[draw.randrange(1 << 30) for _ in range(5)] for _ in range(2000)],
            pa.list_(pa.int32()),
        ),
    }
    path = write(
        tmp_path / "fallback.parquet",
        columns,
        row_group_size=1000,
        dictionary_pagesize_limit=2048,
        **LAYOUTS[layout],
    )
    encodings = pq.read_metadata(path).row_group(0).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    assert len(golden.check_pages(path, column)) > 20


@pytest.mark.parametrize("sequences", [Windows(3), Packed(3)])
def test_tokens_inside_of_structs_are_cut_into_sequences(
    tmp_path: Path, sequences: Windows | Packed
):
    rows = [{"tokens": [1, 2, 3]}, None, {"tokens": [4, 5, 6, 7]}, {"tokens": None}]
    kind = pa.struct([("tokens", pa.list_(pa.int32())), ("source", pa.string())])
    pq.write_table(pa.table({"doc": pa.array(rows, kind)}), tmp_path / "a.parquet")
    flat = {"tokens": [row and row["tokens"] for row in rows]}
    pq.write_table(
        pa.table({"tokens": pa.array(flat["tokens"], pa.list_(pa.int32()))}),
        tmp_path / "b.parquet",
    )
    nested, plain = (
        [
            {name: np.asarray(batch[name]).tolist() for name in batch}
            for batch in Loader(
                pagefeed.parquet(tmp_path / name, column=column),
                sequences=sequences,
                batch_size=1,
                shuffle=None,
            )
        ]
        for name, column in (("a.parquet", "doc.tokens"), ("b.parquet", "tokens"))
    )
    assert plain
    assert [[*batch.values()] for batch in nested] == [
        [*batch.values()] for batch in plain
    ]
