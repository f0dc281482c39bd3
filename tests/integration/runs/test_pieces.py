"""Plans are made in pieces, ahead of what is asked and no further than they may."""

from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from pagefeed.core.batches import plan_batches
from pagefeed.core.batches.feeds import Feed
from pagefeed.core.batches.iteration import Iteration
from pagefeed.core.order import EpochOrder
from pagefeed.core.order.lists import BlockList
from pagefeed.core.order.starts import Starts
from pagefeed.core.run import DatasetCursor, DatasetRun, Sequences
from pagefeed.core.sequences import Segments


def make_loader(files, **options):
    tokens = pf.parquet(files, column="input_ids")
    settings: dict[str, Any] = {"batch_size": 4, "seed": 3, "memory": "8MiB"} | options
    return pf.Loader(tokens, sequences=pf.Windows(64), **settings)


@pytest.mark.parametrize("sequences", [pf.Windows(64), pf.Packed(64)])
@pytest.mark.parametrize("num_rows", [1, 3, 40])
def test_few_epochs_are_planned_before_the_first_batch(
    tmp_path, write_tokens, num_rows, sequences
):
    path = write_tokens(tmp_path / "tiny.parquet", [[1, 2, 3] * 20] * num_rows)
    tokens = pf.parquet(path, column="input_ids")
    loader = pf.Loader(tokens, sequences=sequences, batch_size=1, epochs=None)
    source = loader.view().run
    assert isinstance(source, DatasetRun)
    batches = iter(loader)
    made = []
    for _ in range(100):
        next(batches)
        made.append(source.orders.of.cache_info().misses)
    assert made[0] <= 65, "orders of epochs"
    assert np.diff(made).max() <= 65


def test_the_next_epoch_is_begun_before_it_is_planned(token_files, monkeypatch):
    monkeypatch.setattr("pagefeed.core.order.starts.PIECE", 64)
    monkeypatch.setattr("pagefeed.core.batches.iteration.CHUNK_SEQUENCES", 16)
    loader = make_loader(token_files, epochs=2, shuffle=pf.Shuffle(window=8))
    source = loader.view().run
    assert isinstance(source, DatasetRun)
    orders = source.orders
    steps_made = []
    for step, _ in enumerate(loader):
        order = orders.of(1, orders.num_lanes, None)
        assert isinstance(order, EpochOrder)
        sequence = order._sequence
        assert isinstance(sequence, BlockList)
        starts = sequence._starts
        if isinstance(starts, Starts) and starts._made is not None:
            steps_made.append(step)
    assert len(loader) > 100
    assert steps_made[0] < len(loader) // 4


@pytest.mark.parametrize("drop_last", [True, False])
def test_pieces_of_a_plan_are_the_plan(token_files, monkeypatch, drop_last):
    monkeypatch.setattr("pagefeed.core.run.route.MOST_SEQUENCES", 40)
    loader = make_loader(token_files, epochs=2, drop_last=drop_last, batch_size=6)
    run = loader.view().run
    cursor, index = run.at(run.beginning(0)), run.index
    count = len(loader) - 3
    whole = plan_batches(index, Sequences(cursor.sequences(3, count)), 6)
    parts = [part for part in cursor.pieces(3, count) if part is not None]
    assert sum(len(sequences) for sequences in parts) == 6 * count
    pieces = [plan_batches(index, sequences, 6) for sequences in parts]
    assert len(pieces) > 10
    num_batches = np.array([piece.num_batches for piece in pieces])
    assert num_batches.sum() == whole.num_batches == count
    before = 6 * (np.cumsum(num_batches) - num_batches)
    tables = [
        piece.segments._replace(sequence=piece.segments.sequence + rows)
        for piece, rows in zip(pieces, before, strict=True)
    ]
    for name in Segments._fields:
        joined = np.concatenate([getattr(table, name) for table in tables])
        assert np.array_equal(joined, getattr(whole.segments, name))


def test_short_epochs_are_ordered_once_each(token_files):
    loader = make_loader(token_files, epochs=5)
    run = loader.view().run
    assert isinstance(run, DatasetRun)
    cursor = run.at(run.beginning(0))
    made_before = run.orders.of.cache_info().misses
    for _ in cursor.pieces(0, len(loader)):
        pass
    assert run.orders.of.cache_info().misses == made_before + 5


class CountingEngine:
    """Takes plans, each batch of which counts so many bytes until it is taken."""

    bytes_of_batch = 100

    def __init__(self):
        self.num_pending = 0
        self.most_bytes = 0

    @property
    def plan_bytes(self):
        return self.num_pending * self.bytes_of_batch

    def submit(self, plan):
        self.num_pending += plan.num_batches
        self.most_bytes = max(self.most_bytes, self.plan_bytes)

    def next_batch(self):
        assert self.num_pending > 0
        self.num_pending -= 1

    def clear(self, *, keep_pages):  # noqa: ARG002
        self.num_pending = 0

    def stats(self) -> dict[str, Any]:
        return {"pages_loaded": 0, "pages_reloaded": 0}


class CountingFeed(Feed):
    """Plans for a counting engine."""

    def __init__(self, engine, index):
        self._engine, self._index = engine, index

    def engine(self):
        return self._engine

    def plan(self, sequences):
        return plan_batches(self._index, sequences.reshape(-1), 2)

    def batch(self, delivered: Any) -> Any:
        return delivered

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.parametrize("plan_bytes", [0, 1000, 1 << 40])
def test_plans_take_no_more_than_they_may(token_files, monkeypatch, plan_bytes):
    monkeypatch.setattr("pagefeed.core.run.route.MOST_SEQUENCES", 4)
    monkeypatch.setattr(Iteration, "begin_sequences", 20)
    loader = make_loader(token_files, batch_size=2)
    engine, session = CountingEngine(), loader.view()
    feed = CountingFeed(engine, session.run.index)
    monkeypatch.setattr(DatasetCursor, "horizon", lambda *_: 1 << 20)
    cursor = session.run.at(session.run.beginning(0))
    iteration = Iteration(cursor, feed, 0, plan_bytes)
    begun = None
    for _ in range(len(loader)):
        iteration.take()
        iteration.count()
        begun = engine.num_pending if begun is None else begun
    assert iteration.is_finished
    assert begun == {0: 0, 1000: 9, 1 << 40: 9}[plan_bytes]
    limit = plan_bytes + 2 * engine.bytes_of_batch
    assert engine.most_bytes <= max(limit, 0)


def test_no_step_waits_for_a_plan_and_for_its_way_to_the_engine(
    token_files, monkeypatch
):
    monkeypatch.setattr("pagefeed.core.run.route.MOST_SEQUENCES", 4)
    monkeypatch.setattr(Iteration, "begin_sequences", 20)
    loader = make_loader(token_files, batch_size=2)
    engine, session = CountingEngine(), loader.view()
    work: list[str] = []

    def noted(name, call):
        def work_and_call(*args):
            work.append(name)
            return call(*args)

        return work_and_call

    monkeypatch.setattr(CountingFeed, "plan", noted("plan", CountingFeed.plan))
    monkeypatch.setattr(engine, "submit", noted("submit", engine.submit))
    cursor = session.run.at(session.run.beginning(0))
    feed = CountingFeed(engine, session.run.index)
    iteration = Iteration(cursor, feed, 0, 1 << 40)
    steps = []
    for _ in range(len(loader)):
        work.clear()
        iteration.take()
        iteration.count()
        steps.append([*work])
    assert len(steps[0]) > 2  # The first waits for many.
    assert steps[1:3] == [["submit"], ["plan"]]
    assert max(map(len, steps[1:])) == 1
