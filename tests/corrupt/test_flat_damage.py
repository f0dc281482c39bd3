"""Damaged flat files are refused by name, and never read as something else."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

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
    with pf.StreamWriter(folder, dtype="u2", serialize="bytes") as out:
        for number, document in enumerate(DOCUMENTS):
            out.append(document, spans=[(0, 1, b"%d" % number)])
    return folder


@pytest.mark.parametrize(
    "suffix",
    ["in_band.bin", "documents.index", "out_of_band.index", "out_of_band.bin"],
)
def test_truncated_shards(tmp_path, suffix):
    folder, name = stream(tmp_path / "s"), f"0000000.{suffix}"
    truncate(folder / name, 1)
    path = folder / name
    refused(errors.CorruptFileError, "truncated", lambda: pf.stream(folder), path)
    path.unlink()
    refused(errors.MissingFileError, "not exist", lambda: pf.stream(folder), path)


def test_borders_that_fall(tmp_path):
    folder = stream(tmp_path / "s")
    path = folder / "0000000.documents.index"
    change(path, 8, b"\xff\xff\xff")
    refused(errors.CorruptFileError, "must rise", lambda: pf.stream(folder), path)


def test_shards_in_another_order_are_another_dataset(tmp_path):
    first, second = stream(tmp_path / "0"), stream(tmp_path / "1")
    with pf.StreamWriter(tmp_path / "2", dtype="u2", serialize="bytes") as out:
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
    path = tmp_path / "1"
    match = "make a dataset of each kind"
    refused(errors.UnsupportedError, match, lambda: pf.stream(tmp_path), path)


def rewritten(path: Path, **changes: object) -> None:
    """A manifest with other content, under a digest that is right."""
    content = json.loads(path.read_bytes())["content"] | changes
    text = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    path.write_text(json.dumps({"digest": digest, "content": content}))


@pytest.mark.parametrize(
    ("changes", "kind", "match"),
    [
        ({"version": 3}, errors.UnsupportedError, "version 3"),
        ({"version": 1}, errors.UnsupportedError, "write it again by StreamWriter"),
        ({"format": "other"}, errors.UnsupportedError, "other"),
        ({"dtype": "<f4"}, errors.CorruptFileError, "lacks something.*integers"),
        ({"dtype": [["a", "<u2"]]}, errors.CorruptFileError, "lacks something"),
        ({"dtype": "nonsense"}, errors.CorruptFileError, "lacks something"),
        ({"dtype": "u2,(2"}, errors.CorruptFileError, "lacks something"),
        ({"dtype": 7}, errors.CorruptFileError, "lacks something"),
        ({"suffixes": ["/../a"]}, errors.CorruptFileError, "lacks something"),
        ({"sizes": []}, errors.CorruptFileError, "lacks something"),
        ({"sizes": [[1, 2, 3]]}, errors.CorruptFileError, "lacks something"),
        ({"sizes": [[1, 2, 3, -4]]}, errors.CorruptFileError, "lacks something"),
        ({"sizes": [[1, 2, 3, 1e300]]}, errors.CorruptFileError, "lacks something"),
        ({"sizes": [[1, 2, 3, 1e400]]}, errors.CorruptFileError, "JSON has no number"),
        ({"digests": []}, errors.CorruptFileError, "lacks something"),
        ({"digests": ["../a"]}, errors.CorruptFileError, "lacks something"),
    ],
)
def test_manifests_that_say_something_else(tmp_path, changes, kind, match):
    path = stream(tmp_path) / "stream.json"
    rewritten(path, **changes)
    refused(kind, match, lambda: pf.stream(tmp_path), path)


def test_shards_that_are_missing_or_added_are_named(tmp_path):
    for shard in (2, 0, 1):  # In any order; the last to be closed writes the manifest.
        with pytest.raises(errors.MissingFileError, match=r"stream\.json"):
            pf.stream(tmp_path)
        with pf.StreamWriter(tmp_path, dtype="u2", shard=shard, num_shards=3) as out:
            out.append([shard])
    assert [row["input_ids"] for row in pf.stream(tmp_path)] == [[0], [1], [2]]
    with pytest.raises(errors.InvalidArgumentError, match="has a stream"):
        pf.StreamWriter(tmp_path, dtype="u2", shard=3, num_shards=4)
    last = tmp_path / "0000002.in_band.bin"
    added = last.rename(tmp_path / "0000003.in_band.bin")
    refused(errors.MissingFileError, "3 shards", lambda: pf.stream(tmp_path), last)
    last.write_bytes(added.read_bytes())
    refused(errors.CorruptFileError, "of 3 shards", lambda: pf.stream(tmp_path), added)


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b"[" * 99_999, b"\xff\xfe", None]
)
def test_damaged_manifests(tmp_path, damage):
    path = stream(tmp_path) / "stream.json"
    if damage is None:
        path.write_bytes(path.read_bytes().replace(b"sizes", b"sizez"))
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


def test_what_streams_had_is_refused_by_what_to_use(tmp_path):
    data: Any = pf.stream(stream(tmp_path))
    with pytest.raises(errors.InvalidArgumentError, match=r"dataset\[n\]"):
        data.document(0)
    assert not hasattr(data, "nothing")


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
    dtype = [("token", "u2"), ("weight", "f4")]
    with pf.StreamWriter(tmp_path / "a", dtype=dtype, serialize="bytes") as out:
        with pytest.raises(errors.TokenRangeError, match="wider dtype"):
            out.append([1, 70_000], weight=[0, 0])
        with pytest.raises(errors.InvalidArgumentError, match="whole"):
            out.append([0.5], weight=[0])
        with pytest.raises(errors.InvalidArgumentError, match="give the numbers"):
            out.append([1, 2])
        with pytest.raises(errors.InvalidArgumentError, match=r"shape \(1,\)"):
            out.append([1, 2], weight=[1])
        for spans in (
            [(0, 3, b"a")],
            [(1, 1, b"a")],
            [(0, 2, b"a"), (1, 2, b"a")],
            [(-1, 1, b"a")],
        ):
            with pytest.raises(errors.InvalidArgumentError, match="do not overlap"):
                out.append([1, 2], weight=[1, 1], spans=spans)
        for payload in ("text", b""):
            with pytest.raises(errors.InvalidArgumentError, match="must be bytes"):
                out.append([1, 2], weight=[1, 1], spans=[(0, 1, payload)])
    assert len(pf.stream(tmp_path)) == 0
    with pytest.raises(errors.InvalidArgumentError, match="is closed"):
        out.append([1], weight=[1])
    with pytest.raises(errors.InvalidArgumentError, match="has a stream, or shard 0"):
        pf.StreamWriter(tmp_path / "a", dtype="u2")
    with pytest.raises(errors.InvalidArgumentError, match="called 'token'"):
        pf.StreamWriter(tmp_path / "b", dtype=[("tokens", "u2")])
    old = [("token", "u2"), ("metadata", "f4")]
    with pytest.raises(errors.InvalidArgumentError, match="without 'metadata'"):
        pf.StreamWriter(tmp_path / "b", dtype=old)
    for how in ("json", "numpy"):
        with pytest.raises(errors.InvalidArgumentError, match="callable"):
            pf.StreamWriter(tmp_path / "b", dtype="u2", serialize=cast("Any", how))
    with (
        pf.StreamWriter(tmp_path / "b", dtype="u2") as out,
        pytest.raises(errors.InvalidArgumentError, match="need payloads"),
    ):
        out.append([1, 2], spans=[(0, 1, b"a")])
