"""Null rows are empty documents; null tokens are refused, wherever they lie."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.files import PageBytes
from made.handmade import (
    INT32,
    OPTIONAL,
    REPEATED,
    data_page,
    element,
    levels,
    one_column,
)
from pagefeed import Documents, Loader, Packed, SequenceView, Windows
from pagefeed.core.sequences import Cut
from pagefeed.errors import UnsupportedError

Row = list[int | None] | None
SETTINGS = [Windows(4), Windows(4, eos=9), Packed(4), Documents(max_length=4)]
NULLABLE = [
    element("input_ids", repetition=OPTIONAL, children=1, converted=3),
    element("list", repetition=REPEATED, children=1),
    element("element", kind=INT32, repetition=OPTIONAL),
]


def page_of(rows: list[Row], *, mid: bool = False) -> PageBytes:
    """A V1 page; with `mid`, the first row continues one of the page before."""
    repetition: list[int] = []
    definition: list[int] = []
    values: list[int] = []
    for row in rows:
        missing = [0 if row is None else 1]
        items = [2 + (value is not None) for value in row or []] or missing
        definition += items
        first = int(mid and not repetition)
        repetition += [first, *[1] * (len(items) - 1)]
        values += [value for value in row or [] if value is not None]
    parts = [levels(repetition, 1), levels(definition, 2)]
    body = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    body += b"".join(value.to_bytes(4, "little") for value in values)
    return data_page(len(definition), body)


def walked(path: Path, pages: list[list[Row]]) -> Path:
    """Without a page index: levels tell."""
    num_rows = sum(map(len, pages))
    file = one_column(NULLABLE, [page_of(page) for page in pages], num_rows=num_rows)
    path.write_bytes(file.encode())
    return path


def indexed(path: Path, pages: list[list[Row]]) -> Path:
    """With histograms of levels, by which pages are not read; a row group a page."""
    kind = pa.list_(pa.int32())
    schema = pa.schema([("input_ids", kind)])
    with pq.ParquetWriter(path, schema, write_page_index=True) as writer:
        for page in pages:
            writer.write_table(pa.table({"input_ids": pa.array(page, kind)}, schema))
    return path


def delivered(path: Path, sequences: Cut) -> list[int]:
    data = pagefeed.parquet(path, column="input_ids")
    loader = Loader(data, sequences=sequences, batch_size=1, shuffle=None, padding=0)
    return [token for batch in loader for token in batch["input_ids"][0] if token]


@pytest.mark.parametrize("write", [walked, indexed])
@pytest.mark.parametrize("sequences", SETTINGS, ids=repr)
def test_null_rows_are_empty_documents(tmp_path: Path, write, sequences: Cut):
    nulls: list[Row] = [None, None, []]
    path = write(tmp_path / "rows.parquet", [nulls, [[1, 2], None], nulls, [[3]]])
    index = pagefeed.PageIndex.build(path, column="input_ids")
    assert index.page_values.tolist() == [0, 2, 0, 1]
    assert index.null_pages.tolist() == []
    tokens = [token for token in delivered(path, sequences) if token != 9]
    assert sorted(tokens) == [1, 2, 3]


@pytest.mark.parametrize("write", [walked, indexed])
@pytest.mark.parametrize("sequences", SETTINGS, ids=repr)
@pytest.mark.parametrize("bad", [[[None], None, [None, None]], [[1, 2], [3, None]]])
def test_null_tokens_are_refused_by_name(
    tmp_path: Path, write, sequences: Cut, bad: list[Row]
):
    """Also those of a page of nothing else, on which no window ever begins."""
    path = write(tmp_path / "tokens.parquet", [[[5, 6, 7]], bad, [[8], None]])
    index = pagefeed.PageIndex.build(path, column="input_ids")
    assert index.null_pages.tolist() == [1]
    data = pagefeed.parquet(path, column="input_ids")
    place = index.locate(1)
    with pytest.raises(UnsupportedError, match="null token") as caught:
        Loader(data, sequences=sequences, batch_size=1)
    error = caught.value
    assert (error.file, error.column) == (str(path), "input_ids")
    found = (error.row_group, error.page, error.offset)
    assert found == (place.row_group, place.page, place.offset)
    with pytest.raises(UnsupportedError, match="null token") as caught:
        index.row_offsets(1)
    assert caught.value.page == place.page


def test_null_tokens_are_refused_by_views_and_kept_as_arrow(tmp_path: Path):
    path = walked(tmp_path / "tokens.parquet", [[[5]], [[None], [None, None]]])
    data = pagefeed.parquet(path, column="input_ids")
    with pytest.raises(UnsupportedError, match="null token"):
        SequenceView(data, Windows(2))
    loader = Loader(data, sequences=Documents(), batch_size=3, shuffle=None)
    (batch,) = loader
    rows = pa.array(batch["input_ids"]).to_pylist()
    assert rows == [[5], [None], [None, None]]


def test_pages_that_are_not_selected_may_hold_null_tokens(tmp_path: Path):
    pages: list[list[Row]] = [[[5, 6, 7]], [[None]], [[8]]]
    path = tmp_path / "some.parquet"
    kind = pa.list_(pa.int32())
    table = pa.table(
        {"input_ids": pa.array([row for (row,) in pages], kind), "n": [0, 1, 2]}
    )
    pq.write_table(table, path, row_group_size=1)
    data = pagefeed.parquet(path, column="input_ids").where("n != 1")
    loader = Loader(data, sequences=Windows(4), batch_size=1, shuffle=None)
    assert [batch["input_ids"][0].tolist() for batch in loader] == [[5, 6, 7, 8]]


def test_records_over_pages_are_refused_where_they_begin(tmp_path: Path):
    pages = [page_of([[1, 2], [3]]), page_of([[None, 4], [5]], mid=True)]
    file = one_column(NULLABLE, pages, num_rows=3)
    path = tmp_path / "mid.parquet"
    path.write_bytes(file.encode())
    index = pagefeed.PageIndex.build(path, column="input_ids")
    assert index.page_rows.tolist() == [2, 1]
    assert index.null_pages.tolist() == [0]
