"""The last steps of an iteration with ``drop_last=False``: nothing lost, none empty."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered
from pagefeed.core.run.route import NO_POSITION, Route, Step, StepIndex
from scaled import scaled


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("few")
    write_numbered(path, num_files=1, num_rows=10)
    return path


@settings(max_examples=scaled(200))
@given(
    num_sequences=st.integers(1, 120),
    batch_size=st.integers(1, 5),
    world_size=st.integers(1, 9),
    skipped=st.sets(st.integers(0, 9)),
)
@example(num_sequences=572, batch_size=5, world_size=100, skipped={0})
@example(num_sequences=29, batch_size=2, world_size=9, skipped={0})
def test_every_rank_has_a_sequence_where_there_are_enough(
    num_sequences, batch_size, world_size, skipped
):
    options: dict[str, Any] = {
        "start": 0,
        "end": num_sequences,
        "batch_size": batch_size,
        "world_size": world_size,
        "drop_last": False,
    }
    whole = Route(rank=0, **options)
    assert whole.num_steps is not None
    numbers = [whole.number_of(StepIndex(index)) for index in range(whole.num_steps)]
    assert numbers == list(range(whole.num_steps))
    gone = sorted(index for index in skipped if index < whole.num_steps)
    spans = tuple(whole.span(index, index + 1) for index in gone)
    routes = [
        Route(rank=rank, skipped=merged(spans), **options) for rank in range(world_size)
    ]
    num_steps = routes[0].num_steps
    assert num_steps == len(numbers) - len(gone)
    left = [number for number in numbers if number not in gone]
    assert [routes[0].number_of(StepIndex(index)) for index in range(num_steps)] == left
    assert [routes[0].index_of(number) for number in left] == list(range(num_steps))
    end = routes[0].number_of(StepIndex(num_steps))
    assert end > max(left, default=-1)
    assert routes[0].index_of(end) == num_steps
    assert routes[0].index_of(Step(end + 1)) > num_steps
    if not num_steps:
        return
    dealt = np.stack([route.positions(0, num_steps) for route in routes])
    dealt = dealt.reshape(world_size, num_steps, batch_size).swapaxes(0, 1)
    kept = {p for p in range(num_sequences) if not any(a <= p < b for a, b in spans)}
    real = dealt[dealt != NO_POSITION]
    assert sorted(real.tolist()) == sorted(kept)
    for index, step in enumerate(dealt):
        rows = step[step != NO_POSITION]
        assert routes[0].position_after(index) == rows.min()
        assert routes[0].position_after(index + 1) > rows.max()
        for position in rows.tolist():
            (slot,) = routes[0].slots(np.array([position]))
            assert slot.step == left[index]
            assert step[slot.rank, slot.row] == position
    if num_steps > 1 and batch_size > 1:
        assert (dealt != NO_POSITION).any(axis=2).all()


def merged(spans):
    joined: list[tuple[int, int]] = []
    for begin, end in spans:
        if joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return tuple(joined)


@pytest.mark.parametrize("sequences", [pf.Windows(LENGTH), pf.Packed(LENGTH)])
def test_more_ranks_than_sequences(folder, sequences):
    options: dict[str, Any] = {"sequences": sequences, "drop_last": False}
    alone = numbered_loader(folder, batch_size=1, **options)
    tokens = sorted(t for b in alone for t in b["input_ids"].ravel().tolist())
    found, padding = [], 0.0
    for rank in range(2 * alone.num_sequences):
        loader = numbered_loader(
            folder,
            rank=rank,
            world_size=2 * alone.num_sequences,
            batch_size=1,
            **options,
        )
        (batch,) = loader
        found += batch["input_ids"].ravel().tolist()
        padding += loader.stats()["padding_sequences"]
    assert padding == alone.num_sequences
    assert sorted(t for t in found if t >= 0) == [t for t in tokens if t >= 0]


def test_a_packed_run_resumes_at_its_last_step(folder):
    options: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH),
        "drop_last": False,
        "batch_size": 1,
        "world_size": 2,
        "rank": 1,
    }
    loader = numbered_loader(folder, **options)
    whole = [batch["input_ids"].tolist() for batch in loader]
    loader.set_epoch(0)
    loader.seek(len(loader) - 1)
    resumed = numbered_loader(folder, **options)
    resumed.load_state_dict(loader.state_dict())
    assert [batch["input_ids"].tolist() for batch in resumed] == whole[-1:]


@pytest.mark.parametrize("sequences", [pf.Windows(LENGTH), pf.Packed(LENGTH)])
def test_a_view_of_no_sequences(folder, sequences):
    view = pf.SequenceView(pf.parquet(folder, column="input_ids"), sequences)
    assert view.__getitems__([]) == []
    assert len(view.__getitems__([0, 0])) == 2


@pytest.mark.parametrize("batch_size", [2, 3, 5])
@pytest.mark.parametrize("world_size", [1, 3, 4, 7])
def test_the_mean_loss_of_an_evaluation_is_exact(folder, batch_size, world_size):
    """The recipe of the docs: sums of all ranks, divided by counts of all ranks."""
    options: dict[str, Any] = {"fields": ("input_ids", "labels"), "drop_last": False}
    sums, counts, padding = [], [], 0.0
    for rank in range(world_size):
        loader = numbered_loader(
            folder, rank=rank, world_size=world_size, batch_size=batch_size, **options
        )
        for batch in loader:
            labels = batch["labels"]
            sums.append(int(labels[labels != -100].sum()))
            counts.append(int((labels != -100).sum()))
        padding += loader.stats()["padding_sequences"]
        steps = len(loader)
    alone = numbered_loader(folder, batch_size=1, **options)
    expected = [b["labels"][b["labels"] != -100] for b in alone]
    assert sum(sums) == sum(int(labels.sum()) for labels in expected)
    assert sum(counts) == sum(map(len, expected))
    assert padding == steps * batch_size * world_size - alone.num_sequences
    if steps > 1:
        assert min(counts) > 0


@settings(max_examples=scaled(200))
@given(
    start=st.integers(0, 20),
    num_sequences=st.integers(0, 120),
    batch_size=st.integers(1, 5),
    world_size=st.integers(1, 9),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_a_range_of_positions_is_what_the_positions_are(
    start, num_sequences, batch_size, world_size, drop_last, data
):
    route = Route(
        start=start,
        end=start + num_sequences,
        batch_size=batch_size,
        rank=data.draw(st.integers(0, world_size - 1)),
        world_size=world_size,
        drop_last=drop_last,
    )
    num_steps = route.num_steps or 0
    first = data.draw(st.integers(0, num_steps))
    count = data.draw(st.integers(0, num_steps - first))
    positions = route.positions(first, count).tolist()
    found = route.progression(first, count)
    if found is not None:
        assert list(found) == positions
    elif NO_POSITION not in positions:  # The last two steps may lend and borrow.
        assert first + count > num_steps - 2
