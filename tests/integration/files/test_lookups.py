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


def test_pages_of_ranges_have_the_rows_between_their_first_ones(tmp_path: Path):
    paths = []
    for number, num_rows in enumerate([1000, 1, 400]):
        paths.append(str(tmp_path / f"{number}.parquet"))
        table = pa.table({"a": [[row, row] for row in range(num_rows)]})
        pq.write_table(
            table,
            paths[-1],
            data_page_size=256,
            write_batch_size=16,
            row_group_size=150,
        )
    index = _core.Index.build(
        paths, "a", page_index=True, verify_checksums=True, num_threads=1
    )
    first_row = np.empty(index.num_pages + 1, np.int64)
    index.look_up("first_rows", np.arange(index.num_pages + 1), first_row)
    chosen = np.random.default_rng(1).integers(0, index.num_pages + 1, (2, 200))
    first, end = np.sort(chosen, axis=0)
    first[:2], end[:2] = [0, index.num_pages], [index.num_pages, index.num_pages]
    offsets, page, rows = _core.list_pages(index, first, end)
    pages = np.concatenate([np.arange(*pair) for pair in zip(first, end, strict=True)])
    np.testing.assert_array_equal(np.frombuffer(page, np.int64), pages)
    np.testing.assert_array_equal(
        np.frombuffer(rows, np.uint32), np.diff(first_row)[pages]
    )
    ends = np.cumsum(end - first)
    np.testing.assert_array_equal(np.frombuffer(offsets, np.uint32), [0, *ends])


@pytest.mark.parametrize(
    ("first", "end"), [([-1], [2]), ([2], [1]), ([0], [1 << 40]), ([0, 1], [1])]
)
def test_ranges_of_no_pages_are_refused(
    index: _core.Index, first: list[int], end: list[int]
):
    with pytest.raises(ValueError, match=r"pages|ranges"):
        _core.list_pages(index, np.array(first), np.array(end))


def test_numbers_are_found_between_borders():
    rng = np.random.default_rng(1)
    for borders in (
        np.arange(0, 4000, 7),
        np.cumsum([0, *rng.integers(0, 90, 500)]),
        np.cumsum([0, *rng.geometric(0.001, 100) ** 2]),
        np.array([0, 5]),
    ):
        numbers = rng.integers(0, borders[-1], 1000)
        found = np.empty_like(numbers)
        _core.find_ranges(borders, numbers, found)
        expected = np.searchsorted(borders, numbers, side="right") - 1
        np.testing.assert_array_equal(found, expected)


def test_borders_that_make_no_range_are_refused():
    numbers = np.array([0])
    for borders in (np.array([0]), np.arange(8)[::2]):
        with pytest.raises(ValueError, match=r"borders|contiguous"):
            _core.find_ranges(borders, numbers, numbers.copy())
