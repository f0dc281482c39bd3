"""Iterators: lazy, not ended by exceptions, and epochs that follow each other."""

import json
import threading
from itertools import islice
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import (
    LENGTH,
    batches_of,
    first_tokens,
    numbered_loader,
    rows_of,
)
from pagefeed.errors import InvalidArgumentError, StateMismatchError


def epochs_of(folder, **options: Any):
    loader = numbered_loader(folder, **options)
    return [batches_of(loader) for _ in range(3)]


def mixture(folder, **options: Any):
    dataset = pf.parquet(folder, column="input_ids")
    return pf.mix({"a": (dataset, 0.5), "b": (dataset, 0.5)}, **options)


def mixture_loader(folder, **options: Any):
    settings: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH),
        "batch_size": 4,
        "padding": -1,
        "rank": 0,
        "world_size": 1,
    }
    stops = {"stop": "all_exhausted"}
    for name in ("max_steps", "max_tokens"):
        if name in options:
            stops[name] = options.pop(name)
    return pf.Loader(mixture(folder, **stops), **settings | options)


# Nothing moves before the first batch is asked for.


def test_an_iterator_that_is_thrown_away_moves_nothing(folder):
    whole = batches_of(numbered_loader(folder))
    loader = numbered_loader(folder)
    running = iter(loader)
    seen = [first_tokens(next(running)) for _ in range(3)]
    state = loader.state_dict()
    iter(loader)
    assert loader.state_dict() == state
    assert seen + [first_tokens(batch) for batch in running] == whole


def test_a_state_loaded_under_an_iterator_takes_effect_or_raises(folder):
    whole = batches_of(numbered_loader(folder))
    other = numbered_loader(folder)
    other.seek(9)
    loader = numbered_loader(folder)
    waiting = iter(loader)
    loader.load_state_dict(other.state_dict())
    assert first_tokens(next(waiting)) == whole[9]
    loader.load_state_dict(other.state_dict())
    with pytest.raises(pf.errors.CancelledError, match="load_state_dict"):
        next(waiting)
    assert batches_of(loader) == whole[9:]


def test_the_length_is_that_of_a_whole_epoch_wherever_it_stands(folder):
    loader = numbered_loader(folder)
    steps = len(loader)
    loader.seek(7)
    assert len(loader) == steps
    resumed = numbered_loader(folder)
    resumed.load_state_dict(loader.state_dict())
    assert len(resumed) == steps
    next(iter(resumed))
    assert len(resumed) == steps


def test_batches_are_the_consumers_own(folder):
    names = ("input_ids", "labels", "position_ids", "attention_mask", "loss_mask")
    expected = [
        {name: value.copy() for name, value in batch.items()}
        for batch in islice(numbered_loader(folder, fields=names), 5)
    ]
    kept = []
    for batch in islice(numbered_loader(folder, fields=names), 5):
        kept.append({name: value.copy() for name, value in batch.items()})
        for name in names:
            batch[name][...] = 0
    assert all(
        (left[name] == right[name]).all()
        for left, right in zip(kept, expected, strict=True)
        for name in names
    )


# Epochs follow each other, however the end of one is reached.


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("name_epoch", [False, True])
def test_a_state_of_the_last_step_resumes_with_the_next_epoch(
    folder, drop_last, name_epoch
):
    options: dict[str, Any] = {"drop_last": drop_last, "batch_size": 5}
    first, second, third = epochs_of(folder, **options)
    loader = numbered_loader(folder, **options)
    assert [first_tokens(b) for b in islice(loader, len(loader))] == first
    for number, epoch in enumerate([second, third], 1):
        resumed = numbered_loader(folder, **options)
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert resumed.epoch == number
        if name_epoch:
            resumed.set_epoch(number)
        assert [first_tokens(b) for b in islice(resumed, len(resumed))] == epoch
        loader = resumed


def test_the_end_of_an_epoch_by_a_seek_leads_to_the_next(folder):
    _, second, _ = epochs_of(folder)
    for follow in (lambda _: None, lambda loader: loader.set_epoch(1)):
        loader = numbered_loader(folder)
        loader.seek(len(loader))
        follow(loader)
        assert batches_of(loader) == second
    loader = numbered_loader(folder)
    iterator = iter(loader)
    next(iterator)
    loader.seek(len(loader))
    assert list(iterator) == []
    assert batches_of(loader) == second


def test_a_mixture_goes_on_after_its_last_step_too(folder):
    loader = mixture_loader(folder, max_steps=6)
    first, second = batches_of(loader), batches_of(loader)
    assert len(first) == len(second) == 6
    loader = mixture_loader(folder, max_steps=6)
    list(islice(loader, 6))
    resumed = mixture_loader(folder, max_steps=6)
    resumed.load_state_dict(loader.state_dict())
    assert batches_of(resumed) == second
    more = mixture_loader(folder, max_steps=9)
    more.load_state_dict(loader.state_dict())
    assert len(batches_of(more)) == 3


@pytest.mark.parametrize("epochs", [1, 2, None])
def test_naming_the_current_epoch_never_undoes_a_resume(folder, epochs):
    whole = batches_of(numbered_loader(folder, epochs=epochs or 2))
    step = len(whole) - 5  # With epochs joined it lies in the second.
    loader = numbered_loader(folder, epochs=epochs)
    loader.seek(step)
    for epoch in {0, loader.epoch} if epochs is None else {0}:
        resumed = numbered_loader(folder, epochs=epochs)
        resumed.load_state_dict(loader.state_dict())
        resumed.set_epoch(epoch)
        iterator = iter(resumed)
        assert first_tokens(next(iterator)) == whole[step]
        resumed.set_epoch(epoch)
        rest = [first_tokens(batch) for batch in islice(iterator, 4)]
        assert rest == whole[step + 1 :]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_set_epoch_in_a_loop_counts_iterations(folder, epochs):
    loader = numbered_loader(folder, batch_size=5, drop_last=False, epochs=epochs)
    one = numbered_loader(folder, batch_size=1)
    rows = [rows_of(one) for _ in range(3 * epochs)]
    for number in range(3):
        loader.set_epoch(number)
        found = [row for batch in loader for row in first_tokens(batch) if row != -1]
        joined = [row for epoch in rows[number * epochs :][:epochs] for row in epoch]
        assert sorted(found) == sorted(joined)
    # What was passed comes again if asked for, as with any sampler.
    loader.set_epoch(1)
    assert loader.epoch == epochs


def test_a_loop_tells_of_its_iteration_and_a_loader_of_the_next_batch(folder):
    def place(loader: pf.Loader) -> tuple[int, int, int | None]:
        stats = loader.metrics()
        assert (stats["data/epoch"], stats["data/step"]) == (loader.epoch, loader.step)
        assert f"epoch={loader.epoch}, step={loader.step}" in repr(loader)
        return loader.epoch, loader.step, loader.num_steps_left

    every: list[dict[str, Any]] = [{}, {"drop_last": False, "batch_size": 5}]
    every.append({"epochs": 2})
    for options in every:
        loader = numbered_loader(folder, **options)
        size, epochs = len(loader), loader.epochs or 1
        for step, _ in enumerate(loader, 1):
            assert place(loader)[1:] == (step, size - step)
        assert place(loader) == (epochs, 0, size)
        # Also where the end was led to, and where it was loaded.
        sought = numbered_loader(folder, **options)
        sought.seek(size)
        assert place(sought) == (epochs, 0, size)
        at_end = numbered_loader(folder, **options)
        for _ in islice(at_end, size):
            pass
        assert place(at_end) == (epochs - 1, size, 0)
        loaded = numbered_loader(folder, **options)
        loaded.load_state_dict(json.loads(json.dumps(at_end.state_dict())))
        assert loaded.state_dict() == at_end.state_dict()
        assert place(loaded) == (epochs, 0, size)
        expected = loaded.locate(0, 0)
        next(iter(loaded))
        assert expected == loaded.locate(0, 0)
        assert place(loaded) == (epochs, 1, size - 1)


def test_an_endless_mixture_says_so_once(folder):
    mixed = mixture(folder)
    loader = numbered_loader(mixed)
    with pytest.warns(UserWarning, match="never ends.*epochs=None") as caught:
        next(iter(loader))
    assert [warning.filename for warning in caught] == [__file__]
    next(iter(loader))
    meant = numbered_loader(mixed, epochs=None)
    next(iter(meant))
    assert meant.num_steps_left is None
    capped = dict.fromkeys(mixed.datasets, 2)
    endings = mixture(folder, max_steps=3), mixture(folder, max_epochs=capped)
    for ending in (*endings, mixture(folder, stop="all_exhausted")):
        next(iter(numbered_loader(ending)))
        with pytest.raises(InvalidArgumentError, match="this mixture ends"):
            numbered_loader(ending, epochs=None)


def test_an_epoch_before_the_loaded_state_is_warned_of(folder):
    loader = numbered_loader(folder)
    loader.set_epoch(2)
    loader.seek(3)
    resumed = numbered_loader(folder)
    resumed.load_state_dict(loader.state_dict())
    with pytest.warns(UserWarning, match="goes back before the state"):
        resumed.set_epoch(0)
    assert batches_of(resumed) == batches_of(numbered_loader(folder))
    resumed.set_epoch(0)  # Nothing was loaded since.
    wrong: Any
    for wrong in (-1, 1.0, "1", None, True):
        with pytest.raises(InvalidArgumentError, match="epoch="):
            resumed.set_epoch(wrong)


# Ends that lie before a loaded state.


def test_fewer_epochs_than_were_consumed_are_refused(folder):
    loader = numbered_loader(folder, epochs=3)
    loader.seek(len(loader) - 5)
    state = loader.state_dict()
    with pytest.raises(StateMismatchError, match="epoch 2"):
        numbered_loader(folder, epochs=1).load_state_dict(state)
    more = numbered_loader(folder, epochs=4)
    more.load_state_dict(state)
    assert len(batches_of(more)) == len(more) - len(loader) + 5


@pytest.mark.parametrize("stop", [{"max_steps": 6}, {"max_tokens": 6 * 4 * LENGTH}])
def test_an_earlier_stop_of_a_mixture_is_refused(folder, stop):
    loader = mixture_loader(folder)
    loader.seek(20)
    earlier = mixture_loader(folder, **stop)
    with pytest.raises(StateMismatchError, match="max_steps, max_tokens"):
        earlier.load_state_dict(loader.state_dict())
    assert len(batches_of(earlier)) in (6, 7)


@pytest.mark.parametrize(("batch_size", "world_size"), [(3, 1), (4, 2), (12, 1)])
def test_the_steps_of_a_mixture_after_skips_of_other_sizes(
    folder, batch_size, world_size
):
    loader = mixture_loader(folder, max_steps=30)
    loader.skip([3, 7])
    resumed = mixture_loader(
        folder, max_steps=20, batch_size=batch_size, world_size=world_size
    )
    resumed.load_state_dict(loader.state_dict())
    numbers = [resumed.state_dict()["step"] - 1 for _ in resumed]
    size = batch_size * world_size
    kept = [p for p in range(100 * size) if p // 4 not in (3, 7)]
    expected = [first // size for first in kept[::size] if first // size < 20]
    assert len(numbers) == len(expected)


# Arguments that leave nothing to do.


def test_a_step_larger_than_all_there_is_is_refused_with_the_numbers(folder):
    num_sequences = numbered_loader(folder).num_sequences
    size = num_sequences + 1
    message = (
        rf"batch_size={size} x world_size=1 = {size} sequences, and {num_sequences}"
    )
    with pytest.raises(InvalidArgumentError, match=message):
        numbered_loader(folder, batch_size=size)
    with pytest.raises(InvalidArgumentError, match="world_size=1000"):
        numbered_loader(folder, world_size=1000, batch_size=num_sequences)
    joined = numbered_loader(folder, batch_size=size, epochs=2)
    assert len(batches_of(joined)) == 1
    filled = numbered_loader(folder, batch_size=size, drop_last=False)
    assert len(batches_of(filled)) == 1
    with pytest.raises(InvalidArgumentError, match="no step is complete"):
        next(iter(mixture_loader(folder, max_tokens=LENGTH)))


def test_a_transform_that_returns_nothing_is_refused(folder):
    loader = numbered_loader(folder, transform=lambda batch: batch.clear())
    with pytest.raises(InvalidArgumentError, match="must return the batch"):
        next(iter(loader))


# Exceptions in the middle.


@pytest.mark.parametrize("kind", [ValueError, StopIteration, KeyboardInterrupt])
def test_an_iterator_goes_on_after_an_exception_of_the_transform(folder, kind):
    whole = batches_of(numbered_loader(folder))
    fails = {3, 4, 9}
    calls: list[None] = []

    def transform(batch):
        calls.append(None)
        batch["input_ids"][0, 0] += 0
        if len(calls) in fails:
            raise kind
        return batch

    loader = numbered_loader(folder, transform=transform)
    iterator = iter(loader)
    seen, notes = [], []
    while True:
        try:
            seen.append(first_tokens(next(iterator)))
        except StopIteration:
            break
        except (ValueError, RuntimeError, KeyboardInterrupt) as error:
            notes.append((loader.state_dict()["step"], getattr(error, "__notes__", [])))
    assert seen == whole
    assert len(notes) == len(fails)
    for step, texts in notes if kind is not KeyboardInterrupt else ():
        assert f"At step {step}. " in texts[0]


# Beside other threads, and among other processes.


def test_a_state_taken_beside_a_thread_that_iterates_is_whole(folder):
    loader = numbered_loader(folder, batch_size=1, epochs=12)
    num_sequences, is_done = loader.num_sequences, threading.Event()
    states: list[dict[str, Any]] = []

    def watch():
        # With pauses, or the other thread would wait for the interpreter for seconds.
        while not is_done.wait(1e-4):
            states.extend(loader.state_dict() for _ in range(20))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for number, _ in enumerate(loader):
            if number % 100 == 50:
                loader.seek(number + 1)
    finally:
        is_done.set()
        watching.join()
    under_way = [state for state in states if state["epoch"] < 12]
    assert len(under_way) > 1000
    for state in under_way:
        assert state["epoch"] * num_sequences + state["position"] == state["step"]


@pytest.mark.parametrize("num_workers", [2, 3])
def test_a_worker_that_is_sent_elsewhere_stays_that_worker(folder, num_workers):
    whole = batches_of(numbered_loader(folder))
    kept = whole[:6] + whole[7:12] + whole[20:]
    for worker in range(num_workers):
        loader = numbered_loader(folder)
        iterator = loader.view().iterate(worker=worker, num_workers=num_workers)
        seen = [first_tokens(next(iterator))]
        loader.skip([6, *range(12, 20)])
        seen += [first_tokens(batch) for batch in iterator]
        assert seen == kept[worker::num_workers]
        iterator = loader.view().iterate(worker=worker, num_workers=num_workers)
        loader.set_epoch(0)
        next(iterator)
        loader.seek(9)
        assert [first_tokens(b) for b in iterator] == whole[9 + worker :: num_workers]
    for worker, number in ((2, 2), (-1, 1), (0, 0), (True, 2)):
        with pytest.raises(InvalidArgumentError, match="worker"):
            numbered_loader(folder).view().iterate(worker=worker, num_workers=number)
