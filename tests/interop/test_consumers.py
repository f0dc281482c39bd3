"""What reads a page: anything that knows the Arrow C data interface, without a copy."""

import json
from pathlib import Path

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from pagefeed.prepare.parquet_sinks import Compression

COLUMNS = {
    "tokens": pa.array([[1, 2], [], [3]] * 40, pa.list_(pa.int32())),
    "text": pa.array(["a", None, "caf\u00e9"] * 40),
    "number": pa.array([1, None, 3] * 40, pa.int64()),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("consumers") / "a.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    return path


@pytest.fixture(params=sorted(COLUMNS))
def column(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_polars_takes_a_page(path: Path, column: str):
    page = pagefeed.PageIndex.build(path, column=column).read_page(0)
    assert pl.Series(page).to_list() == COLUMNS[column].to_pylist()


def test_pandas_takes_a_page(path: Path, column: str):
    page = pagefeed.PageIndex.build(path, column=column).read_page(0)
    series = pd.Series.from_arrow(page)
    assert len(series) == 120
    if column == "text":
        assert [None if pd.isna(one) else one for one in series] == COLUMNS[
            column
        ].to_pylist()


def test_pyarrow_takes_a_page_without_a_copy(path: Path, column: str):
    page = pagefeed.PageIndex.build(path, column=column).read_page(0)
    once, twice = pa.array(page), pa.array(page)
    assert once.equals(twice)
    addresses = [[b and b.address for b in a.buffers()] for a in (once, twice)]
    assert addresses[0] == addresses[1]


def test_arrays_outlive_the_index(path: Path, column: str):
    array = pa.array(pagefeed.PageIndex.build(path, column=column).read_page(0))
    array.validate(full=True)
    assert array.to_pylist() == COLUMNS[column].to_pylist()


@pytest.mark.parametrize("page", [-1, 1, 1 << 40])
def test_pages_that_do_not_exist(path: Path, page: int):
    index = pagefeed.PageIndex.build(path, column="tokens")
    assert len(index) == 1
    with pytest.raises((IndexError, ValueError, OverflowError)):
        index.read_page(page)
    with pytest.raises((IndexError, ValueError, OverflowError)):
        index.locate(page)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "none"])
def test_token_files_are_read_by_others(tmp_path: Path, codec: Compression):
    lines = [json.dumps({"text": f"word {n % 97} " * (n % 50)}) for n in range(900)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    tokenizer = pagefeed.Tokenizer(lambda text: list(text.encode()), vocab_size=256)
    written = pagefeed.tokenize(
        tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tokenizer, compression=codec
    )
    (file,) = written.files
    chunk = pq.read_metadata(file).row_group(0).column(0)
    assert "RLE_DICTIONARY" in chunk.encodings
    rows = [list(json.loads(line)["text"].encode()) for line in lines]
    assert pq.read_table(file)["input_ids"].to_pylist() == rows
    assert pl.read_parquet(file)["input_ids"].to_list() == rows
    found = duckdb.execute(f"select input_ids from read_parquet('{file}')").fetchall()
    assert [row for (row,) in found] == rows
    with Path(file).open("rb") as opened:
        table = fastparquet.ParquetFile(opened).to_pandas(columns=["input_ids"])
    assert [[*row] for row in table["input_ids"]] == rows
    ours = pagefeed.parquet(file, column="input_ids")
    assert [row["input_ids"] for row in ours] == rows


def test_tokens_of_three_bytes_are_read_by_others(tmp_path: Path):
    vocab_size, num_rows = 70_000, 1200
    rows = np.arange(num_rows * 1000).reshape(num_rows, 1000) * 7919 % vocab_size

    def encode(text: str) -> list[int]:
        return rows[int(text)].tolist() if text.isdecimal() else [1]

    lines = [json.dumps({"text": str(number)}) for number in range(num_rows)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    tokenizer = pagefeed.Tokenizer(encode, vocab_size=vocab_size)
    written = pagefeed.tokenize(
        tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tokenizer, compression="none"
    )
    (file,) = written.files
    chunk = pq.read_metadata(file).row_group(0).column(0)
    assert 3.0 < chunk.total_compressed_size / rows.size < 3.5
    table = pq.read_table(file)["input_ids"].combine_chunks()
    assert np.array_equal(table.flatten(), rows.ravel())
    series = pl.read_parquet(file)["input_ids"].explode()
    assert np.array_equal(series, rows.ravel())
    query = f"select unnest(input_ids) as token from read_parquet('{file}')"
    assert np.array_equal(duckdb.execute(query).fetchnumpy()["token"], rows.ravel())
    with Path(file).open("rb") as opened:
        frame = fastparquet.ParquetFile(opened).to_pandas(columns=["input_ids"])
    assert np.array_equal(np.concatenate([*frame["input_ids"]]), rows.ravel())
    ours = pagefeed.parquet(file, column="input_ids")
    loader = pagefeed.Loader(
        ours, sequences=pagefeed.Windows(1000), batch_size=num_rows, shuffle=None
    )
    assert np.array_equal(next(iter(loader))["input_ids"], rows)
