"""The map-style view: any sequence by its number, for samplers of others."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.numbered import LENGTH, write_numbered
from pagefeed.errors import InvalidArgumentError, StaleFileError

# From Python 3.12 on a fork beside threads is warned of; these forks are the point.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbered")
    write_numbered(folder)
    return pf.parquet(folder, column="input_ids")


@pytest.fixture(scope="module")
def expected(dataset):
    """All windows, in file order."""
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(LENGTH),
        batch_size=1,
        shuffle=None,
        padding=-1,
        rank=0,
        world_size=1,
    )
    return np.concatenate([batch["input_ids"] for batch in loader])


def make_view(dataset, **options):
    settings: dict[str, Any] = {"padding": -1, "memory": "1MiB"}
    return pf.SequenceView(dataset, pf.Windows(LENGTH), **settings | options)


def ids(rows):
    return np.stack([row["input_ids"] for row in rows])


def test_sequences_are_numbered_in_file_order(dataset, expected):
    view = make_view(dataset)
    assert len(view) == len(expected)
    assert np.array_equal(ids([view[number] for number in range(50)]), expected[:50])
    assert np.array_equal(ids([view[-1], view[np.int32(3)]]), expected[[-1, 3]])
    assert np.array_equal(ids(view), expected)


def test_many_at_once_in_any_order_with_repeats(dataset, expected):
    view = make_view(dataset, memory="16KiB")
    rng = np.random.default_rng(1)
    for size in (0, 1, 7, 2000):
        numbers = rng.integers(-len(view), len(view), size).tolist()
        found = view.__getitems__(numbers)
        assert len(found) == size
        if size:
            assert np.array_equal(ids(found), expected[numbers])


def test_pages_asked_for_together_are_read_once(dataset):
    view = make_view(dataset)
    view.__getitems__([5, 4, 5, 4, 5])
    pages = view.stats()["pages_loaded"]
    assert pages <= 2 * LENGTH
    view.__getitems__(list(range(len(view))))
    assert view.stats()["pages_loaded"] - pages <= len(dataset.index)


def test_a_number_out_of_range_is_refused(dataset):
    view = make_view(dataset)
    for number in (len(view), -len(view) - 1):
        with pytest.raises(IndexError, match=f"there are {len(view)}"):
            view[number]
    with pytest.raises(TypeError):
        view[1.5]


def test_types_and_formats(dataset, expected):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    row = make_view(dataset, dtype="int32", format="torch")[7]["input_ids"]
    assert row.dtype == torch.int32
    assert np.array_equal(row.numpy(), expected[7])
    with pytest.raises(InvalidArgumentError, match="dtype"):
        make_view(dataset, dtype="int8")


def test_threads_may_share_it(dataset, expected):
    view = make_view(dataset)
    rng = np.random.default_rng(2)
    wanted = [rng.integers(0, len(view), 20).tolist() for _ in range(60)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(view.__getitems__, wanted))
    for numbers, rows in zip(wanted, found, strict=True):
        assert np.array_equal(ids(rows), expected[numbers])


def test_it_works_after_an_error(tmp_path, expected):
    write_numbered(tmp_path)
    view = make_view(pf.parquet(tmp_path, column="input_ids"))
    file = max(tmp_path.iterdir())
    then, last = file.stat().st_mtime_ns, len(view) - 1
    os.utime(file, ns=(0, 0))
    with pytest.raises(StaleFileError, match=file.name):
        view.__getitems__([0, last, 1, last - 1])
    assert np.array_equal(view[3]["input_ids"], expected[3])
    os.utime(file, ns=(then, then))
    assert np.array_equal(ids(view.__getitems__([0, last])), expected[[0, last]])


def test_it_is_pickled_as_configuration(dataset, expected):
    view = make_view(dataset, dtype="int32")
    view[0]
    twin = pickle.loads(pickle.dumps(view))
    assert twin[5]["input_ids"].dtype == np.int32
    assert np.array_equal(twin[5]["input_ids"], expected[5])


def test_a_fork_goes_on_by_itself(dataset, expected):
    view = make_view(dataset)
    view[0]
    child = os.fork()
    if child == 0:
        os._exit(not np.array_equal(view[9]["input_ids"], expected[9]))
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(view[8]["input_ids"], expected[8])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_with_a_sampler(dataset, expected, num_workers):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    view = make_view(dataset)
    view[0]
    order = np.random.default_rng(3).permutation(len(view)).tolist()
    batches = data.DataLoader(
        view,
        batch_size=16,
        sampler=order,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers else None,
    )
    found = np.concatenate([batch["input_ids"].numpy() for batch in batches])
    assert np.array_equal(found, expected[order])


def test_short_sequences_are_filled_up_with_zeros(dataset, expected):
    last = expected[-1]
    assert (last == -1).any()
    found = pf.SequenceView(dataset, pf.Windows(LENGTH))[-1]["input_ids"]
    assert np.array_equal(found, np.where(last == -1, 0, last))
