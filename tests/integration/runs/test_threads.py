"""Threads that share a loader: each batch reaches exactly one, or one is refused."""

import threading
from functools import partial

import pytest

from made.numbered import numbered_loader, write_numbered
from pagefeed.errors import CancelledError

ROUNDS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered")
    write_numbered(path, num_rows=600)
    return path


def in_threads(*works):
    """Run these at once, in threads; one that hangs or raises fails the test."""
    failures, start = [], threading.Barrier(len(works))

    def run(work):
        try:
            start.wait()
            work()
        except BaseException as error:  # noqa: BLE001 - told by the test's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=[w], daemon=True) for w in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def key(batch):
    return batch["input_ids"].tobytes()


def take(batches, taken):
    for batch in batches:
        taken.append(key(batch))


def test_threads_share_an_iterator(folder):
    loader = numbered_loader(folder)
    expected = sorted(map(key, loader))
    assert len(expected) == len(set(expected))
    for _ in range(ROUNDS):
        loader.set_epoch(0)
        taken: list[bytes] = []
        work = partial(take, iter(loader), taken)
        in_threads(work, work)
        assert sorted(taken) == expected
        assert loader.epoch == 1


def take_or_be_refused(loader, epochs, refused):
    taken: list[bytes] = []
    try:
        take(loader, taken)
    except CancelledError as error:
        refused.append(str(error))
    else:
        epochs.append(taken)


def test_threads_with_an_iterator_each_are_right_or_refused(folder):
    loader = numbered_loader(folder)
    expected = sorted(map(key, loader))
    for _ in range(ROUNDS):
        loader.set_epoch(0)
        epochs: list[list[bytes]] = []
        refused: list[str] = []
        in_threads(*[partial(take_or_be_refused, loader, epochs, refused)] * 4)
        assert epochs, "whoever began last is not refused"
        assert len(epochs) + len(refused) == 4
        assert all("one iteration at a time" in each for each in refused)
        assert sorted(epochs[0]) == expected
        assert all(len(each) == len(expected) for each in epochs)


def test_a_seek_of_another_thread_waits_for_the_batch(folder):
    loader = numbered_loader(folder)
    expected = [key(batch) for batch in loader]
    middle = len(expected) // 2
    for _ in range(ROUNDS):
        loader.set_epoch(0)
        taken: list[bytes] = []
        in_threads(partial(loader.seek, middle), partial(take, loader, taken))
        before = len(taken) - (len(expected) - middle)
        assert taken in (expected, expected[:before] + expected[middle:])
