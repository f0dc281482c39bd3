"""Lookups of the data plane in arrays of the caller's."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed import _core


@pytest.fixture
def index(tmp_path: Path) -> _core.Index:
    path = tmp_path / "rows.parquet"
    table = pa.table({"a": [[row, row] for row in range(1000)]})
    pq.write_table(table, path, data_page_size=256, write_batch_size=16)
    return _core.Index.build(
        [str(path)], "a", page_index=True, verify_checksums=True, num_threads=1
    )


@pytest.mark.parametrize(
    "name", ["first_rows", "first_values", "pages_of_rows", "pages_of_values"]
)
def test_one_array_may_be_read_and_written(index: _core.Index, name: str):
    lookup = partial(index.look_up, name)
    wanted = np.arange(index.num_pages)
    found = np.empty_like(wanted)
    lookup(wanted, found)
    lookup(wanted, wanted)
    np.testing.assert_array_equal(wanted, found)


def test_arrays_that_overlap(index: _core.Index):
    numbers = np.arange(index.num_pages + 1)
    expected = np.empty(index.num_pages, np.int64)
    index.look_up("first_rows", numbers[:-1].copy(), expected)
    index.look_up("first_rows", numbers[:-1], numbers[1:])
    np.testing.assert_array_equal(numbers[1:], expected)


def test_a_lookup_that_fails_writes_nothing(index: _core.Index):
    numbers = np.array([0, 1 << 40])
    with pytest.raises(ValueError, match="page"):
        index.look_up("first_rows", numbers, numbers)
    np.testing.assert_array_equal(numbers, [0, 1 << 40])


def test_arrays_that_cannot_be_written(index: _core.Index):
    numbers = np.arange(4)
    frozen = numbers.copy()
    frozen.flags.writeable = False
    for output in (frozen, np.arange(3), np.arange(8)[::2]):
        with pytest.raises(ValueError, match="contiguous"):
            index.look_up("first_rows", numbers, output)
