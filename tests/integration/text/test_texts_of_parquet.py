"""Texts of Parquet that ``tokenize`` reads: in parts, and up to the damage."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed.prepare.texts import (
    Wanted,
    find_inputs,
    ranges_of,
    read_range,
)

NUM_ROWS = 3000
GROUP_ROWS = 1000
BATCH_BYTES = 64 << 10


def made_texts():
    """Texts of some hundred bytes, with nulls, empty ones and repeated ones."""
    texts: list[str | None] = [f"text {n}, é " * (10 + n % 50) for n in range(NUM_ROWS)]
    texts[5::97] = [None] * len(texts[5::97])
    texts[7::89] = [""] * len(texts[7::89])
    texts[11::71] = ["again and again " * 20] * len(texts[11::71])
    return texts


def stored(texts):
    return [None if text is None else text.encode() for text in texts]


def write(path, texts, **options):
    table = pa.table({"before": range(len(texts)), "text": texts})
    settings = {"row_group_size": GROUP_ROWS, "data_page_size": 20_000}
    settings |= {"write_page_checksum": True, "write_batch_size": 16}
    pq.write_table(table, path, **settings | options)
    return path


def read(path, most=1 << 40):
    """Return the texts by position, and what was rejected."""
    inputs = find_inputs([path], None, None)
    wanted = Wanted(source="text", kept={}, batch_bytes=BATCH_BYTES)
    found: list[tuple[str, bytes | None]] = []
    rejected: list[tuple[str, int | None]] = []
    for file_range in ranges_of(inputs, 0, most):
        for batch in read_range(inputs.storage, file_range, wanted):
            column = batch.table["text"].cast(pa.binary())
            assert column.nbytes < 2 * BATCH_BYTES
            found += zip(
                map(batch.position_of, range(len(column))),
                column.to_pylist(),
                strict=True,
            )
            rejected += [(each.position, each.num_records) for each in batch.rejected]
    return found, rejected


@pytest.mark.parametrize("most", [1 << 40, 1], ids=["file", "groups"])
@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False, "compression": "zstd"},
        {"use_dictionary": True, "compression": "snappy"},
        {"use_dictionary": True, "data_page_version": "2.0"},
        {"use_dictionary": False, "write_page_index": True},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
    ],
    ids=str,
)
def test_all_texts_are_read_in_order(tmp_path, options, most):
    texts = made_texts()
    found, rejected = read(write(tmp_path / "a.parquet", texts, **options), most)
    assert [text for _, text in found] == stored(texts)
    assert [at for at, _ in found] == [f"row {n}" for n in range(NUM_ROWS)]
    assert not rejected


def test_large_strings_are_read(tmp_path):
    texts = pa.array(made_texts(), pa.large_string())
    found, _ = read(write(tmp_path / "a.parquet", texts))
    assert [text for _, text in found] == texts.cast(pa.large_binary()).to_pylist()


def test_a_text_that_is_not_utf8_costs_no_other(tmp_path):
    rows = stored(made_texts())
    rows[1500] = b"\xff" * 300
    wrong = pa.array(rows, pa.binary()).view(pa.string())
    path = write(tmp_path / "a.parquet", wrong, use_dictionary=False)
    found, rejected = read(path)
    assert [text for _, text in found] == rows
    assert [at for at, _ in found] == [f"row {n}" for n in range(NUM_ROWS)]
    assert not rejected


@pytest.mark.parametrize("at", [0.5, 0.99])
def test_rows_after_damage_in_a_row_group_are_told(tmp_path, at):
    path = write(tmp_path / "a.parquet", made_texts(), use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(1)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + int(at * chunk.total_compressed_size)] ^= 0xFF
    path.write_bytes(data)
    found, rejected = read(path)
    [(position, num_rejected)] = rejected
    first = 2 * GROUP_ROWS - num_rejected
    assert position == f"rows {first} to {2 * GROUP_ROWS - 1}"
    assert GROUP_ROWS < first < 2 * GROUP_ROWS
    kept = [n for n in range(NUM_ROWS) if not first <= n < 2 * GROUP_ROWS]
    assert [at for at, _ in found] == [f"row {n}" for n in kept]
    texts = stored(made_texts())
    assert [text for _, text in found] == [texts[n] for n in kept]


@pytest.mark.parametrize("settings", [{}, {"dictionary_pagesize_limit": 1 << 30}])
def test_no_page_is_decoded_to_many_bytes(tmp_path, settings):
    """A page of a few bytes can name a long text often; or hold many."""
    texts = [f"{n % 7} " * 20_000 for n in range(200)]
    options = {"data_page_size": 1 << 30, "write_batch_size": 200, **settings}
    path = write(
        tmp_path / "a.parquet", texts, use_dictionary=bool(settings), **options
    )
    inputs = find_inputs([path], None, None)
    wanted = Wanted(source="text", kept={}, batch_bytes=BATCH_BYTES)
    [file_range] = ranges_of(inputs, 0, 1 << 40)
    found, largest = [], 0
    for batch in read_range(inputs.storage, file_range, wanted):
        found += batch.table["text"].to_pylist()
        largest = max(largest, batch.table.get_total_buffer_size())
    assert found == texts
    assert largest < 2 << 20
