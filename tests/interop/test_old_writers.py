"""What old and odd writers leave behind, that says nothing about the values."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import golden
import pagefeed
from files import ParquetBytes, chunk_metas, read_footer, with_footer
from pagefeed import Documents, Loader, Windows
from pagefeed.errors import CorruptFileError
from thrift import I64, Field, i32


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


def nulls_denied(path: Path, column: str, *, pages: bool) -> Path:
    """The file with statistics of a column that claim no nulls, as old Arrows wrote."""
    file = ParquetBytes.parse(path.read_bytes())
    for meta in chunk_metas(file.footer, column):
        meta[12].value[3] = Field(I64, 0)
    for page in (page for one in file.chunks for page in one) if pages else ():
        statistics = page.detail.get(5)
        if page.kind == 0 and statistics is not None:
            statistics.value[3] = Field(I64, 0)
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


def test_numbers_are_counted_by_their_pages_when_asked(tmp_path: Path):
    """Their values are numbered: that needs the true counts."""
    path = tmp_path / "sound.parquet"
    numbers = [None if n % 3 == 0 else n for n in range(300)]
    pq.write_table(pa.table({"n": numbers}), path, data_page_size=64)
    denied = nulls_denied(path, "n", pages=True)
    believed = pagefeed.PageIndex.build(denied, column="n")
    with pytest.raises(CorruptFileError, match="page_index=False"):
        believed.read_page(0)
    index = pagefeed.PageIndex.build(denied, column="n", page_index=False)
    assert index.num_values == 200
    data = pagefeed.parquet(denied, column="n", page_index=False)
    loader = Loader(data, sequences=Windows(200), batch_size=1, shuffle=None)
    (batch,) = loader
    assert batch["input_ids"][0].tolist() == [n for n in numbers if n is not None]
