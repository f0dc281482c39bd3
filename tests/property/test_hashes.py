"""Rows divided by a hash of a column: by its value alone, in every copy of the data."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import DataError, InvalidArgumentError

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.int32(), pa.uint64()]
TYPES += [pa.dictionary(pa.int32(), pa.string())]


def plain_hash(value, seed):
    content = value if isinstance(value, bytes) else str(value).encode()
    salt = seed.to_bytes(8, "little")
    digest = hashlib.blake2b(content, digest_size=8, person=b"pagefeed.hash", salt=salt)
    return int.from_bytes(digest.digest(), "little")


def write(path, values, kind):
    tokens = pa.array([[n] for n in range(len(values))], pa.list_(pa.int32()))
    pq.write_table(pa.table({"ids": tokens, "key": pa.array(values, kind)}), path)
    return pf.parquet(path, column="ids")


def rows_of(dataset):
    return [int(token) for row in dataset.head(10_000) for token in row["ids"]]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(tmp_path_factory.mktemp("hashes") / "rows.parquet")


@given(st.data())
def test_parts_are_those_of_a_plain_hash(path, data):
    kind = data.draw(st.sampled_from(TYPES))
    numbers = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40))
    make: dict[Any, Any] = {
        pa.binary(): lambda n: b"%d" % n,
        pa.int32(): int,
        pa.uint64(): int,
    }
    values = [make.get(kind, str)(number) for number in numbers]
    seed = data.draw(st.sampled_from([0, 1, 2**63 - 1]))
    dataset = write(path, values, kind)
    hashes = [plain_hash(value, seed) for value in values]
    parts = dataset.split(a=0.5, b=0.25, by="key", seed=seed)
    share = np.array(hashes, np.uint64) / 2.0**64
    assert rows_of(parts["a"]) == np.flatnonzero(share < 0.5).tolist()
    between = (share >= 0.5) & (share < 0.75)
    assert rows_of(parts["b"]) == np.flatnonzero(between).tolist()
    chosen = [n for n, hashed in enumerate(hashes) if hashed % 7 < 3]
    assert rows_of(dataset.where(f"hash(key, {seed}) % 7 < 3")) == chosen


def test_values_are_refused_that_have_no_hash(path):
    dataset = write(path, ["a", None], pa.string())
    with pytest.raises(DataError, match="key is null in 1 rows"):
        len(dataset.split(a=1.0, by="key")["a"])
    assert rows_of(dataset.where("key is not null").split(a=1.0, by="key")["a"]) == [0]
    assert rows_of(dataset.where("hash(key) >= 0")) == [0]
    for text in ("hash(key) % 0 < 1", "hash(key, 'a') < 1", "2 % 3 < 1", "hash() < 1"):
        with pytest.raises(InvalidArgumentError, match="hash"):
            dataset.where(text)
    with pytest.raises(InvalidArgumentError, match="texts, bytes and integers"):
        write(path, [1.5], pa.float64()).split(a=1.0, by="key")
