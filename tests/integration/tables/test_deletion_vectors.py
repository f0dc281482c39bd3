"""Deletion vectors are read wherever a table keeps them; damaged ones are refused."""

import json
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake

import pagefeed as pf
from made.tables import (
    bitmap_of,
    delete_from_delta,
    framed,
    of_delta,
    rows_table,
    sorted_rows,
    write_delta,
)
from pagefeed.errors import ChecksumError, CorruptFileError, MissingFileError
from pagefeed.tables.deletion_vector import rows_of_vector


def test_vectors_are_read_as_pyroaring_writes_them():
    rng = np.random.default_rng(7)
    for number in range(200):
        most = int(10 ** rng.uniform(1, 6))
        rows = {*rng.integers(0, most, rng.integers(1, 6000)).tolist()}
        if number % 3 == 0:
            rows = {*range(most, most + 2 * len(rows))}
        if number % 5 == 0:
            rows |= {row + (3 << 32) for row in [*rows][:50]}
        found = rows_of_vector(framed(bitmap_of(sorted(rows))), len(rows))
        assert found.tolist() == sorted(rows)


def test_damaged_vectors_are_refused():
    good = bitmap_of([*range(5000), 9000, 70_000, 1 << 33])
    rng = random.Random(5)
    refused = 0
    for _ in range(500):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        cut = bad[: rng.randrange(4, len(bad))] if rng.random() < 0.3 else bad
        try:
            rows = rows_of_vector(framed(bytes(cut)), 5003)
        except CorruptFileError:
            refused += 1
        else:  # Other rows, rightly stored, are what the checksum is for.
            assert len(rows) == 5003
    assert refused > 100
    stored = framed(good)
    with pytest.raises(ChecksumError, match="0x"):
        rows_of_vector(stored[:-1] + bytes([stored[-1] ^ 1]), 5003)
    with pytest.raises(
        CorruptFileError, match="5002 rows are deleted, the vector holds"
    ):
        rows_of_vector(stored, 5002)


@pytest.mark.parametrize("kind", ["u", "i"])
def test_damaged_vectors_of_delta_are_refused(tmp_path, kind):
    write_delta(tmp_path, [rows_table(0, 100)])
    [path] = tmp_path.glob("*.parquet")
    delete_from_delta(tmp_path, {path.name: [3, 4, 70]}, kind)
    commit = max((tmp_path / "_delta_log").glob("*.json"))
    good = commit.read_text()
    for old, new, problem in (
        ('"cardinality": 3', '"cardinality": 5', "says that 5 rows .* holds 3"),
        (f'"storageType": "{kind}"', '"storageType": "x"', "no such place"),
        ('"pathOrInlineDv": "', '"pathOrInlineDv": "~', "."),
        ('"sizeInBytes": ', '"sizeInBytes": -', "no such place"),
    ):
        assert old in good
        commit.write_text(good.replace(old, new))
        with pytest.raises((CorruptFileError, MissingFileError), match=problem):
            of_delta(tmp_path)
    commit.write_text(good)
    assert len(of_delta(tmp_path)) == 97


def test_any_number_of_vectors_of_delta(tmp_path):
    """deltalake waits for ever for more than 512 that are in files."""
    paths = [f"{n:03}.parquet" for n in range(600)]
    for number, path in enumerate(paths):
        pq.write_table(rows_table(2 * number, 2 * number + 2), tmp_path / path)
    convert_to_deltalake(tmp_path)
    delete_from_delta(tmp_path, {path: [1] for path in paths})
    found = pf.delta(tmp_path, column="tokens", metadata=["id"])
    assert sorted(row["id"] for row in found) == [*range(0, 1200, 2)]
    # A version of before, and a file whose vector was taken back.
    log = tmp_path / "_delta_log"
    of_commit = [
        [
            json.loads(each)["add"]
            for each in (log / f"{number:020}.json").read_text().splitlines()
            if '"add"' in each
        ]
        for number in (0, 1)
    ]
    added = of_commit[0][0]
    [with_vector] = [each for each in of_commit[1] if each["path"] == added["path"]]
    removed = {"deletionTimestamp": 1, "dataChange": True}
    removed |= {name: with_vector[name] for name in ("path", "deletionVector")}
    actions = [{"remove": removed}, {"add": added}]
    (log / f"{2:020}.json").write_text("\n".join(map(json.dumps, actions)))
    assert len(pf.delta(tmp_path, column="tokens")) == 601
    assert len(pf.delta(tmp_path, 0, column="tokens")) == 1200


def test_vectors_of_delta_in_a_checkpoint_and_in_a_folder(tmp_path):
    write_delta(tmp_path, [rows_table(0, 50), rows_table(50, 100)])
    names = sorted(path.name for path in tmp_path.glob("*.parquet"))
    delete_from_delta(tmp_path, {names[0]: [3, 4]}, "u")
    delete_from_delta(tmp_path, {names[1]: [7]}, "i")
    expected = sorted_rows(of_delta(tmp_path))
    assert len(expected) == 97
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    assert sorted_rows(of_delta(tmp_path)) == expected
    # A prefix of the id names a folder.
    [file] = tmp_path.glob("deletion_vector_*.bin")
    (tmp_path / "ab").mkdir()
    file.rename(tmp_path / "ab" / file.name)
    with pytest.raises(MissingFileError, match="deletion_vector_"):
        of_delta(tmp_path)
    [checkpoint] = log.glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint).to_pylist()
    [add] = [
        each["add"]
        for each in rows
        if each["add"] and (each["add"]["deletionVector"] or {}).get("offset")
    ]
    vector = add["deletionVector"]
    moved = {**vector, "pathOrInlineDv": "ab" + vector["pathOrInlineDv"]}
    plain = {name: add[name] for name in ("path", "size", "modificationTime")}
    plain |= {"partitionValues": {}, "dataChange": False, "stats": add["stats"]}
    removed = {"path": add["path"], "dataChange": False, "deletionVector": vector}
    actions = [{"remove": removed}, {"add": {**plain, "deletionVector": moved}}]
    (log / f"{4:020}.json").write_text("\n".join(map(json.dumps, actions)))
    assert sorted_rows(of_delta(tmp_path)) == expected
