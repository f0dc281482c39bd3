"""Spans of streams in batches: where they arrive, what they cost, what is refused."""

import json
import pickle
import zlib
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

DTYPE = [("token", "u2"), ("weight", "f4"), ("metadata", "u4")]
FIELDS = ("input_ids", "document_ids", "metadata")
KINDS: dict[Any, Any] = {
    "bytes": [b"", b"one", bytes(300)],
    "numpy": [np.arange(3), np.float32(2.5), np.zeros((2, 0))],
    "msgpack": [{"a": [1, None]}, "text", 7],
    str.encode: ["of my own", "", "x"],
}


def write(folder: Path, kind: Any = "bytes", shards: int = 2) -> str:
    """Shards of documents of 20 tokens, with three spans each."""
    for shard in range(shards):
        path = folder / str(shard)
        with pf.StreamWriter(path, dtype=DTYPE, serialize=kind) as out:
            for document in range(10):
                tokens = np.arange(20) + 1000 * shard + 20 * document
                places = ((0, 5), (5, 9), (12, 20))
                both = zip(places, KINDS[kind], strict=True)
                spans = [(*place, payload) for place, payload in both]
                out.append(tokens, weight=tokens / 2, spans=spans)
    return str(folder)


def loader(data: Any, sequences: Any = None, **options: Any) -> pf.Loader:
    settings = {"batch_size": 2, "shuffle": None, "fields": FIELDS} | options
    return pf.Loader(data, sequences=sequences or pf.Windows(16), **settings)


def spans_of(batch: dict[str, Any], name: str = "spans") -> list[Any]:
    return [span for part in pa.table(batch["metadata"])[name] for span in part]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sequences", [pf.Windows(20), pf.Packed(20), pf.Documents(max_length=15)]
)
def test_payloads_come_back_as_they_were_written(
    tmp_path: Path, kind: Any, sequences: Any
):
    if kind == "msgpack":
        pytest.importorskip("msgpack", reason="msgpack is not installed")
    data = pf.stream(write(tmp_path, kind))
    spans = spans_of(next(iter(loader(data, sequences))))
    assert len(spans) >= 5
    for span, expected in zip(spans, KINDS[kind] * 3, strict=False):
        found = data.payload(span["payload"].as_py())
        if callable(kind):
            found = found.decode()
        np.testing.assert_array_equal(found, expected)
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


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
    size = sum(path.stat().st_size for path in tmp_path.rglob("metadata.*"))
    assert 0.5 * size < extra < 2 * size


def test_aligned_numbers_are_columns_of_rows_too(tmp_path: Path):
    data = pf.stream(write(tmp_path), aligned={"weight": -1})
    assert data[2]["weight"] == [20.0 + n / 2 for n in range(20)]
    [batch, *_] = loader(data, pf.Documents(max_length=24, pad="max_length"))
    assert batch["weight"].dtype == np.float32
    ids, weight = batch["input_ids"], batch["weight"]
    assert (weight[:, :20] == ids[:, :20] / 2).all()
    assert (weight[:, 20:] == -1).all()
    [batch, *_] = loader(data, pf.Documents(), fields=("input_ids",))
    assert pa.array(batch["weight"]).to_pylist() == [data[n]["weight"] for n in (0, 1)]


def test_names_that_cannot_be_are_refused(tmp_path: Path):
    folder = write(tmp_path / "a")
    wrong: list[tuple[Any, str]] = [
        ("concepts", r"such as \['concepts'\]"),
        (["a", "b"], "one name"),
        (["input_ids"], "beside 'input_ids'"),
        (7, "list of columns"),
        ([1], "name or a dotted path"),
    ]
    for spans, words in wrong:
        with pytest.raises(InvalidArgumentError, match=words):
            pf.stream(folder, spans=spans)
    with pytest.raises(InvalidArgumentError, match="'start' of its own"):
        loader(pf.stream(folder, spans=["start"]))
    with pf.StreamWriter(tmp_path / "b", dtype="u2") as out:
        out.append([1, 2, 3])
    assert pf.stream(tmp_path / "b").span_columns == ()
    with pytest.raises(ColumnNotFoundError, match=r"has none.*'metadata'"):
        pf.stream(tmp_path / "b", spans=["concepts"])
    unknown, plain = pf.Documents(columns=["nothing"]), ("input_ids",)
    with pytest.raises(ColumnNotFoundError, match="'input_ids', 'spans'"):
        loader(pf.stream(folder), unknown, fields=plain)


@pytest.mark.parametrize(
    ("tokens", "spans", "words"),
    [
        ([1, 2, 3], [(0, 2)], "start, stop, payload"),
        ([1, 2, 3], [{"start": 0, "end": 2, "payload": b""}], "spans begin|payload is"),
        ([1, 2, 3], [(0.5, 2, b"")], "whole numbers"),
        ([1, 2, 3], 7, "start, stop, payload"),
        ([1, 2, 3], [(0, 4, b"")], "lie in the document"),
        ([1, 2, 3], [(0, 2, "text")], "is str, not bytes"),
        ("abc", [], "numbers in a row"),
        ([[1], [2]], [], "numbers in a row"),
    ],
)
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, tokens: Any, spans: Any, words: str
):
    out = pf.StreamWriter(tmp_path, dtype=[("token", "u2"), ("metadata", "u4")])
    with pytest.raises(InvalidArgumentError, match=words), out:
        out.append(tokens, spans=spans)


def test_bytes_that_are_no_payload_are_refused(tmp_path: Path):
    data = pf.stream(write(tmp_path / "a", "numpy", shards=1))
    with pytest.raises(CorruptFileError, match="payload is damaged"):
        data.payload(b"wrong")
    with pytest.raises(InvalidArgumentError, match="must be bytes"):
        data.payload(7)  # type: ignore[arg-type]
    pytest.importorskip("msgpack", reason="msgpack is not installed")
    data = pf.stream(write(tmp_path / "b", "msgpack", shards=1))
    with pytest.raises(CorruptFileError, match="payload is damaged"):
        data.payload(b"\xc1")
    assert pf.stream(tmp_path / "b" / "0" / "stream.bin")[0] == data[0]


def test_shards_of_other_kinds_are_refused(tmp_path: Path):
    write(tmp_path / "a", "bytes", shards=1)
    write(tmp_path / "b", "numpy", shards=1)
    with pytest.raises(UnsupportedError, match=r"payloads are 'numpy'.*'bytes'.*mix"):
        loader(pf.stream(tmp_path))
    other = [("token", "u2"), ("metadata", "u4"), ("weight", "f4")]
    with pf.StreamWriter(tmp_path / "b2", dtype=other) as out:
        out.append([1, 2], weight=[0, 0])
    with pytest.raises(UnsupportedError, match="records are"):
        loader(pf.stream([tmp_path / "a", tmp_path / "b2"]))


def rewrite_header(folder: Path) -> None:
    """Make the checksums of a shard those of its files, as whoever wrote them would."""
    path = folder / "stream.json"
    content = json.loads(path.read_text())["content"]
    for name, facts in content["files"].items():
        data = (folder / name).read_bytes()
        facts |= {"bytes": len(data), "crc32": zlib.crc32(data)}
    text = json.dumps(content, indent=1)
    path.write_text(f'{{"checksum": {zlib.crc32(text.encode())}, "content": {text}}}\n')


@pytest.mark.parametrize("sequences", [pf.Windows(16), pf.Packed(20)])
def test_payloads_that_are_not_there_are_told_of(tmp_path: Path, sequences: Any):
    write(tmp_path)
    shard = tmp_path / "1"
    path = shard / "stream.bin"
    records = np.frombuffer(path.read_bytes(), DTYPE).copy()
    records["metadata"][records["metadata"] == 7] = 30
    path.write_bytes(records.tobytes())
    rewrite_header(shard)
    feed = loader(pf.stream(tmp_path), sequences, batch_size=1)
    batches, found = iter(feed), list[Any]()
    with pytest.raises(CorruptFileError, match=r"names payload 30.*has 30") as error:
        found += batches
    assert error.value.file == str(path)
    if isinstance(sequences, pf.Windows):
        assert len(found) == 15
        feed.skip(error.value.steps)  # All that lies in that page.
        assert [*batches] == []


@pytest.mark.parametrize("damage", ["cut", "swapped", "falling"])
def test_files_of_payloads_that_do_not_fit_are_refused(tmp_path: Path, damage: str):
    write(tmp_path)
    index, payloads = (tmp_path / "0" / f"metadata.{end}" for end in ("index", "bin"))
    places = np.frombuffer(index.read_bytes(), "<u8").copy()
    if damage == "cut":
        payloads.write_bytes(payloads.read_bytes()[:-1])
    elif damage == "swapped":
        index.write_bytes(payloads.read_bytes())
    else:
        places[3] = places[5]
        index.write_bytes(places.tobytes())
        rewrite_header(tmp_path / "0")
    words = (
        "metadata.index: payloads must follow" if damage == "falling" else "truncated"
    )
    with pytest.raises(CorruptFileError, match=words):
        [*loader(pf.stream(tmp_path))]


def test_a_shard_that_changed_is_refused(tmp_path: Path):
    write(tmp_path, shards=1)
    data = pf.stream(tmp_path)
    next(iter(loader(data)))
    path = tmp_path / "0" / "metadata.bin"
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(pf.errors.StaleFileError, match=r"metadata\.bin"):
        [*loader(data)]
