"""Ranks, seeks and skips: the same sequences, each once, whatever changes."""

import json
from collections import defaultdict
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.numbered import (
    batches_of,
    first_tokens,
    interleaved,
    numbered_loader,
    rows_of,
)
from pagefeed.core.run import NO_SEQUENCE
from pagefeed.core.run.route import MOST_SEQUENCES, Slot, StepIndex
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

WORLD_SIZES = (1, 2, 3, 4, 6, 8, 12, 48, 64, 100)


def sequences_of_steps(loader, count):
    """Sequences of the next steps on all ranks together, from the plan alone."""
    run, begin = loader.view().run, loader.view().position.now
    whole = run.at(begin).route
    parts = []
    for rank in range(loader.world_size):
        cursor = run.at(begin, rank=rank)
        assert cursor.route.num_steps == whole.num_steps
        parts.append(cursor.sequences(0, min(count, whole.num_steps)))
    sequences = np.stack(parts, axis=1).reshape(-1)
    return sequences[sequences != NO_SEQUENCE].tolist()


LEG = st.tuples(
    st.sampled_from(WORLD_SIZES),
    st.integers(1, 5),
    st.integers(0, 9),
    st.lists(st.integers(0, 12), max_size=3),
)


@settings(max_examples=scaled(40))
@example(legs=[(100, 5, 1, [0])], shuffle="page")
@example(legs=[(8, 5, 3, [4]), (48, 2, 0, [3])], shuffle="page")
@given(
    legs=st.lists(LEG, min_size=1, max_size=6), shuffle=st.sampled_from(["page", "row"])
)
def test_any_chain_of_resumes_gives_the_same_remaining_sequence(folder, legs, shuffle):
    state, model = None, None
    for world_size, batch_size, steps, skips in legs:
        if model == []:
            break
        loader = numbered_loader(
            folder,
            world_size=world_size,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=False,
        )
        loader.load_state_dict(json.loads(json.dumps(state or {})))
        if model is None:
            model = sequences_of_steps(loader, 10**6)
            assert sorted(model) == list(range(loader.num_sequences))
        route = loader.view().run.at(loader.view().position.now).route
        assert route.num_steps is not None
        indices = sorted({skip for skip in skips if skip < route.num_steps})
        numbers = [
            route.number_of(StepIndex(index)) for index in range(route.num_steps)
        ]
        loader.skip([numbers[index] for index in indices])
        for index in reversed(indices):
            span = route._places(route.span(index, index + 1)) - route.start
            del model[slice(*span.tolist())]
        left = [number for n, number in enumerate(numbers) if n not in indices]
        if not left:  # The loader stands at its next iteration.
            break
        remaining = loader.view().run.at(loader.view().position.now).route
        assert remaining.num_steps is not None
        kept = range(remaining.num_steps)
        assert [remaining.number_of(StepIndex(index)) for index in kept] == left
        taken = sequences_of_steps(loader, steps)
        assert taken == model[: len(taken)]
        if steps < remaining.num_steps - 1:
            assert len(taken) == steps * world_size * batch_size
        loader.seek(remaining.number_of(min(steps, remaining.num_steps)))
        del model[: len(taken)]
        state = loader.state_dict()
        assert len(json.dumps(state)) < 1024
        if model:  # At the end the next epoch begins.
            assert sequences_of_steps(loader, 10**6) == model


@settings(max_examples=scaled(15))
@given(
    world_size=st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 48]),
    batch_size=st.integers(1, 7),
    seed=st.integers(0, 3),
)
def test_the_global_order_is_that_of_one_rank(folder, world_size, batch_size, seed):
    alone = numbered_loader(folder, seed=seed, batch_size=1)
    many = numbered_loader(
        folder, seed=seed, world_size=world_size, batch_size=batch_size
    )
    order = sequences_of_steps(many, 10**6)
    assert order == sequences_of_steps(alone, len(order))
    assert alone.num_sequences - len(order) < world_size * batch_size


def test_lanes_of_an_odd_world_size_are_in_the_state_and_kept(folder):
    first = numbered_loader(folder, world_size=64, batch_size=1)
    state = first.state_dict()
    assert state["num_lanes"] != numbered_loader(folder).state_dict()["num_lanes"]
    resumed = numbered_loader(folder)
    resumed.load_state_dict(state)
    expected = sequences_of_steps(first, 5)
    assert sequences_of_steps(resumed, 5 * 64 // 4) == expected


def test_a_chain_of_real_runs_is_one_epoch(folder):
    whole = rows_of(numbered_loader(folder, drop_last=False))
    seen: list[int] = []
    state: dict[str, Any] = {}
    chain = [(4, 2, 7), (3, 5, 4), (1, 1, 3), (6, 3, 5), (2, 4, None)]
    for world_size, batch_size, steps in chain:
        parts, states = [], []
        for rank in range(world_size):
            loader = numbered_loader(
                folder,
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                num_threads=1 + rank % 3,
                memory="1MiB" if rank % 2 else "8MiB",
                drop_last=False,
            )
            loader.load_state_dict(state)
            parts.append([first_tokens(batch) for batch in islice(loader, steps)])
            states.append(loader.state_dict())
        assert states.count(states[0]) == len(states)
        state = states[0]
        seen += interleaved(parts)
    tokens = [token for token in seen if token >= 0]
    assert tokens == [token for token in whole if token >= 0]


def test_seek_goes_forth_and_back_and_a_running_loop_follows(folder):
    whole = batches_of(numbered_loader(folder))
    loader = numbered_loader(folder)
    loader.seek(20)
    assert loader.state_dict()["step"] == 20
    assert batches_of(loader) == whole[20:]
    loader.set_epoch(0)
    seen = []
    for batch in loader:
        seen.append(first_tokens(batch))
        if len(seen) == 3:
            loader.seek(len(whole) - 2)
    assert seen == whole[:3] + whole[-2:]
    loader.set_epoch(0)
    loader.seek(9)
    loader.seek(2)
    assert first_tokens(next(iter(loader))) == whole[2]
    loader.set_epoch(0)
    loader.seek(len(whole))
    # The loop that was left had this epoch, and now stands at its end.
    assert (loader.epoch, loader.step, loader.num_steps_left) == (0, len(whole), 0)
    second = batches_of(loader)
    assert loader.state_dict()["epoch"] == 2
    loader.set_epoch(1)
    assert batches_of(loader) == second != whole


def test_a_new_loop_begins_where_a_seek_led_and_else_its_epoch_again(folder):
    whole = batches_of(numbered_loader(folder))
    loader = numbered_loader(folder)
    next(iter(loader))
    loader.seek(7)
    assert first_tokens(next(iter(loader))) == whole[7]
    assert first_tokens(next(iter(loader))) == whole[0]
    loader.skip([1])
    assert batches_of(loader) == whole[:1] + whole[2:]
    loader.load_state_dict(loader.state_dict() | {"epoch": 0, "first_epoch": 0})
    loader.seek(5)
    iter(loader)  # Nothing is taken from it.
    assert batches_of(loader) == whole[5:]


def test_seek_runs_through_joined_epochs(folder):
    whole = batches_of(numbered_loader(folder, epochs=2))
    loader = numbered_loader(folder, epochs=2)
    step = len(whole) // 2 + 5
    loader.seek(step)
    assert loader.state_dict()["epoch"] == 1
    assert batches_of(loader) == whole[step:]


def test_a_step_that_does_not_exist_is_refused(folder):
    loader = numbered_loader(folder)
    steps = len(loader)
    for step in (-1, steps + 1):
        with pytest.raises(InvalidArgumentError, match=f"below {steps}"):
            loader.seek(step)
    for step in (-1, steps):
        with pytest.raises(InvalidArgumentError, match=f"below {steps}"):
            loader.locate(step, 0)
        with pytest.raises(InvalidArgumentError, match=f"the end {steps}"):
            loader.skip([step])
    endless = numbered_loader(folder, epochs=None)
    endless.seek(10 * steps)
    assert endless.state_dict()["epoch"] in (9, 10)
    endless.skip([10 * steps])
    next(iter(endless))
    assert endless.state_dict()["step"] == 10 * steps + 2


@pytest.mark.parametrize(("skipped", "drop_last"), [([], True), ([3, 4, 11], False)])
def test_steps_of_is_the_inverse_of_locate(folder, skipped, drop_last):
    located = defaultdict(set)
    for rank in range(2):
        loader = numbered_loader(
            folder, rank=rank, world_size=2, batch_size=5, drop_last=drop_last
        )
        loader.skip(skipped)
        for step in set(range(len(loader))) - set(skipped):
            for row in range(5):
                try:
                    sources = loader.locate(step, row)
                except InvalidArgumentError as error:
                    assert "padding" in str(error)  # noqa: PT017 - the rest must fail
                    continue
                for source in sources:
                    located[source.file, source.row].add(Slot(step, rank, row))
    for file in loader.view().run.datasets[0].files:
        for row in range(300):
            assert loader.steps_of(file, row) == sorted(located[file, row])


def test_steps_of_knows_the_windows_of_a_document_and_its_epoch(folder):
    loader = numbered_loader(folder, sequences=pf.Windows(7, tail="drop"))
    file = loader.view().run.datasets[0].files[1]
    first = loader.steps_of(file, 17)
    assert len(first) > 1
    loader.set_epoch(1)
    assert loader.steps_of(file, 17) != first
    with pytest.raises(InvalidArgumentError, match="has 300 rows"):
        loader.steps_of(file, 300)
    with pytest.raises(InvalidArgumentError, match="not a file of the dataset"):
        loader.steps_of("elsewhere.parquet", 0)


def test_all_steps_taken_is_the_end_even_if_the_loop_is_left_there(folder):
    loader = numbered_loader(folder)
    assert len(list(islice(loader, len(loader)))) == len(loader)
    second = batches_of(loader)
    fresh = numbered_loader(folder)
    fresh.set_epoch(1)
    assert second == batches_of(fresh)


def test_an_iterator_that_another_one_ended_says_so(folder):
    loader = numbered_loader(folder)
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(pf.errors.CancelledError, match="one iteration at a time"):
        next(first)


def test_a_step_may_be_larger_than_a_piece_of_a_plan(folder):
    options = {"sequences": pf.Windows(1), "shuffle": None}
    size = MOST_SEQUENCES + 1
    (large,) = islice(numbered_loader(folder, batch_size=size, **options), 1)
    few = islice(numbered_loader(folder, batch_size=100, **options), 1 + size // 100)
    rows = [row for batch in few for row in first_tokens(batch)]
    assert first_tokens(large) == rows[:size]


def test_a_place_without_tokens_of_a_document_is_not_its_source(tmp_path):
    rows = pa.array([[1, 2, 3, 4], [5, 6], []], pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    options = {"batch_size": 1, "shuffle": None, "padding": 0}
    windows = pf.Windows(4, eos=9)
    loader = numbered_loader(tmp_path, sequences=windows, **options)
    assert [batch["input_ids"][0].tolist() for batch in loader] == [
        [1, 2, 3, 4],
        [9, 5, 6, 9],
        [9, 0, 0, 0],
    ]
    found = [
        [(one.row, one.num_tokens, one.offset) for one in loader.locate(step, 0)]
        for step in range(3)
    ]
    assert found == [[(0, 4, 0)], [(1, 2, 1)], []]
    documents = numbered_loader(tmp_path, sequences=pf.Documents(), **options)
    (source,) = documents.locate(2, 0)
    assert (source.row, source.num_tokens) == (2, 0)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("rows_each", [16, 15])
def test_steps_are_told_of_the_epoch_that_a_loop_stands_at(tmp_path, epochs, rows_each):
    """Also after its last batch, whether that ends the epoch's sequences or not."""
    rows = [[32 * n + i for i in range(32)] for n in range(4 * rows_each)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    loader = numbered_loader(tmp_path, batch_size=8, epochs=epochs)
    steps = len(loader)
    iterator = iter(loader)
    for taken in range(1, steps + 1):
        next(iterator)
        first = loader.epoch * len(rows)
        step = -(-first // 8)
        (origin,) = loader.locate(step, 0)
        assert (step, 0, 0) in loader.steps_of(origin.file, origin.row)
        assert loader.step == taken
    assert loader.epoch == epochs - 1
    loader.seek(steps)
    (origin,) = loader.locate(steps - 1, 7)
    assert (steps - 1, 0, 7) in loader.steps_of(origin.file, origin.row)
    assert next(iterator, None) is None
    (origin,) = loader.locate(0, 0)
    assert loader.epoch == epochs
    assert (0, 0, 0) in loader.steps_of(origin.file, origin.row)
