"""Files of tokens are what they say, for every reader, codec and row group."""

import gzip
import json

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.texts_made import make_texts, make_tokenizer
from pagefeed.prepare.texts import json_lines
from pagefeed.prepare.tokenizing import shard

TEXTS = ["", "", *(text or "" for text in make_texts()), "long " * 3000, "a", ""]
URLS = [f"u{number % 7}" for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def tok():
    return make_tokenizer()


@pytest.fixture(scope="module")
def ids(tok):
    return [tok.encode(text).tolist() for text in TEXTS]


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Lines of JSON, read in many blocks and written in many row groups."""
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(shard, "GROUP_BYTES", 64 << 10)
    rows = zip(TEXTS, URLS, strict=True)
    lines = [json.dumps({"text": text, "url": url}) for text, url in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    return tmp_path / "a.jsonl"


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "none"])
def test_every_reader_has_the_same_rows(compression, source, tmp_path, tok, ids):
    done = pf.tokenize(
        source,
        tmp_path / "out",
        tokenizer=tok,
        keep=["url"],
        page_size="1KiB",
        compression=compression,
    )
    [path] = done.files
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table, metadata = file.read(), file.metadata
    assert table["input_ids"].to_pylist() == ids
    assert table["url"].to_pylist() == URLS
    assert pl.read_parquet(path)["input_ids"].to_list() == ids
    query = duckdb.connect().execute(f"select input_ids, url from '{path}'").fetchall()
    assert query == list(zip(ids, URLS, strict=True))
    index = pf.PageIndex.build(path, "input_ids")
    assert index.num_values == done.num_tokens
    pages = [pa.array(index.read_page(page)) for page in range(len(index))]
    assert pa.concat_arrays(pages).to_pylist() == ids

    assert metadata.num_row_groups > 3
    first = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        tokens, url = group.column(0), group.column(1)
        found = np.concatenate(ids[first : first + group.num_rows])
        first += group.num_rows
        names = {"none": "UNCOMPRESSED", "lz4": "LZ4"}
        expected = names.get(compression, compression.upper())
        assert {tokens.compression, url.compression} == {expected}
        statistics = tokens.statistics
        assert (statistics.min, statistics.max) == (found.min(), found.max())
        assert tokens.has_offset_index
        assert tokens.has_column_index
        assert url.has_offset_index


def test_pages_end_with_rows_and_hold_what_was_asked(source, tmp_path, tok, ids):
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, page_size="1KiB")
    index = pf.PageIndex.build(done.files[0], "input_ids")
    lengths = [len(row) for row in ids]
    full = 256
    for rows, values in zip(index.page_rows, index.page_values, strict=True):
        of_page, lengths = lengths[:rows], lengths[rows:]
        assert sum(of_page) == values
        assert sum(of_page[:-1]) < full  # The last made it full, or the group ended.
    assert not lengths


def test_lists_of_no_tokens_are_a_file(tmp_path, tok):
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": ""}\n')
    done = pf.tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tok)
    assert pq.read_table(done.files[0])["input_ids"].to_pylist() == [[], []]
    assert pl.read_parquet(done.files[0])["input_ids"].to_list() == [[], []]
    assert pf.PageIndex.build(done.files[0], "input_ids").num_rows == 2


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_of_any_block_are_told_by_their_numbers(suffix, source, tmp_path, tok):
    lines = source.read_bytes().split(b"\n")
    wrong = [1, 57, 58, len(lines) - 3]
    for number in wrong:
        lines[number] = b"broken"
    path, data = tmp_path / f"b{suffix}", b"\n".join(lines)
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    pf.tokenize(path, tmp_path / "out", tokenizer=tok, on_error="skip", max_rejected=4)
    [file] = (tmp_path / "out" / "_rejected").iterdir()
    told = [json.loads(line)["position"] for line in file.read_text().splitlines()]
    assert told == [f"line {number + 1}" for number in wrong]


@pytest.mark.parametrize("page_size", [64, 1 << 20])
def test_strings_that_are_no_text_are_told_by_row(page_size, tmp_path, tok):
    rows = [b"one", b"two " * 30, b"\xff\xfe", b"three", b"", b"four"]
    strings = pa.array(rows, pa.binary()).view(pa.string())
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": strings}),
        path,
        data_page_size=page_size,
        write_batch_size=1,
        use_dictionary=False,
    )
    done = pf.tokenize(
        path, tmp_path / "out", tokenizer=tok, on_error="skip", max_rejected=1
    )
    found = pq.read_table(done.files[0])["input_ids"].to_pylist()
    expected = [tok.encode(row.decode()).tolist() for row in rows if b"\xff" not in row]
    assert found == expected
    told = json.loads((tmp_path / "out/_rejected/part-00000-000.jsonl").read_text())
    assert (told["position"], told["error"]) == ("row 2", "it is not UTF-8")
