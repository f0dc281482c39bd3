"""Files that vanish after they were indexed are named, by errors of their own kind."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.caches import derived_arrays, derived_key, document_lengths
from pagefeed.errors import MissingFileError, StaleFileError

USES: dict[str, Callable[[pf.dataset.ParquetDataset], Any]] = {
    "where": lambda dataset: len(dataset.where("quality > 0.5")),
    "tiers": lambda dataset: dataset.tiers("quality", edges=[0.5]),
    "quantiles": lambda dataset: dataset.tiers("quality", quantiles=2),
    "by_length": lambda dataset: len(dataset.by_length([3])["tokens < 3"]),
    "split": lambda dataset: len(dataset.split(a=0.5, b=0.5)["a"]),
    "lengths": lambda dataset: document_lengths(dataset.spans),
    "packed": lambda dataset: pf.Loader(
        dataset, sequences=pf.Packed(8, split="never"), batch_size=1
    ),
    "arrays": lambda dataset: derived_arrays(dataset.index, "x", "1", print, bool),
    "index": lambda dataset: dataset.index.check_files(),
}


@pytest.fixture
def dataset(tmp_path):
    for name in ("a", "b"):
        table = pa.table(
            {
                "input_ids": [[1, 2, 3][: 1 + n % 3] for n in range(20)],
                "quality": np.arange(20) / 20,
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    dataset = pf.parquet(tmp_path, column="input_ids")
    assert len(dataset.index) > 1
    return dataset


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_is_gone_is_named(dataset, use, number):
    path = dataset.files[number]
    os.unlink(path)
    with pytest.raises((MissingFileError, StaleFileError), match="parquet") as caught:
        use(dataset)
    assert path in str(caught.value)
    assert caught.value.file == path


@pytest.mark.parametrize("name", sorted(USES))
def test_a_file_that_is_cut_off_is_named(dataset, name):
    path = dataset.files[1]
    os.truncate(path, 10)
    with pytest.raises((StaleFileError, pf.errors.CorruptFileError)) as caught:
        USES[name](dataset)
    assert caught.value.file == path


def test_derived_arrays_of_files_that_change_meanwhile_are_refused(dataset, tmp_path):
    index = pf.PageIndex.build(dataset.files, "input_ids", tmp_path / "cache")

    def write(writer):
        writer.append("x", [1])
        os.utime(dataset.files[0], ns=(1, 1))

    with pytest.raises(StaleFileError, match=r"a\.parquet"):
        derived_arrays(index, "kind", "1", write, bool)
    assert not (tmp_path / "cache" / "kind-1").exists()


def test_keys_follow_contents_and_versions(dataset):
    index = dataset.index
    key = derived_key(index, "one", b"two")
    assert derived_key(index, "one", "two") == key
    assert derived_key(index, "onet", "wo") != key
    os.utime(dataset.files[1], ns=(1, 1))
    anew = pf.PageIndex.build(dataset.files, "input_ids")
    assert derived_key(anew, "one", "two") != key
