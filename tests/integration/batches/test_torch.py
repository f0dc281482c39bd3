"""Inside PyTorch's loaders: every step once and in order, and exact resumes."""

import json
import math
import multiprocessing
import pickle
import time
from itertools import islice

import numpy as np
import pytest

from made.numbered import numbered_loader
from pagefeed.core.any_loader import share
from pagefeed.errors import InvalidArgumentError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402 - torch may be absent

from pagefeed.torch import as_dataset  # noqa: E402 - likewise

pytestmark = [
    # From Python 3.12 on a fork beside threads is warned of; these forks are the point.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork"),
    # There may be fewer processors than workers, and torchdata calls what torch left.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

STEPS = 9


@pytest.fixture(scope="module", autouse=True)
def forkserver_has_torch():
    """Importing torch takes seconds: the fork server does it once."""
    multiprocessing.set_forkserver_preload(["pagefeed.torch", "numbered"])


def make_loader(folder, **options):
    return numbered_loader(folder, batch_size=60, format="torch", **options)


@pytest.fixture(scope="module")
def epochs(folder):
    """The batches of some epochs of the plain loader."""
    loader = make_loader(folder)
    found = [[batch["input_ids"] for batch in loader] for _ in range(4)]
    assert [len(batches) for batches in found] == [STEPS] * 4
    return found


def batches_of(batches):
    return [batch["input_ids"].clone() for batch in batches]


def same(left, right):
    return len(left) == len(right) and all(map(torch.equal, left, right))


def data_loader(dataset, num_workers=0, method=None, **options):
    context = method if num_workers else None
    return DataLoader(
        dataset,
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=context,
        **options,
    )


@pytest.mark.parametrize(
    ("num_workers", "method"),
    [
        (0, None),
        (1, "fork"),
        (2, "fork"),
        (3, "fork"),
        (1, "spawn"),
        (3, "forkserver"),
    ],
)
def test_every_step_once_and_in_order(folder, epochs, num_workers, method):
    batches = data_loader(as_dataset(make_loader(folder)), num_workers, method)
    assert len(batches) == STEPS
    assert same(batches_of(batches), epochs[0])


@pytest.mark.parametrize(
    ("num_workers", "method", "persistent"),
    [
        (0, None, False),
        (1, "fork", False),
        (2, "fork", False),
        (3, "fork", True),
        pytest.param(2, "spawn", False, marks=pytest.mark.slow),
        (2, "forkserver", True),
    ],
)
def test_each_loop_runs_the_next_epoch(folder, epochs, num_workers, method, persistent):
    dataset = as_dataset(make_loader(folder))
    options = {"persistent_workers": True} if persistent else {}
    batches = data_loader(dataset, num_workers, method, **options)
    assert [same(batches_of(batches), epoch) for epoch in epochs[:2]] == [True, True]
    # Another DataLoader goes on, and so does a loop without any.
    assert dataset.state_dict()["epoch"] == dataset.loader.epoch == 2
    another = data_loader(dataset, num_workers, method, **options)
    assert same(batches_of(another), epochs[2])
    assert same(batches_of(dataset.loader), epochs[3])


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("stop", [1, STEPS - 1, STEPS])
def test_a_loop_is_over_when_its_consumer_says_so(folder, epochs, stop, persistent):
    """Workers have made the last steps long before, and some are at their end."""
    batches = data_loader(
        as_dataset(make_loader(folder)), 2, "fork", persistent_workers=persistent
    )
    for _ in range(2):
        running = iter(batches)
        assert same(batches_of(islice(running, stop)), epochs[0][:stop])
        time.sleep(0.1)
        del running
    assert same(batches_of(batches), epochs[0])
    assert same(batches_of(batches), epochs[1])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_batches_of_batches_are_refused(folder, num_workers, batch_size):
    batches = DataLoader(
        as_dataset(make_loader(folder)), batch_size=batch_size, num_workers=num_workers
    )
    with pytest.raises(InvalidArgumentError, match="batch_size=None"):
        next(iter(batches))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_is_no_dataset(folder, num_workers):
    batches = DataLoader(make_loader(folder), batch_size=None, num_workers=num_workers)
    with pytest.raises(
        InvalidArgumentError, match=r"as_dataset\(loader\), batch_size="
    ):
        next(iter(batches))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_persistent_workers_follow_moves_of_the_loader(folder, epochs, method):
    loader = make_loader(folder)
    batches = data_loader(as_dataset(loader), 2, method, persistent_workers=True)
    for epoch in (0, 0, 1, 0):
        loader.set_epoch(epoch)
        assert same(batches_of(batches), epochs[epoch])
    loader.set_epoch(1)
    loader.seek(4)
    loader.skip([6])
    expected = epochs[1][4:6] + epochs[1][7:]
    assert same(batches_of(batches), expected)


def test_set_epoch_before_each_loop_changes_nothing(folder, epochs):
    dataset = as_dataset(make_loader(folder))
    batches = data_loader(dataset, 2, "fork")
    for epoch in (0, 1, 2):
        dataset.set_epoch(epoch)
        assert same(batches_of(batches), epochs[epoch])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loop_left_early_begins_its_epoch_again(folder, epochs, num_workers):
    loader = make_loader(folder)
    next(iter(loader))
    batches = data_loader(as_dataset(loader), num_workers, "fork")
    assert same(batches_of(islice(batches, 2)), epochs[0][:2])
    assert same(batches_of(batches), epochs[0])


def test_a_state_is_refused_while_workers_know_better(folder):
    loader = make_loader(folder)
    dataset = as_dataset(loader)
    start = dataset.state_dict()
    batches = iter(data_loader(dataset, 2, "fork"))
    next(batches)
    for ask in (dataset.state_dict, loader.state_dict):
        with pytest.raises(InvalidArgumentError, match="StatefulDataLoader"):
            ask()
    with pytest.warns(UserWarning, match="worker processes of a DataLoader iterate"):
        numbers = loader.metrics()
    assert all(map(math.isnan, numbers.values()))
    assert "data/tokens_total" in numbers
    loader.seek(1)  # What the message says.
    assert loader.metrics()["data/step"] == 1
    taken = loader.state_dict()
    assert taken["step"] == 1
    dataset.load_state_dict(start)
    assert dataset.state_dict() == start
    del batches


def test_the_state_is_exact_without_workers(folder, epochs):
    dataset = as_dataset(make_loader(folder))
    iterator = iter(data_loader(dataset))
    head = batches_of(islice(iterator, 3))
    resumed = as_dataset(make_loader(folder))
    resumed.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
    assert same(head + batches_of(data_loader(resumed)), epochs[0])


def test_workers_share_threads_and_memory(folder):
    loader = make_loader(folder, memory="8MiB", num_threads=4)
    half = share(loader, 2)
    assert (half.memory, half.num_threads) == (4 << 20, 2)
    assert share(loader, 100).num_threads == 1


def test_a_pickled_dataset_is_another_one(folder, epochs):
    loader = make_loader(folder)
    dataset = as_dataset(loader)
    next(iter(loader))  # A loop that is left early.
    twin = pickle.loads(pickle.dumps(dataset))
    assert same(batches_of(data_loader(twin)), epochs[0])
    assert same(batches_of(data_loader(twin)), epochs[1])
    assert same(batches_of(data_loader(dataset)), epochs[0])


def stateful(folder, num_workers, method="fork", **options):
    torchdata = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )
    return torchdata.StatefulDataLoader(
        as_dataset(make_loader(folder)),
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=method if num_workers else None,
        **options,
    )


def save_in_the_middle(folder, num_workers, stop, path):
    batches = stateful(folder, num_workers)
    head = batches_of(islice(batches, stop))
    torch.save((batches.state_dict(), head), path)


@pytest.mark.parametrize(("num_workers", "stop"), [(0, 4), (2, 1), (2, 5), (2, STEPS)])
def test_stateful_data_loader_resumes_exactly(
    folder, epochs, tmp_path, num_workers, stop
):
    path = str(tmp_path / "state.pt")
    context = multiprocessing.get_context("fork")
    arguments = folder, num_workers, stop, path
    # Not from this process's memory: what was saved must be all it takes.
    process = context.Process(target=save_in_the_middle, args=arguments, daemon=False)
    process.start()
    process.join()
    assert process.exitcode == 0
    state, head = torch.load(path, weights_only=False)
    resumed = stateful(folder, num_workers)
    resumed.load_state_dict(state)
    assert same(head + batches_of(resumed), epochs[0])


def test_stateful_data_loader_runs_on_after_a_resume(folder, epochs):
    first = stateful(folder, 2, persistent_workers=True)
    head = batches_of(islice(iter(first), 5))
    second = stateful(folder, 2, persistent_workers=True)
    second.load_state_dict(first.state_dict())
    assert same(head + batches_of(second), epochs[0])
    assert same(batches_of(second), epochs[1])


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_stateful_data_loader_saved_after_an_epoch_goes_on(
    folder, epochs, num_workers, persistent
):
    options = {"persistent_workers": True} if persistent and num_workers else {}
    first = stateful(folder, num_workers, **options)
    assert same(batches_of(first), epochs[0])
    second = stateful(folder, num_workers, **options)
    second.load_state_dict(first.state_dict())
    assert same(batches_of(second), epochs[1])
    third = stateful(folder, num_workers, **options)
    third.load_state_dict(second.state_dict())
    # A loop that is left early begins its epoch again: not one before the state.
    assert same(batches_of(islice(iter(third), 3)), epochs[2][:3])
    assert same(batches_of(third), epochs[2])
    assert same(batches_of(third), epochs[3])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_that_was_resumed_is_followed_by_the_next(folder, epochs, num_workers):
    first = stateful(folder, num_workers)
    batches_of(first)
    head = batches_of(islice(iter(first), 4))
    second = stateful(folder, num_workers)
    second.load_state_dict(first.state_dict())
    assert same(head + batches_of(second), epochs[1])
    assert same(batches_of(second), epochs[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_pinning_without_a_device_warns_and_does_nothing(folder, epochs):
    with pytest.warns(UserWarning, match="pin_memory=True does nothing here"):
        loader = make_loader(folder, pin_memory=True)
    batches = [batch["input_ids"] for batch in loader]
    assert same(batches, epochs[0])
    assert not batches[0].is_pinned()
    # Workers leave pinning to the process that talks to the device.
    assert same(batches_of(data_loader(as_dataset(loader), 2, "fork")), epochs[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_pinned_batches(folder, epochs):
    batches = [b["input_ids"] for b in make_loader(folder, pin_memory=True)]
    assert all(batch.is_pinned() for batch in batches)
    assert same(batches, epochs[0])


def test_arrays_are_not_pinned(folder):
    with pytest.raises(InvalidArgumentError, match="needs format='torch'"):
        numbered_loader(folder, pin_memory=True)


def test_the_tensors_are_the_arrays(folder, epochs):
    arrays = [batch["input_ids"] for batch in numbered_loader(folder, batch_size=60)]
    assert all(map(np.array_equal, arrays, (tensor.numpy() for tensor in epochs[0])))
