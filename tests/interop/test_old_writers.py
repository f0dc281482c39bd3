"""What old and odd writers leave behind, that says nothing about the values."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.files import ParquetBytes, chunk_metas, read_footer, with_footer
from made.thrift import BINARY, I64, Field, i32
from models import golden
from pagefeed import Documents, Loader, Windows
from pagefeed.errors import CorruptFileError, UnsupportedError


@pytest.mark.parametrize("code", [22, 99, -1])
@pytest.mark.parametrize("column", ["text", "number", "tokens"])
def test_unknown_converted_types_mean_nothing(tmp_path: Path, code: int, column: str):
    path = tmp_path / "sound.parquet"
    values = {"text": ["a", None], "number": [1, 2], "tokens": [[1], [2, 3]]}
    pq.write_table(pa.table(values), path, store_schema=False)
    data = path.read_bytes()
    footer = read_footer(data)
    for one in footer[2].value[1]:
        if one[4].value in (b"number", b"text"):
            one[6] = i32(code)
            one.pop(10, None)
    odd = tmp_path / "odd.parquet"
    odd.write_bytes(with_footer(data, footer))
    for page_index in (True, False):
        index = pagefeed.PageIndex.build(odd, column=column, page_index=page_index)
        found = pa.array(index.read_page(0)).to_pylist()
        expected = [b"a", None] if column == "text" else values[column]
        assert found == expected


def test_a_leaf_without_a_repetition_is_required(tmp_path: Path):
    """So hyparquet wrote it once: readers take what is left out for 0."""
    fields = [pa.field("n", pa.int32(), nullable=False), pa.field("text", pa.string())]
    table = pa.table({"n": [1, 2], "text": ["a", None]}, pa.schema(fields))
    pq.write_table(table, path := tmp_path / "a.parquet", store_schema=False)
    footer = read_footer(data := path.read_bytes())
    del footer[2].value[1][1][3]
    path.write_bytes(with_footer(data, footer))
    assert pq.read_table(path).to_pydict() == table.to_pydict()
    for column, values in table.to_pydict().items():
        index = pagefeed.PageIndex.build(path, column=column)
        assert pa.array(index.read_page(0)).to_pylist() == values


@pytest.mark.parametrize("code", [0, 1, 2, 22])
def test_the_logical_type_of_lists_and_maps_stands(tmp_path: Path, code: int):
    path = tmp_path / "sound.parquet"
    values = {"lists": [[1], [2, 3]], "maps": [[("a", 1)], []]}
    types = {"lists": pa.list_(pa.int32()), "maps": pa.map_(pa.string(), pa.int32())}
    table = pa.table({name: pa.array(values[name], types[name]) for name in values})
    pq.write_table(table, path, store_schema=False)
    data = path.read_bytes()
    footer = read_footer(data)
    for one in footer[2].value[1]:
        if one[4].value in (b"lists", b"maps"):
            assert 10 in one
            one[6] = i32(code)
    odd = tmp_path / "odd.parquet"
    odd.write_bytes(with_footer(data, footer))
    for name, expected in values.items():
        index = pagefeed.PageIndex.build(odd, column=name)
        array = pa.array(index.read_page(0))
        assert pa.types.is_map(array.type) == (name == "maps")
        assert array.to_pylist() == expected


@pytest.mark.parametrize(("code", "name"), [(10, "ALP"), (1, "1"), (11, "11")])
def test_encodings_of_later_releases_are_unsupported(tmp_path: Path, code, name):
    path = tmp_path / "plain.parquet"
    tokens = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    pq.write_table(pa.table({"tokens": tokens}), path, use_dictionary=False)
    file = ParquetBytes.parse(path.read_bytes())
    for page in (page for one in file.chunks for page in one):
        page.detail[2] = i32(code)
    later = tmp_path / "later.parquet"
    later.write_bytes(file.encode())
    with pytest.raises(UnsupportedError, match=f"encoding.*{name}") as error:
        pagefeed.PageIndex.build(later, column="tokens").read_page(0)
    assert error.value.file == str(later)


def nulls_denied(
    path: Path,
    column: str,
    *,
    pages: bool,
    histogram: bool = False,
    created_by: bytes | None = None,
) -> Path:
    """The file with statistics of a column that claim no nulls, as old Arrows wrote."""
    file = ParquetBytes.parse(path.read_bytes())
    for meta in chunk_metas(file.footer, column):
        meta[12].value[3] = Field(I64, 0)
        if not histogram:
            meta.pop(16, None)
    for page in (page for one in file.chunks for page in one) if pages else ():
        statistics = page.detail.get(5)
        if page.kind == 0 and statistics is not None:
            statistics.value[3] = Field(I64, 0)
    if created_by is not None:
        file.footer[6] = Field(BINARY, created_by)
    denied = path.with_name(f"denied-{column}.parquet")
    denied.write_bytes(file.encode())
    return denied


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("page_index", [False, True])
def test_pages_are_believed_not_statistics_of_texts(
    tmp_path: Path, *, page_index: bool, pages: bool
):
    path = tmp_path / "sound.parquet"
    texts = [None if n % 3 == 0 else f"word {n % 7}" for n in range(300)]
    pq.write_table(pa.table({"text": texts}), path, data_page_size=64)
    denied = nulls_denied(path, "text", pages=pages)
    index = pagefeed.PageIndex.build(denied, column="text", page_index=page_index)
    found = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert found == texts
    data = pagefeed.parquet(denied, column="text", page_index=page_index)
    loader = Loader(data, sequences=Documents(), batch_size=100, shuffle=None)
    rows = [row for one in loader for row in pa.array(one["text"]).to_pylist()]
    assert rows == texts


NUMBERS = [None if n % 3 == 0 else n for n in range(300)]
ARROW2 = b"Arrow2 - Native Rust implementation of Arrow"


def tokens_of(path: Path, *, page_index: bool = True) -> list[int]:
    """What windows of a column of numbers deliver."""
    data = pagefeed.parquet(path, column="n", page_index=page_index)
    assert data.spans.num_values == 200
    loader = Loader(data, sequences=Windows(200), batch_size=1, shuffle=None)
    (batch,) = loader
    tokens: list[int] = batch["input_ids"][0].tolist()
    return tokens


@pytest.mark.parametrize(
    "told",
    [
        {"pages": False},
        {"pages": True, "histogram": True},
        {"pages": True, "created_by": ARROW2},
    ],
    ids=["by pages", "by histogram", "by writer"],
)
def test_numbers_are_counted_by_their_pages(tmp_path: Path, told: dict[str, Any]):
    """Their values are numbered: that needs the true counts, wherever these are."""
    path = tmp_path / "sound.parquet"
    pq.write_table(pa.table({"n": NUMBERS}), path, data_page_size=64)
    denied = nulls_denied(path, "n", **told)
    assert tokens_of(denied) == [n for n in NUMBERS if n is not None]


@pytest.mark.parametrize("told", ["histogram", "writer"])
def test_numbers_are_counted_by_their_pages_with_an_index(tmp_path: Path, told: str):
    path = tmp_path / "sound.parquet"
    table = pa.table({"n": NUMBERS})
    pq.write_table(table, path, data_page_size=64, write_page_index=True)
    data = path.read_bytes()
    footer = read_footer(data)
    for meta in chunk_metas(footer, "n"):
        meta[12].value[3] = Field(I64, 0)
        if told == "writer":
            meta.pop(16)
    if told == "writer":
        footer[6] = Field(BINARY, ARROW2)
    path.write_bytes(with_footer(data, footer))
    assert tokens_of(path) == [n for n in NUMBERS if n is not None]


def test_numbers_of_which_all_counts_are_wrong_are_never_misnumbered(tmp_path: Path):
    path = tmp_path / "sound.parquet"
    pq.write_table(pa.table({"n": NUMBERS}), path, data_page_size=64)
    denied = nulls_denied(path, "n", pages=True)
    # Rows are numbered by what no statistics say.
    index = pagefeed.PageIndex.build(denied, column="n")
    found = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert found == NUMBERS
    data = pagefeed.parquet(denied, column="n")
    loader = Loader(data, sequences=Windows(200), batch_size=1, shuffle=None)
    with pytest.raises(CorruptFileError, match="page_index=False"):
        next(iter(loader))
    found = tokens_of(denied, page_index=False)
    assert found == [n for n in NUMBERS if n is not None]
