"""Damaged flat files are refused by name, and never read as something else."""

import json
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import pagefeed as pf
from made import flat_files
from models.refusing import change, drained, refused, truncate
from pagefeed import errors

DOCUMENTS = flat_files.some_documents(60, longest=300)


def megatron(folder: Path) -> tuple[Path, Path]:
    flat_files.write_megatron(folder / "a", DOCUMENTS)
    return folder / "a.bin", folder / "a.idx"


def test_megatron_files_that_do_not_fit_each_other(tmp_path):
    tokens, index = megatron(tmp_path)
    truncate(tokens, 2)
    refused(errors.CorruptFileError, "truncated", lambda: pf.megatron(tokens), tokens)
    index.unlink()
    refused(
        errors.MissingFileError, "does not exist", lambda: pf.megatron(tokens), index
    )


@pytest.mark.parametrize(
    ("offset", "value", "match"),
    [
        (0, b"X", "does not begin like"),
        (9, b"\x02", "its version is 2"),
        (17, b"\x63", "has the number 99"),
        (17, b"\x00", "has the number 0"),
        (18, b"\xff", "it is truncated"),
        (34, b"\xff\xff\xff\xff", "sequence 0 of -1 tokens"),
        (34 + 4 * 60 + 8, b"\x01", "sequence 1"),
        (34 + 12 * 60, b"\x01", "do not divide"),
        (34 + 12 * 60 + 8, b"\x40", "do not divide"),
    ],
)
def test_megatron_indexes(tmp_path, offset, value, match):
    tokens, index = megatron(tmp_path)
    change(index, offset, value)
    refused(errors.CorruptFileError, match, lambda: pf.megatron(tokens), index)


@pytest.mark.parametrize("code", [6, 7])
def test_megatron_of_floats(tmp_path, code):
    tokens, index = megatron(tmp_path)
    change(index, 17, bytes([code]))
    refused(errors.UnsupportedError, "integers", lambda: pf.megatron(tokens), index)


def stream(folder: Path) -> Path:
    dtype = [("token", "u2"), ("metadata", "u4")]
    with pf.StreamWriter(folder, dtype=dtype) as out:
        for number, document in enumerate(DOCUMENTS):
            out.append(document, spans=[(0, 1, b"%d" % number)])
    return folder


@pytest.mark.parametrize(
    "name", ["stream.bin", "documents.index", "metadata.index", "metadata.bin"]
)
def test_truncated_shards(tmp_path, name):
    folder = stream(tmp_path / "s")
    truncate(folder / name, 1)
    path = folder / name
    refused(errors.CorruptFileError, "truncated", lambda: pf.stream(folder), path)
    path.unlink()
    refused(errors.MissingFileError, "not exist", lambda: pf.stream(folder), path)


def test_shards_with_files_of_another(tmp_path):
    folder = stream(tmp_path / "s")
    pf.stream(folder).check_contents()
    for name in ("stream.bin", "metadata.bin", "metadata.index"):
        found = (folder / name).read_bytes()
        change(folder / name, 3, b"\xee")
        with pytest.raises(errors.ChecksumError, match=name):
            pf.stream(folder).check_contents()
        (folder / name).write_bytes(found)
    change(folder / "documents.index", 8, b"\xff\xff\xff")
    path = folder / "documents.index"
    refused(errors.CorruptFileError, "must rise", lambda: pf.stream(folder), path)


def test_shards_in_another_order_are_another_dataset(tmp_path):
    first, second = stream(tmp_path / "0"), stream(tmp_path / "1")
    with pf.StreamWriter(
        tmp_path / "2", dtype=[("token", "u2"), ("metadata", "u4")]
    ) as out:
        out.append([5] * 500)
    prints = {
        pf.stream([first, tmp_path / "2"]).fingerprint,
        pf.stream([tmp_path / "2", first]).fingerprint,
    }
    assert len(prints) == 2
    assert (
        pf.stream([first, tmp_path / "2"]).fingerprint
        == pf.stream([second, tmp_path / "2"]).fingerprint
    )
    settings: dict[str, Any] = {
        "sequences": pf.Windows(64),
        "batch_size": 2,
        "seed": 1,
        "rank": 0,
    }
    feed = pf.Loader(pf.stream([first, tmp_path / "2"]), **settings, world_size=1)
    other = pf.Loader(pf.stream([tmp_path / "2", first]), **settings, world_size=1)
    with pytest.raises(errors.StateMismatchError):
        other.load_state_dict(feed.state_dict())


def test_shards_of_other_types(tmp_path):
    stream(tmp_path / "0")
    with pf.StreamWriter(tmp_path / "1", dtype="uint16") as out:
        out.append([1, 2])
    path = tmp_path / "1" / "stream.bin"
    match = "make a dataset of each kind"
    refused(errors.UnsupportedError, match, lambda: pf.stream(tmp_path), path)


def rewritten(path: Path, **changes: object) -> None:
    """A header with other content, under a checksum that is right."""
    content = json.loads(path.read_bytes())["content"] | changes
    text = json.dumps(content)
    checksum = zlib.crc32(text.encode())
    path.write_text(f'{{"checksum": {checksum}, "content": {text}}}\n')


@pytest.mark.parametrize(
    ("changes", "kind", "match"),
    [
        ({"version": 2}, errors.UnsupportedError, "version 2"),
        ({"format": "other"}, errors.UnsupportedError, "other"),
        ({"dtype": "<f4"}, errors.UnsupportedError, "integers"),
        ({"dtype": "nonsense"}, errors.CorruptFileError, "lacks something"),
        ({"num_tokens": 7}, errors.CorruptFileError, "do not fit"),
        ({"num_documents": 7}, errors.CorruptFileError, "do not fit"),
        ({"num_payloads": 7}, errors.CorruptFileError, "do not fit"),
        ({"files": {}}, errors.CorruptFileError, "do not fit"),
        ({"num_tokens": None}, errors.CorruptFileError, "lacks something"),
        ({"num_documents": -1}, errors.CorruptFileError, "lacks something"),
        ({"num_tokens": float("inf")}, errors.CorruptFileError, "lacks something"),
        ({"dtype": "u2,(2"}, errors.CorruptFileError, "lacks something"),
        ({"dtype": 7}, errors.CorruptFileError, "lacks something"),
        ({"serialization": "pickle"}, errors.CorruptFileError, "lacks something"),
        (
            {"files": {"../a": {"bytes": 1, "crc32": 1}}},
            errors.CorruptFileError,
            "lacks something",
        ),
    ],
)
def test_headers_that_say_something_else(tmp_path, changes, kind, match):
    path = stream(tmp_path) / "stream.json"
    rewritten(path, **changes)
    refused(kind, match, lambda: pf.stream(tmp_path), path)


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b"[" * 99_999, b"\xff\xfe", None]
)
def test_damaged_headers(tmp_path, damage):
    path = stream(tmp_path) / "stream.json"
    if damage is None:
        path.write_bytes(path.read_bytes().replace(b"num_tokens", b"num_tokenz"))
    else:
        path.write_bytes(damage)
    refused(errors.CorruptFileError, "damaged", lambda: pf.stream(tmp_path), path)


def test_mds_shards(tmp_path):
    folder = flat_files.write_mds(tmp_path, DOCUMENTS, shards=2)
    path = tmp_path / "shard.00000.mds"
    whole = path.read_bytes()
    refused_as = errors.CorruptFileError
    truncate(path, 1)
    refused(refused_as, "truncated", lambda: pf.mds(folder), path)
    path.write_bytes(whole)
    change(path, 0, b"\x07")
    refused(refused_as, "its head speaks of 7 samples", lambda: pf.mds(folder), path)
    path.write_bytes(whole)
    change(path, 8, b"\xff\xff")
    refused(refused_as, "head speaks|too short|beyond", lambda: pf.mds(folder), path)
    path.unlink()
    with pytest.raises(errors.MissingFileError):
        pf.mds(folder)


def described(folder: Path, **changes: object) -> Path:
    path = folder / "index.json"
    index = json.loads(path.read_text())
    index["shards"][0] |= changes
    path.write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    ("changes", "kind", "match"),
    [
        ({"format": "csv"}, errors.UnsupportedError, "csv"),
        ({"version": 3}, errors.UnsupportedError, "version 2"),
        ({"column_encodings": ["str", "pkl"]}, errors.UnsupportedError, "'pkl'"),
        (
            {"column_encodings": ["str", "ndarray:float32"]},
            errors.UnsupportedError,
            "int",
        ),
        ({"column_encodings": ["str", "bytes"]}, errors.InvalidArgumentError, "dtype="),
        ({"column_names": ["a", "b"]}, errors.ColumnNotFoundError, "'input_ids'"),
        ({"raw_data": {}}, errors.CorruptFileError, "no index"),
        (
            {"raw_data": {"basename": "../a", "bytes": 1}},
            errors.CorruptFileError,
            "not the name of a file",
        ),
        ({"column_names": None}, errors.CorruptFileError, "no index"),
        ({"column_names": []}, errors.CorruptFileError, "no index"),
        ({"column_encodings": []}, errors.CorruptFileError, "no index"),
        ({"column_sizes": [2**70, -1]}, errors.CorruptFileError, "no index"),
        ({"samples": -3}, errors.CorruptFileError, "no index"),
        ({"samples": 2**70}, errors.CorruptFileError, "no index"),
        ({"samples": None}, errors.CorruptFileError, "no index"),
        (
            {"column_encodings": ["str", "ndarray:nonsense"]},
            errors.CorruptFileError,
            "nonsense",
        ),
        ({"format": []}, errors.UnsupportedError, "only 'mds'"),
    ],
)
def test_mds_indexes(tmp_path, changes, kind, match):
    folder = described(flat_files.write_mds(tmp_path, DOCUMENTS), **changes)
    with pytest.raises(kind, match=match):
        drained(pf.mds(folder))


def test_mds_indexes_that_lack_something(tmp_path):
    folder = flat_files.write_mds(tmp_path, DOCUMENTS)
    path = folder / "index.json"
    index = json.loads(path.read_text())
    for damaged in [
        *(
            index
            | {"shards": [{k: v for k, v in index["shards"][0].items() if k != name}]}
            for name in (
                "format",
                "samples",
                "column_names",
                "column_sizes",
                "raw_data",
            )
        ),
        {"shards": {"a": 1}},
        {"shards": 7},
        [],
    ]:
        path.write_text(json.dumps(damaged))
        refused(errors.CorruptFileError, "no index", lambda: pf.mds(folder), path)


def test_payloads_of_other_types(tmp_path):
    dtype = [("token", "u2"), ("metadata", "u4")]
    with pf.StreamWriter(tmp_path, dtype=dtype, serialize="numpy") as out:
        out.append([1, 2], spans=[(0, 1, np.arange(6).reshape(2, 3))])
    dataset = pf.stream(tmp_path)
    assert dataset.payload(b"<i2 (2, 1)\n1234").shape == (2, 1)
    for payload in (
        b"<i2 (4611686018427387904, 4)\n",
        b"<i2 (-1,)\n1234",
        b"<i2 " + b"-" * 50_000 + b"1\n",
        b"<i2 (1180591620717411303424,)\n",
        b"i4,(2 (0,)\n",
        b"O (1,)\n12345678",
        b"\xff",
        b"",
    ):
        with pytest.raises(errors.CorruptFileError, match="payload is damaged"):
            dataset.payload(payload)
    data = (tmp_path / "metadata.bin").read_bytes()
    (tmp_path / "metadata.bin").write_bytes(b"O" * len(data))
    with pytest.raises(errors.CorruptFileError, match="payload is damaged") as caught:
        dataset.document(0)
    assert caught.value.file == str(tmp_path / "metadata.bin")


def test_a_writer_that_fails_leaves_no_shard(tmp_path):
    def fail() -> None:
        with pf.StreamWriter(tmp_path, dtype="u2") as out:
            out.append([1, 2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(errors.MissingFileError, match=r"stream\.json"):
        pf.stream(tmp_path)


def test_what_a_writer_refuses(tmp_path):
    dtype = [("token", "u2"), ("weight", "f4"), ("metadata", "u4")]
    with pf.StreamWriter(tmp_path / "a", dtype=dtype) as out:
        with pytest.raises(errors.TokenRangeError, match="wider dtype"):
            out.append([1, 70_000], weight=[0, 0])
        with pytest.raises(errors.InvalidArgumentError, match="whole"):
            out.append([0.5], weight=[0])
        with pytest.raises(errors.InvalidArgumentError, match="asks for"):
            out.append([1, 2])
        with pytest.raises(errors.InvalidArgumentError, match="one number each"):
            out.append([1, 2], weight=[1])
        for spans in (
            [(0, 3, b"")],
            [(1, 1, b"")],
            [(0, 2, b""), (1, 2, b"")],
            [(-1, 1, b"")],
        ):
            with pytest.raises(errors.InvalidArgumentError, match="do not overlap"):
                out.append([1, 2], weight=[1, 1], spans=spans)
        with pytest.raises(errors.InvalidArgumentError, match="not bytes"):
            out.append([1, 2], weight=[1, 1], spans=[(0, 1, "text")])
    assert len(pf.stream(tmp_path)) == 0
    with pytest.raises(errors.InvalidArgumentError, match="is closed"):
        out.append([1], weight=[1])
    with pytest.raises(errors.InvalidArgumentError, match="has a shard already"):
        pf.StreamWriter(tmp_path / "a", dtype="u2")
    with pytest.raises(errors.InvalidArgumentError, match="no field 'token'"):
        pf.StreamWriter(tmp_path / "b", dtype=[("tokens", "u2")])
    with pytest.raises(errors.InvalidArgumentError, match="serialize="):
        pf.StreamWriter(tmp_path / "b", dtype="u2", serialize=cast("Any", "json"))
