"""Arrow files as they lie: every kind of list, other columns, and damage by name."""

import os
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

import pagefeed as pf
from made.flat_files import write_arrow
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    StaleFileError,
    UnsupportedError,
)

ROWS = [[*range(n * 50, n * 50 + n * 7 % 23)] for n in range(90)]
FORMS = {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}


def loader(data, **options):
    settings: dict[str, Any] = {"sequences": pf.Windows(16, "drop"), "batch_size": 4}
    return pf.Loader(
        data, **settings | {"shuffle": None, "rank": 0, "world_size": 1} | options
    )


def joined(data) -> list[int]:
    batches = [batch["input_ids"].reshape(-1) for batch in loader(data)]
    return np.concatenate(batches).tolist()


def expected(rows=ROWS) -> list[int]:
    tokens = [token for row in rows for token in row]
    return tokens[: len(tokens) // 64 * 64]


def write(path, kind=None, rows=ROWS, **options):
    return write_arrow(
        path, {"ids": rows}, {"ids": kind or pa.list_(pa.int32())}, **options
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.list_(pa.uint16()), pa.list_(pa.int16()), pa.list_(pa.uint32())),
        *(pa.large_list(pa.int64()), pa.large_list(pa.uint64()), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_lists_of_integers_are_read_as_they_lie(tmp_path, form, kind):
    path = write(tmp_path / "a.arrow", kind, make=FORMS[form])
    data = pf.arrow(path, column="ids")
    assert joined(data) == expected()
    assert [row["ids"] for row in data] == ROWS
    stats = loader(data, shuffle="row")
    list(stats)
    assert stats.stats()["pages_loaded"] == 0  # Windows are read as slices.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_batches_are_read(tmp_path, form, codec):
    path = write(tmp_path / "a.arrow", make=FORMS[form], compression=codec)
    assert joined(pf.arrow(path, column="ids")) == expected()


def test_feather_fixed_sizes_slices_and_dictionaries(tmp_path):
    table = pa.table({"ids": pa.array(ROWS, pa.list_(pa.int32()))}).slice(3, 70)
    feather.write_feather(table, str(tmp_path / "a.feather"), chunksize=9)
    assert joined(pf.arrow(tmp_path, column="ids")) == expected(ROWS[3:73])
    even = [[n] * 8 for n in range(100)]
    path = write(tmp_path / "b.arrow", pa.list_(pa.int32(), 8), even)
    assert joined(pf.arrow(path, column="ids")) == expected(even)
    words = pa.array(["a", "b", "a", None] * 5)
    columns = {
        "ids": pa.array([[1]] * 20, pa.list_(pa.int32())),
        "d": words.dictionary_encode(),
        "v": words.cast(pa.string_view()),
    }
    path = write_arrow(tmp_path / "c.arrow", columns, {}, rows_each=6)
    data = pf.arrow(path, column="ids")
    batches = loader(data, sequences=pf.Documents(columns=["d", "v"]), batch_size=20)
    batch = next(iter(batches))
    for name in ("d", "v"):
        assert pa.array(batch[name]).to_pylist() == ["a", "b", "a", None] * 5


def test_null_rows_are_empty_and_null_tokens_refused(tmp_path):
    rows = [[1, 2], None, [], [3]] * 40
    data = pf.arrow(write(tmp_path / "a.arrow", rows=rows), column="ids")
    assert joined(data) == expected([row or [] for row in rows])
    data = pf.arrow(write(tmp_path / "b.arrow", rows=[[1, None]] * 99), column="ids")
    with pytest.raises(DataError, match="null token"):
        joined(data)


def test_aligned_columns_metadata_and_texts(tmp_path):
    labels = [[token if token % 2 else -100 for token in row] for row in ROWS]
    urls = [f"u{n}" for n in range(len(ROWS))]
    kinds = {"ids": pa.list_(pa.int32()), "labels": pa.large_list(pa.int64())}
    columns = {"ids": ROWS, "labels": labels, "url": urls}
    path = write_arrow(tmp_path / "a.arrow", columns, kinds)
    data = pf.arrow(path, column="ids", aligned=["labels"], metadata=["url"])
    batches = [*loader(data, fields=("input_ids", "metadata"))]
    got = np.concatenate([batch["labels"].reshape(-1) for batch in batches])
    ids = np.concatenate([batch["input_ids"].reshape(-1) for batch in batches])
    kept = got != -100
    assert (got[kept] == ids[kept]).all()
    assert kept.sum() > len(ids) // 3
    for part in pa.table(batches[0]["metadata"]).to_pylist():
        row, begin = urls.index(part["url"]), part["first_token"]
        own = ids[part["sequence"] * 16 :][part["start"] : part["stop"]]
        assert own.tolist() == ROWS[row][begin : begin + len(own)]
    texts = pf.arrow(path, column="url").tokenize(
        pf.Tokenizer(_bytes_of, vocab_size=256)
    )
    rows = [[*url.encode()] for url in urls]
    assert joined(texts) == expected(rows)


def _bytes_of(text: str) -> list[int]:
    return [*text.encode()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.93])
def test_a_cut_file_is_an_error_that_names_it(tmp_path, form, share):
    whole = write(tmp_path / "a.arrow", make=FORMS[form]).read_bytes()
    path = tmp_path / "cut.arrow"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(CorruptFileError, match=r"cut\.arrow"):
        joined(pf.arrow(path, column="ids"))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_file_that_is_cut_later_ends_no_process(tmp_path, compression):
    path = write(tmp_path / "a.arrow", compression=compression)
    batches = loader(pf.arrow(path, column="ids"))
    assert len(batches) > 5
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StaleFileError, match=r"a\.arrow"):
        list(batches)


def test_damage_inside_of_a_batch_never_reads_outside(tmp_path):
    whole = bytearray(write(tmp_path / "a.arrow").read_bytes())
    path, refused = tmp_path / "b.arrow", 0
    for place in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place : place + 4] = b"\xff\xff\xff\x7f"
        path.write_bytes(damaged)
        try:
            joined(pf.arrow(path, column="ids"))
        except pf.PagefeedError:
            refused += 1
    assert refused > 10


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    path = write(tmp_path / "a.arrow")
    with pytest.raises(ColumnNotFoundError, match="'ids'"):
        _ = pf.arrow(path, column="tokens").index
    views = pa.array(ROWS, pa.list_view(pa.int32()))
    with pa.ipc.new_stream(tmp_path / "v.arrow", pa.schema({"ids": views.type})) as out:
        out.write_table(pa.table({"ids": views}))
    with pytest.raises(UnsupportedError, match="list_view"):
        _ = pf.arrow(tmp_path / "v.arrow", column="ids").index
    write(tmp_path / "w.arrow", pa.list_(pa.int64()))
    with pytest.raises(UnsupportedError, match="mix them"):
        _ = pf.arrow([path, tmp_path / "w.arrow"], column="ids").index
    with pytest.raises(UnsupportedError, match="convert --to parquet"):
        pf.arrow("s3://bucket/a.arrow", column="ids")
    with pytest.raises(InvalidArgumentError, match="different columns"):
        pf.arrow(path, column="ids", metadata=["ids"])
    write(tmp_path / "cache-1.arrow")
    with pytest.raises(InvalidArgumentError, match="a cache of map"):
        pf.arrow(tmp_path, column="ids")
    empty = write(tmp_path / "empty.arrow", rows=[])
    assert len(pf.arrow(empty, column="ids")) == 0


class MemoryMappedTable:
    """As ``datasets`` has it."""

    def __init__(self, path, num_rows, replays=()):
        self.path, self.num_rows, self.replays = str(path), num_rows, replays


class ConcatenationTable:
    def __init__(self, *blocks):
        self.blocks = [[block] for block in blocks]


def hub_dataset(table, indices=None, kind=None):
    made = types.new_class(
        "Dataset",
        exec_body=lambda body: body.update(__module__="datasets.arrow_dataset"),
    )()
    made.data, made.format = table, {"type": kind}
    chosen = None if indices is None else pa.table({"indices": indices})
    made._indices = chosen
    return made


def test_rows_of_a_hub_dataset_are_those_of_its_files(tmp_path):
    path = write(tmp_path / "a.arrow")
    whole = MemoryMappedTable(path, 90)
    changes: list[Any] = [("replace_schema_metadata", (), {}), ("slice", (30, 20), {})]
    part = MemoryMappedTable(path, 20, changes)
    both = hub_dataset(ConcatenationTable(whole, part))
    assert [row["ids"] for row in pf.arrow(both, column="ids")] == ROWS + ROWS[30:50]
    chosen = pf.arrow(hub_dataset(whole, [7, 80, 3]), column="ids")
    assert [row["ids"] for row in chosen] == [ROWS[3], ROWS[7], ROWS[80]]
    for wrong, what in (
        (hub_dataset(whole, [1, 1]), "several times"),
        (hub_dataset(whole, kind="custom"), "transform"),
        (hub_dataset(object()), "in memory"),
        (
            hub_dataset(MemoryMappedTable(path, 9, [("rename_columns", (), {})])),
            "rename",
        ),
    ):
        with pytest.raises(UnsupportedError, match=what):
            pf.arrow(wrong, column="ids")
