"""Spans of streams in batches: where they arrive, what they cost, what is refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pagefeed as pf
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedError,
)

DTYPE = [("token", "u2"), ("weight", "f4")]
FIELDS = ("input_ids", "document_ids", "metadata")
PAYLOADS = [b"a", b"one", bytes(300)]


def write(folder: Path, shards: int = 2) -> str:
    """Shards of documents of 20 tokens, with three spans each."""
    for shard in range(shards):
        path = folder / str(shard)
        with pf.StreamWriter(path, dtype=DTYPE, serialize="bytes") as out:
            for document in range(10):
                tokens = np.arange(20) + 1000 * shard + 20 * document
                places = ((0, 5), (5, 9), (12, 20))
                both = zip(places, PAYLOADS, strict=True)
                spans = [(*place, payload) for place, payload in both]
                out.append(tokens, weight=tokens / 2, spans=spans)
    return str(folder)


def loader(data: Any, sequences: Any = None, **options: Any) -> pf.Loader:
    settings = {"batch_size": 2, "shuffle": None, "fields": FIELDS} | options
    return pf.Loader(data, sequences=sequences or pf.Windows(16), **settings)


def spans_of(batch: dict[str, Any], name: str = "spans") -> list[Any]:
    return [span for part in pa.table(batch["metadata"])[name] for span in part]


@pytest.mark.parametrize(
    "sequences", [pf.Windows(20), pf.Packed(20), pf.Documents(max_length=15)]
)
def test_payloads_come_back_as_they_were_written(tmp_path: Path, sequences: Any):
    data = pf.stream(write(tmp_path))
    found = [
        span["payload"].as_py()
        for span in spans_of(next(iter(loader(data, sequences))))
    ]
    assert found == (PAYLOADS * 2)[: len(found)]
    assert len(found) >= 5


def test_they_are_named_left_out_and_told_of(tmp_path: Path):
    folder = write(tmp_path)
    assert pf.stream(folder).span_columns == ("spans",)
    named, plain = pf.stream(folder, spans=["concepts"]), pf.stream(folder, spans=[])
    assert "spans=['concepts']" in repr(named)
    places = ["sequence", "start", "stop", "first_token"]
    for data, names in ((named, ["concepts"]), (plain, [])):
        batch = next(iter(loader(data)))
        assert batch["metadata"].column_names == [*places, *names]
    assert named.fingerprint == plain.fingerprint
    assert loader(named).state_dict() == loader(plain).state_dict()
    row = named[3]
    assert row["concepts"][1] == {"start": 5, "end": 9, "payload": b"one"}
    assert set(row) == {"input_ids", "concepts"}
    again = pickle.loads(pickle.dumps(named))
    assert again[3] == row
    part = named.split(one=0.5, seed=3)["one"]
    table = next(iter(loader(part, pf.Documents(max_length=20))))["metadata"]
    [first, *_] = table.to_pylist()
    assert [span["end"] for span in first["concepts"]] == [5, 9, 20]


def test_without_being_asked_for_nothing_is_read(tmp_path: Path):
    data = pf.stream(write(tmp_path))
    plain, told = loader(data, fields=("input_ids",)), loader(data)
    for feed in (plain, told):
        for _ in feed:
            pass
    names = ("index_reads", "payload_reads")
    assert [plain.stats()[name] for name in names] == [0, 0]
    assert min(told.stats()[name] for name in names) > 0
    extra = told.stats()["bytes_read"] - plain.stats()["bytes_read"]
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.out_of_band.*"))
    assert 0.5 * size < extra < 2 * size


def test_aligned_numbers_are_columns_of_rows_too(tmp_path: Path):
    data = pf.stream(write(tmp_path), aligned={"weight": -1})
    assert data[2]["weight"] == [20.0 + n / 2 for n in range(20)]
    [batch, *_] = loader(data, pf.Documents(max_length=24, pad="max_length"))
    assert batch["weight"].dtype == np.float32
    ids, weight = batch["input_ids"], batch["weight"]
    assert (weight[:, 1:20] == ids[:, 1:20] / 2).all()
    assert (weight[:, 0] == 0).all()  # Nothing predicts a first token.
    assert (weight[:, 20:] == -1).all()
    [batch, *_] = loader(data, pf.Documents(), fields=("input_ids",))
    assert pa.array(batch["weight"]).to_pylist() == [data[n]["weight"] for n in (0, 1)]


def test_names_that_cannot_be_are_refused(tmp_path: Path):
    folder = write(tmp_path / "a")
    wrong: list[tuple[Any, str]] = [
        ("concepts", r"such as \['concepts'\]"),
        (["a", "b"], "one name"),
        (["input_ids"], "other than 'input_ids'"),
        (7, "list of columns"),
        ([1], "name or a dotted path"),
    ]
    for spans, words in wrong:
        with pytest.raises(InvalidArgumentError, match=words):
            pf.stream(folder, spans=spans)
    with pytest.raises(InvalidArgumentError, match="column 'start'"):
        loader(pf.stream(folder, spans=["start"]))
    with pf.StreamWriter(tmp_path / "b", dtype="u2") as out:
        out.append([1, 2, 3])
    assert pf.stream(tmp_path / "b").span_columns == ()
    with pytest.raises(ColumnNotFoundError, match=r"has none.*serialize="):
        pf.stream(tmp_path / "b", spans=["concepts"])
    unknown, plain = pf.Documents(columns=["nothing"]), ("input_ids",)
    with pytest.raises(ColumnNotFoundError, match="'input_ids', 'spans'"):
        loader(pf.stream(folder), unknown, fields=plain)


@pytest.mark.parametrize(
    ("tokens", "spans", "words"),
    [
        ([1, 2, 3], [(0, 2)], "start, stop, payload"),
        ([1, 2, 3], [{"start": 0, "end": 2, "payload": b"a"}], "payload of a span"),
        ([1, 2, 3], [(0.5, 2, b"a")], "whole numbers"),
        ([1, 2, 3], 7, "start, stop, payload"),
        ([1, 2, 3], [(0, 4, b"a")], "lie in the document"),
        ([1, 2, 3], [(0, 2, "text")], "is str 'text'"),
        ("abc", [], "in a row"),
        ([[1], [2]], [], "in a row"),
    ],
)
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, tokens: Any, spans: Any, words: str
):
    out = pf.StreamWriter(tmp_path, dtype="u2", serialize="bytes")
    with pytest.raises(InvalidArgumentError, match=words), out:
        out.append(tokens, spans=spans)


def test_shards_of_other_kinds_are_refused(tmp_path: Path):
    write(tmp_path / "a", shards=1)
    with pf.StreamWriter(tmp_path / "b", dtype=DTYPE) as out:
        out.append([1, 2], weight=[0, 0])
    with pytest.raises(UnsupportedError, match=r"records are.*with spans.*mix"):
        pf.stream(tmp_path)


@pytest.mark.parametrize("sequences", [pf.Windows(16), pf.Packed(20)])
def test_payloads_that_are_not_there_are_told_of(tmp_path: Path, sequences: Any):
    write(tmp_path)
    path = tmp_path / "1" / "0000000.in_band.bin"
    data = bytearray(path.read_bytes())
    records = np.frombuffer(data, [("index", "<i4"), ("user", DTYPE)])
    last = int(records["index"][-1])
    records["index"][records["index"] == last] = last + 1
    path.write_bytes(data)
    feed = loader(pf.stream(tmp_path), sequences, batch_size=1)
    batches, found = iter(feed), list[Any]()
    with pytest.raises(CorruptFileError, match="numbered one by one") as error:
        found += batches
    assert error.value.file == str(path)
    if isinstance(sequences, pf.Windows):
        assert len(found) == 24
        feed.skip(error.value.steps)  # All that lies in that page.
        assert [*batches] == []


@pytest.mark.parametrize("damage", ["cut", "short", "swapped", "falling"])
def test_files_of_payloads_that_do_not_fit_are_refused(tmp_path: Path, damage: str):
    write(tmp_path)
    folder, given = tmp_path / "0", dict[str, Any]()
    index, payloads = (folder / f"0000000.out_of_band.{s}" for s in ("index", "bin"))
    places = np.frombuffer(index.read_bytes(), "<i8").copy()
    if damage in ("cut", "short"):
        payloads.write_bytes(payloads.read_bytes()[:-1])
    elif damage == "swapped":
        index.write_bytes(payloads.read_bytes())
    else:
        places[3] = places[5]
        index.write_bytes(places.tobytes())
    words, name = "its manifest promises", index if damage == "swapped" else payloads
    if damage in ("short", "falling"):  # As files of GuideLoom, without a manifest.
        (folder / "stream.json").unlink()
        (folder / "0000000.documents.index").unlink()
        given = {"dtype": DTYPE, "column": "token"}
        words = "must follow" if damage == "falling" else "is truncated"
    with pytest.raises(CorruptFileError, match=words) as error:
        [*loader((pf.guideloom if given else pf.stream)(folder, **given))]
    assert f"{name}" in str(error.value)


def test_a_shard_that_changed_is_refused(tmp_path: Path):
    write(tmp_path, shards=1)
    data = pf.stream(tmp_path)
    next(iter(loader(data)))
    path = tmp_path / "0" / "0000000.out_of_band.bin"
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(pf.errors.StaleFileError, match=r"out_of_band\.bin"):
        [*loader(data)]


@pytest.mark.parametrize("cut", [pf.Windows(32, tail="drop"), pf.Packed(32)])
def test_a_view_has_the_spans_of_a_sequence(tmp_path, cut):
    dtype = [("token", "u2"), ("metadata", "u4")]
    with pf.StreamWriter(tmp_path / "s", dtype=dtype) as writer:
        for number in range(40):
            length = 5 + number * 7 % 50
            places = range(0, length, 9)
            spans = [(a, min(a + 5, length), b"%d:%d" % (number, a)) for a in places]
            writer.append(np.arange(length), spans=spans)
    stream = pf.stream(tmp_path / "s")
    view = pf.SequenceView(stream, cut)
    batches = loader(stream, cut, batch_size=1)
    items = view.__getitems__(range(len(view)))
    for item, batch in zip(items, batches, strict=False):
        assert item["input_ids"].tolist() == batch["input_ids"][0].tolist()
        assert item["spans"] == [span.as_py() for span in spans_of(batch)]
    assert sum(len(item["spans"]) for item in items) >= 100
    assert view[-1]["spans"] == items[-1]["spans"]
