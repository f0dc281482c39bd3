"""What a start asks for: counted, since each request is a wait."""

import os
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader
from made.shared_data import parquet_testing
from pagefeed.errors import InvalidArgumentError, PagefeedError, UnsupportedError
from servers.object_store import s3_server

NUM_FILES = 1000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A bucket of many small files without offset indexes, and its options."""
    root = tmp_path_factory.mktemp("many")
    folder = root / "corpus" / "tokens"
    folder.mkdir(parents=True)
    rows: list[Any] = [[n, n + 1, n + 2] * 10 for n in range(40)] + [[], None]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    first = folder / "part-0.parquet"
    pq.write_table(table, first, row_group_size=20)
    for number in range(1, NUM_FILES):
        os.link(first, folder / f"part-{number}.parquet")
    with s3_server(root) as options:
        yield options


def dataset(options, **settings):
    return pf.parquet(
        "s3://corpus/tokens/", column="input_ids", storage_options=options, **settings
    )


def test_a_cold_start_asks_once_for_each_file(many, tmp_path):
    cold = dataset(many, page_index="row_group", cache_dir=tmp_path)
    assert cold.index.num_values == NUM_FILES * 1200
    requests = cold.storage.counts()["requests"]
    # This server lists no tags: each file is asked for its own, and for its footer.
    assert requests <= 2 * NUM_FILES + 3
    warm = dataset(many, page_index="row_group", cache_dir=tmp_path)
    assert len(warm.index) == NUM_FILES * 3
    assert warm.storage.counts()["requests"] <= 3  # The listing alone.
    loader = numbered_loader(warm, shuffle=None)
    next(iter(loader))
    stats = loader.stats()
    assert stats["storage/requests"] - 3 <= stats["pages_loaded"]


def test_row_groups_are_indexed_by_footers_alone(place):
    near = pf.parquet(place.folder, column="input_ids")
    far = pf.parquet(
        place.urls,
        column="input_ids",
        page_index="row_group",
        storage_options=place.options or None,
    )
    counts = far.storage.counts()
    assert len(far.index) == 6
    assert far.storage.counts()["requests"] == counts["requests"] + len(place.urls)
    batches = [
        [batch["input_ids"].tolist() for batch in numbered_loader(data, shuffle=block)]
        for data, block in [(near, "row_group"), (far, "row_group"), (far, "page")]
    ]
    assert batches[0] == batches[1] == batches[2]


@pytest.mark.parametrize("sequences", [pf.Packed(LENGTH), pf.Documents()])
def test_row_groups_feed_other_sequences(tmp_path, sequences):
    rows = [list(range(n, n + n % 30)) for n in range(500)]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=70, data_page_size=200)
    data = pf.parquet(path, column="input_ids", page_index="row_group")
    assert len(data.index) == 8
    loader = numbered_loader(data, sequences=sequences, shuffle="row_group")
    found = []
    for batch in loader:
        column = batch["input_ids"]
        is_padded = isinstance(column, np.ndarray)
        found += column.tolist() if is_padded else pa.array(column).to_pylist()
    tokens = sorted(token for row in found for token in row if token >= 0)
    assert tokens == sorted(token for row in rows for token in row)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_footers_count_what_headers_count(tmp_path, dictionary, version):
    rows: list[Any] = [None, [], [1, None, 3], *([n] * (n % 7) for n in range(5000))]
    path = tmp_path / "a.parquet"
    columns = {
        "list": pa.array(rows, pa.list_(pa.int32())),
        "flat": pa.array([n if n % 3 else None for n in range(len(rows))]),
        "text": pa.array([str(n) for n in range(len(rows))]),
    }
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=900,
        use_dictionary=dictionary,
        data_page_version=version,
    )
    for column, values in columns.items():
        whole, pages = (
            pf.PageIndex.build(path, column, page_index=where)
            for where in ("row_group", False)
        )
        assert len(whole) == 6
        assert whole.num_rows == pages.num_rows
        assert whole.num_values == pages.num_values
        assert bool(len(whole.null_pages)) == bool(len(pages.null_pages))
        read = [row for page in range(6) for row in pa.array(whole.read_page(page))]
        assert read == list(values)


def test_what_footers_do_not_prove_is_told():
    path = parquet_testing("data", "alltypes_plain.parquet")
    with pytest.raises(UnsupportedError, match="does not prove") as caught:
        pf.PageIndex.build(path, "id", page_index="row_group")
    assert any("1 files are read" in note for note in caught.value.__notes__)
    assert caught.value.file == str(path)
    assert pf.PageIndex.build(path, "id").num_values == 8
    with pytest.raises(InvalidArgumentError, match='True, False or "row_group"'):
        pf.parquet(path, column="id", page_index="rows")  # type: ignore[arg-type]


def test_what_footers_count_is_what_old_files_hold():
    """Of all files of other writers: right, or not taken."""
    taken = 0
    for path in sorted(parquet_testing("data").glob("*.parquet")):
        with suppress(pa.ArrowException, PagefeedError, OSError):
            for column in pq.ParquetFile(path).schema_arrow.names:
                with suppress(PagefeedError):
                    pages = pf.PageIndex.build(path, column)
                    whole = pf.PageIndex.build(path, column, page_index="row_group")
                    assert whole.num_values == pages.num_values, (path.name, column)
                    assert whole.num_rows == pages.num_rows
                    taken += 1
    assert taken > 20
