"""What batches tell of their documents: where it arrives, and what is refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.optional import torch
from made.texts_made import make_tokenizer
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    UnsupportedError,
)

FIELDS = ("input_ids", "document_ids", "metadata")
PLACES = ["sequence", "start", "stop", "first_token"]
COUNT = 60


def write(path: Path, columns: dict[str, Any], **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


def columns(count: int = COUNT) -> dict[str, Any]:
    """Rows of 0 to 6 tokens; row n has the tokens 10 n + 10 and so on."""
    rows = [list(range(10 * n + 10, 10 * n + 10 + n % 7)) for n in range(count)]
    spans = [
        [{"start": 0, "end": len(row), "name": f"all of {n}"}]
        for n, row in enumerate(rows)
    ]
    names = [f"d{n}" for n in range(count)]
    return {"input_ids": rows, "id": names, "spans": spans}


def loader(data: Any, sequences: Any = None, **options: Any) -> pf.Loader:
    settings = {"batch_size": 2, "shuffle": None, "fields": FIELDS} | options
    return pf.Loader(data, sequences=sequences or pf.Windows(8, eos=9), **settings)


def test_any_library_takes_the_table(tmp_path: Path):
    path = write(tmp_path / "a.parquet", columns())
    data = pf.parquet(path, column="input_ids", metadata=["id"])
    batch = next(iter(loader(data)))
    table = batch["metadata"]
    expected = [
        {"sequence": 0, "start": 1, "stop": 2, "first_token": 0, "id": "d1"},
        {"sequence": 0, "start": 3, "stop": 5, "first_token": 0, "id": "d2"},
        {"sequence": 0, "start": 6, "stop": 8, "first_token": 0, "id": "d3"},
        {"sequence": 1, "start": 0, "stop": 1, "first_token": 2, "id": "d3"},
        {"sequence": 1, "start": 2, "stop": 6, "first_token": 0, "id": "d4"},
        {"sequence": 1, "start": 7, "stop": 8, "first_token": 0, "id": "d5"},
    ]
    assert table.to_pylist() == pa.table(table).to_pylist() == expected
    assert pl.DataFrame(table).to_dicts() == expected
    assert pd.DataFrame.from_arrow(table).to_dict("records") == expected
    assert pa.record_batch(table).to_pylist() == expected
    again = pickle.loads(pickle.dumps(table))
    assert again.to_pylist() == expected
    assert table.column_names == [*PLACES, "id"]
    assert (len(table), repr(table)[:24]) == (6, "ArrowTable(6 rows of seq")
    assert table["id"].to_pylist()[2] == table["id"][2] == table["id"][-4] == "d3"
    starts = torch.tensor(pa.array(table["start"]).to_pylist())
    assert starts.tolist() == [1, 3, 6, 0, 2, 7]
    with pytest.raises(KeyError, match="nothing"):
        table["nothing"]
    with pytest.raises(IndexError, match="row 6"):
        table["id"][6]


@pytest.mark.parametrize(
    "sequences", [pf.Windows(8), pf.Windows(9, bos=1, overlap=2), pf.Packed(9, eos=9)]
)
def test_it_tells_what_locate_does(tmp_path: Path, sequences: Any):
    path = write(tmp_path / "a.parquet", columns(), data_page_size=100)
    data = pf.parquet(path, column="input_ids", metadata=["id"])
    feed = loader(data, sequences, shuffle="row", seed=5)
    for step, batch in enumerate(feed):
        table = batch["metadata"].to_pylist()
        origins = [
            {
                "sequence": row,
                "start": origin.offset,
                "stop": origin.offset + origin.num_tokens,
                "first_token": origin.first_token,
                "id": f"d{origin.row}",
            }
            for row in range(2)
            for origin in feed.locate(step, row)
        ]
        assert table == origins


def test_without_being_asked_for_nothing_arrives(tmp_path: Path):
    path = write(tmp_path / "a.parquet", columns())
    data = pf.parquet(path, column="input_ids", metadata=["id"], spans=["spans"])
    for sequences in (pf.Windows(8), pf.Packed(8)):
        [first, *_] = loader(data, sequences, fields=("input_ids",))
        assert set(first) == {"input_ids"}
        view = pf.SequenceView(data, sequences)
        assert set(view[0]) == {"input_ids", "spans"}  # It has no fields to ask for.
    plain = pf.parquet(path, column="input_ids")
    table = next(iter(loader(plain)))["metadata"]
    assert table.column_names == PLACES
    assert loader(plain).state_dict() == loader(data).state_dict()


def test_documents_tell_of_every_row(tmp_path: Path):
    path = write(tmp_path / "a.parquet", columns(5))
    data = pf.parquet(path, column="input_ids", metadata=["id"], spans=["spans"])
    documents = pf.Documents(max_length=3)
    batches = [*loader(data, documents, drop_last=False, batch_size=4)]
    assert set(batches[0]) == {*FIELDS, "lengths"}
    found = [row for batch in batches for row in batch["metadata"].to_pylist()]
    assert [row["id"] for row in found] == ["d0", "d1", "d2", "d3", "d4"]
    assert [row["stop"] for row in found] == [0, 1, 2, 3, 3]
    assert found[4]["spans"] == [{"start": 0, "end": 3, "name": "all of 4"}]
    chosen = pf.Documents(columns=["id"], max_length=3)
    batch = next(iter(loader(data, chosen)))
    assert pa.array(batch["id"]).to_pylist() == ["d0", "d1"]
    with pytest.raises(InvalidArgumentError, match="max_length"):
        loader(data, pf.Documents())


def test_what_a_dataset_lacks_is_null(tmp_path: Path):
    one = columns(20) | {"only": list(range(20))}
    first = write(tmp_path / "lang=en" / "a.parquet", one)
    other = {"input_ids": [[1000 + n] for n in range(9)]}
    second = write(tmp_path / "b.parquet", other)
    parts = {
        "a": (
            pf.parquet(first, column="input_ids", metadata=["only", "lang"]),
            0.5,
        ),
        "b": (pf.parquet(second, column="input_ids"), 0.5),
    }
    for sequences in (pf.Windows(8), pf.Documents(max_length=4)):
        found = []
        for batch in loader(pf.mix(parts, stop="all_exhausted"), sequences, seed=2):
            for row in batch["metadata"].to_pylist():
                token = int(batch["input_ids"][row["sequence"], row["start"]])
                if row["start"] < row["stop"]:
                    found.append((token, row["only"], row["lang"]))
        assert {place is None for _, place, _ in found} == {True, False}
        for token, only, lang in found:
            if token >= 1000:
                assert (only, lang) == (None, None)
            else:
                assert (only, lang) == (token // 10 - 1, "en")


def test_texts_that_are_tokenized_tell_too(tmp_path: Path):
    texts = ["one two three", "two", "three one"]
    path = write(tmp_path / "a.parquet", {"text": texts, "n": [5, 6, 7]})
    data = pf.parquet(path, column="text", metadata=["n"]).tokenize(make_tokenizer())
    [batch] = loader(data, pf.Windows(64, eos=0), batch_size=1, drop_last=False)
    table = pa.table(batch["metadata"]).to_pydict()
    assert table["n"] == [5, 6, 7]
    assert table["start"] == [0, *(stop + 1 for stop in table["stop"][:2])]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"metadata": ["nothing"]}, ColumnNotFoundError, "nothing"),
        ({"spans": ["nothing"]}, ColumnNotFoundError, "nothing"),
        ({"spans": ["id"]}, UnsupportedError, "id: Utf8 holds no spans.*`start`"),
        ({"spans": ["pairs"]}, UnsupportedError, "pairs: List.*no spans.*`end`"),
        ({"spans": ["input_ids"]}, InvalidArgumentError, "other than 'input_ids'"),
        (
            {"metadata": ["id"], "spans": ["id"]},
            InvalidArgumentError,
            "none of them twice",
        ),
        ({"metadata": "id"}, InvalidArgumentError, r"\['id'\]"),
        ({"metadata": ["start"]}, InvalidArgumentError, "already has a column 'start'"),
        (
            {"aligned": ["metadata"]},
            InvalidArgumentError,
            "a batch has a field 'metadata'",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, options: Any, error: Any, words: str
):
    table = columns() | {"pairs": [[{"start": 1}]] * COUNT, "start": range(COUNT)}
    path = write(tmp_path / "a.parquet", table)
    with pytest.raises(error, match=words):
        loader(pf.parquet(path, column="input_ids", **options))


def test_datasets_that_disagree_are_refused(tmp_path: Path):
    first = write(tmp_path / "a.parquet", columns())
    other = columns() | {"id": [[n] for n in range(COUNT)]}
    second = write(tmp_path / "b.parquet", other)
    one, two = (
        pf.parquet(path, column="input_ids", metadata=["id"])
        for path in (first, second)
    )
    with pytest.raises(UnsupportedError, match=r"column id: it is Utf8.*List"):
        loader(pf.mix({"a": one, "b": two}))
    spans = pf.parquet(first, column="input_ids", spans=["id"])
    with pytest.raises(InvalidArgumentError, match="named by spans= of one"):
        loader(pf.mix({"a": one, "b": spans}))
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "raw.bin")
    raw = pf.tokens(tmp_path / "raw.bin", dtype="uint16")
    with pytest.raises(InvalidArgumentError, match="needs documents"):
        loader(raw, pf.Windows(8))


@pytest.mark.parametrize(("start", "end"), [(0, 7), (-1, 2), (3, 2), (None, 3)])
@pytest.mark.parametrize("sequences", [pf.Windows(8), pf.Documents(max_length=4)])
def test_spans_beyond_their_document_are_refused(
    tmp_path: Path, start: int | None, end: int, sequences: Any
):
    table = columns()
    table["spans"][34] = [{"start": start, "end": end, "name": "wrong"}]
    path = write(tmp_path / "a.parquet", table, row_group_size=20)
    data = pf.parquet(path, column="input_ids", spans=["spans"])
    with pytest.raises(DataError, match="a span from") as found:
        [*loader(data, sequences)]
    told = str(found.value) + "".join(found.value.__notes__)
    assert "a.parquet" in told
    row = 34 if isinstance(sequences, pf.Documents) else 14
    assert f"row {row} of the {'file' if row == 34 else 'row group'}" in told


def test_a_damaged_page_names_itself_and_is_passed_over(tmp_path: Path):
    path = write(
        tmp_path / "a.parquet",
        columns(200),
        row_group_size=50,
        write_page_checksum=True,
        use_dictionary=False,
        compression="none",
    )
    data = pf.parquet(path, column="input_ids", metadata=["id"])
    bytes_of = bytearray(Path(path).read_bytes())
    place = bytes_of.index(b"d77")
    bytes_of[place] = 0
    stamp = Path(path).stat()
    Path(path).write_bytes(bytes_of)
    assert Path(path).stat().st_size == stamp.st_size
    feed = loader(data)
    batches = iter(feed)
    found: list[Any] = []
    with pytest.raises(CorruptFileError, match="CRC-32") as error:
        found += batches
    assert error.value.column == "id"
    assert error.value.row_group == 1
    feed.skip(error.value.steps)
    found += batches
    names = {row["id"] for batch in found for row in batch["metadata"].to_pylist()}
    assert {"d1", "d40", "d120", "d199"} <= names
    assert "d77" not in names


def test_the_forecast_counts_what_is_told(tmp_path: Path):
    path = write(tmp_path / "a.parquet", columns(4000), data_page_size=500)
    data = pf.parquet(path, column="input_ids", metadata=["id"], spans=["spans"])
    mixture = pf.mix({"a": (data, 1.0)}, stop="all_exhausted")
    sources: list[Any] = [data, mixture]
    for source in sources:
        plain, told = (
            pf.forecast(loader(source, pf.Windows(16), fields=fields)).needed_bytes
            for fields in (("input_ids",), FIELDS)
        )
        assert told > plain


def test_a_page_is_read_once_though_many_share_it(tmp_path: Path):
    count = 4000
    rows = [[n % 1000] * 20 for n in range(count)]
    names = [f"{n:030}" for n in range(count)]
    table = {"input_ids": rows, "id": names}
    options: dict[str, Any] = {"use_dictionary": False, "compression": "none"}
    options |= {"data_page_size": 4000, "write_batch_size": 20}
    path = write(tmp_path / "a.parquet", table, **options)
    plain = pf.parquet(path, column="input_ids")
    told = pf.parquet(path, column="input_ids", metadata=["id"])
    pages = len(told.column_index("id"))
    assert len(plain.index) > 20
    read = {}
    for name, data in (("plain", plain), ("told", told)):
        # Batches of which one plan has all: without a next one pages are let go of.
        feed = loader(data, pf.Windows(64), shuffle="page", batch_size=256)
        for batch in feed:
            assert len(batch["metadata"])
        read[name] = feed.stats()["bytes_read"]
    extra = read["told"] - read["plain"]
    assert pages > 1
    assert count * 30 <= extra <= count * 36
