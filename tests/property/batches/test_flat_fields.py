"""Flat files beside Parquet files of the same rows: the same batches, in file order."""

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from scaled import scaled

FIELDS: Final = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask")
DTYPE = [("mark", "i1"), ("token", "u2"), ("weight", "f8"), ("large", "u4")]
COLUMNS = {"mark": pa.int8(), "weight": pa.float64(), "large": pa.uint32()}
LENGTHS = st.one_of(st.integers(0, 5), st.integers(0, 3000), st.just(40_000))
SEPARATORS = st.sampled_from([{}, {"eos": 1}, {"bos": 2}, {"bos": 2, "eos": 1}])


def write(
    folder: Path, lengths: list[int]
) -> tuple[pf.dataset.StreamDataset, pf.dataset.ParquetDataset]:
    """The same rows as a stream of two shards and as Parquet."""
    rng = np.random.default_rng(len(lengths))
    tokens = [rng.integers(3, 60_000, length) for length in lengths]
    beside: dict[str, list[np.ndarray]] = {
        "mark": [rng.integers(-128, 128, length) for length in lengths],
        "weight": [rng.random(length) for length in lengths],
        "large": [rng.integers(0, 2**32, length) for length in lengths],
    }
    half = len(lengths) // 2
    for shard, rows in enumerate((range(half), range(half, len(lengths)))):
        with pf.StreamWriter(folder / "stream" / str(shard), dtype=DTYPE) as out:
            for row in rows:
                numbers = {name: values[row] for name, values in beside.items()}
                out.append(tokens[row], **numbers)
    table = {"input_ids": pa.array([row.tolist() for row in tokens])}
    table["input_ids"] = table["input_ids"].cast(pa.list_(pa.int32()))
    for name, values in beside.items():
        lists = [row.tolist() for row in values]
        table[name] = pa.array(lists, pa.list_(COLUMNS[name]))
    pq.write_table(pa.table(table), folder / "rows.parquet")
    columns = {"mark": -1, "weight": 0.5, "large": 7}
    stream = pf.stream(folder / "stream", aligned=columns)
    path = folder / "rows.parquet"
    return stream, pf.parquet(path, column="input_ids", aligned=columns)


@given(lengths=st.lists(LENGTHS, min_size=2, max_size=12), data=st.data())
@settings(max_examples=scaled(25), deadline=None)
def test_batches_are_those_of_parquet(lengths, data):
    if not sum(lengths):
        return
    length = data.draw(st.sampled_from([1, 7, 100, 2048, 50_000]))
    if sum(lengths) // length > 4000:
        length = 100
    separators = data.draw(SEPARATORS)
    kind = data.draw(st.sampled_from([pf.Windows, pf.Packed]))
    memory = data.draw(st.sampled_from(["16MiB", "256MiB"]))
    with tempfile.TemporaryDirectory() as folder:
        both = write(Path(folder), lengths)
        loaders = [
            pf.Loader(
                dataset,
                sequences=kind(length, **separators),
                batch_size=3,
                shuffle=None,
                drop_last=False,
                fields=FIELDS,
                memory=memory,
            )
            for dataset in both
        ]
        if kind is pf.Packed:  # What is packed together depends on pages.
            batches = [list(loader) for loader in loaders]
            for name in COLUMNS:
                found = [
                    np.sort(np.concatenate([b[name].reshape(-1) for b in own]))
                    for own in batches
                ]
                padding = {"mark": -1, "weight": 0.5, "large": 7}[name]
                one, other = (values[values != padding] for values in found)
                assert (one == other).all()
            return
        for one, other in zip(*loaders, strict=True):
            assert one.keys() == other.keys() >= COLUMNS.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
                assert one[name].dtype == other[name].dtype


@given(lengths=st.lists(LENGTHS, min_size=2, max_size=8))
@settings(max_examples=scaled(10), deadline=None)
def test_documents_are_those_of_parquet(lengths):
    with tempfile.TemporaryDirectory() as folder:
        both = write(Path(folder), lengths)
        loaders = [
            pf.Loader(
                dataset,
                sequences=pf.Documents(max_length=1000),
                batch_size=2,
                shuffle=None,
                drop_last=False,
            )
            for dataset in both
        ]
        for one, other in zip(*loaders, strict=True):
            assert one.keys() == other.keys() >= COLUMNS.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
                assert one[name].dtype == other[name].dtype
        assert both[0][1] == both[1][1]


def test_fields_are_chosen_and_named(tmp_path):
    write(tmp_path, [10, 20, 30])
    folder = tmp_path / "stream"
    one = pf.stream(folder, aligned=["weight"])
    loader = pf.Loader(one, sequences=pf.Windows(10), batch_size=2)
    assert set(next(iter(loader))) == {"input_ids", "labels", "weight"}
    assert pf.stream(folder).fingerprint == one.fingerprint
    with pytest.raises(pf.errors.ColumnNotFoundError, match="'large', 'mark'"):
        pf.stream(folder, aligned=["wieght"])
    with pytest.raises(pf.errors.InvalidArgumentError, match="padding"):
        pf.Loader(
            pf.stream(folder, aligned={"large": -1}),
            sequences=pf.Windows(10),
            batch_size=2,
        )
    other = [("token", "u2"), ("weight", "f8"), ("mark", "i1"), ("large", "u4")]
    with pf.StreamWriter(folder / "2", dtype=other) as out:
        out.append([1, 2], mark=[0, 0], weight=[0, 0], large=[0, 0])
    with pytest.raises(pf.errors.UnsupportedError, match="make a dataset of each kind"):
        len(pf.stream(folder, aligned=["weight"]))
