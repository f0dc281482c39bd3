"""The session of a loader of counted tokens: its run, and the position in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pagefeed.core._base import Facts, Int64Array
from pagefeed.core.batches.feeds import Feed
from pagefeed.core.batches.formats import Batch, converted, make_converter, transformed
from pagefeed.core.batches.iteration import Iteration, StepIterator, dataset_ids
from pagefeed.core.batches.plan import Plan, plan_of_steps
from pagefeed.core.batches.position import Position
from pagefeed.core.batches.run_view import AnyView, warn_of_return
from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.batches.sources import (
    make_feed,
    make_run,
    with_chosen_block,
)
from pagefeed.core.ranks import check_share
from pagefeed.core.run import Grown, LoaderState, Run, Sequences
from pagefeed.core.wiring import (
    check_settings,
    check_unlearned,
    explain,
    make_watch,
)
from pagefeed.errors import CancelledError, InvalidArgumentError

STEPS_BETWEEN_LOOKS = 64
"""Steps after which a session looks again whether pages are read again."""


class RunView(AnyView):
    """A run on this rank, and the position in it: what ``loader.view()`` returns.

    Args:
        settings: The settings of the loader.

    Raises:
        InvalidArgumentError: If the run has nothing to deliver.
    """

    settings: LoaderSettings

    def __init__(self, settings: LoaderSettings) -> None:
        super().__init__(settings)
        if (parts := settings.context_parallel) is not None:
            self.share = parts.rank, parts.size
        run = make_run(settings)
        self._feed = make_feed(settings, run)
        self._convert = make_converter(settings.format, pin_memory=False)
        self._watch = make_watch(run, settings)
        self._position = Position(run=run, start=run.beginning(0))
        if not run.is_of_state:
            run.check_steps(self._position.start)
        self._grown: tuple[int, Run, Feed] | None = None
        """An epoch of grown data, with its run and its feed."""
        self._num_made = self._num_padding_rows = 0
        self._has_logged = False
        self._tells_datasets = "dataset_ids" in settings.fields.names
        self._learner: Any = None
        self._learning: Any = None
        """The learner's part of the loaded state, until there is a learner."""

    @property
    def position(self) -> Position:
        """Position of the loader."""
        return self._position

    @property
    def run(self) -> Run:
        """The run of the loader, with its sizes."""
        return self._position.run

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence, or the last one of a loop at its end."""
        state = self.position.now
        last = self.run.after(state).epoch - 1
        return state.epoch if self.run.epochs is None else min(state.epoch, last)

    def plan(self, steps: Iterable[int]) -> Plan:
        """Return what steps of this rank read, see :meth:`Loader.plan`."""
        return plan_of_steps(self.position.whole, self._feed.plan, steps)

    def reweight(self, weights: Mapping[str, float], anneal: int) -> None:
        """Mix with other weights from the next step on."""
        state = self.run.reweighted(self.position.now, weights, anneal)
        self.go_on(state, is_new=False)

    def facts(self) -> Facts:
        """Return facts about the run, to print."""
        run = self.run
        return {
            "num_sequences": run.num_sequences,
            "steps": run.at(run.beginning(0)).route.num_steps,
            "epoch": self.epoch,
            "step": self.position.now.step,
        }

    def load_state_dict(self, state: Any, grown: Grown | None = None) -> None:
        """Continue at a state, as :meth:`Loader.load_state_dict` does.

        Raises:
            StateMismatchError: If it belongs to another run, or is none.
        """
        read = LoaderState.from_dict(state)
        learning, wanted = read.parts.get("learning"), _learned(read, None)
        if self._learner is not None:
            self._learner.check(learning)
        self._load(wanted, grown)
        self._position = replace(self._position, is_loaded=True)
        self.learning = learning
        self.tell()

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, and what a learner remembers."""
        self.check_state()
        return _learned(self.position.saved, self.learning).to_dict()

    @property
    def learning(self) -> Any:
        """State of the learner, or of the learner in the loaded state, or None."""
        return self._learning if self._learner is None else self._learner.state_dict()

    @learning.setter
    def learning(self, learning: Any) -> None:
        self._learning = learning
        if self._learner is not None:
            self._learner.load_state_dict(learning, self.position.now.step)

    def learn(self, memory: Any) -> None:
        """Attach a learner: states save its memory, and a loaded state restores it."""
        memory.load_state_dict(self.learning, self.position.now.step)
        self._learner = memory

    def replay(self) -> None:
        """Begin the iteration recorded in the state again, with all its weight changes.

        Raises:
            StateMismatchError: If the state does not record what was delivered.
        """
        if (ended := self.position.start.ended) is not None:
            self._load(ended, None)
        self.begin(self.position.start.again(is_grown=self._grown is not None))
        self.learning = None  # The weights are known, of any origin.
        self._position = replace(self._position, is_loaded=True)

    def resume(self, state: LoaderState) -> None:
        """Continue at ``state`` without marking it as loaded.

        Used when a session is copied.
        """
        self._load(state, None if self.run.is_of_state else "next-epoch")
        self.tell()

    def _load(self, state: LoaderState, grown: Grown | None) -> None:
        """Continue at a state; if data were added, finish its epoch without them.

        If nothing of the epoch was delivered or skipped, the epoch begins with all
        data.
        """
        run = self.run if self._grown is None else self._grown[1]
        rest, begin = run.rest(state, grown)
        feed = None
        if rest is not run and begin.goes_on(state.first_epoch):
            feed = make_feed(self.settings, rest)
        with self.lock:
            self._stop()
            self._take_all()
            if feed is not None:
                self._grown = begin.first_epoch, self.run, self._feed
                self._position, self._feed = replace(self._position, run=rest), feed
            elif rest is not run:
                begin = run.beginning(begin.epoch)
            self.begin(begin)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration the ``epoch``-th, see :meth:`Loader.set_epoch`."""
        following, joined = self.position.next, self.run.epochs or 1
        first, last = following.first_epoch // joined, following.epoch // joined
        here = self.run.going_on(self.position.now).epoch // joined
        if epoch not in (first, last, here):
            if self.position.is_loaded and epoch < last:
                warn_of_return(epoch, following.epoch)
            self.begin(self.run.beginning(epoch * joined))
        self.tell()

    @property
    def num_steps_left(self) -> int | None:
        """Steps until the end of this iteration; None if it never ends."""
        running = self.position.running
        if running is not None and running.cursor.num_workers == 1:
            return running.cursor.num_left
        return self.run.at(self.position.now).num_left

    def last_datasets(self, rank: int | None = None) -> Int64Array:
        """Return the dataset of each row of the last batch taken.

        Args:
            rank: Rank of the batch; None for this rank.

        Returns:
            int64 [batch_size]: numbers of the datasets; -1 for padding.
        """
        running = self.position.running
        if running is None:
            raise InvalidArgumentError("no batch was taken")
        rank = self.settings.rank if rank is None else rank
        return dataset_ids(self.run, running.cursor.last_sequences([rank])[0])

    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""
        counters: dict[str, float] = self._feed.engine().stats()
        position = self.position
        running = 0 if position.running is None else position.running.num_padding_rows
        counters["padding_sequences"] = self._num_padding_rows + running
        delivered = self.run.at(position.finished or position.now).stats()
        return counters | delivered | self._storage_counts()

    def _storage_counts(self) -> dict[str, int]:
        """Return the counters of all storages of the datasets, by names of stats."""
        storages = {id(d.index.storage): d.index.storage for d in self.run.datasets}
        counts: Counter[str] = Counter()
        for storage in storages.values():
            counts.update(storage.counts())
        return {f"storage/{name}": count for name, count in counts.items()}

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for, see :meth:`AnyView.awaited`."""
        return self._feed.awaited() | self._storage_counts()

    def progress(self) -> dict[str, float]:
        """Return the position of the run as metrics."""
        now, finished = self.position.now, self.position.finished
        return {
            "data/epoch": self.epoch,
            "data/step": now.step,
            "data/tokens_total": self.run.at(finished or now).num_tokens_before,
        }

    def _agreed(self) -> dict[str, Any]:
        settings, parts = self.settings, self.settings.context_parallel
        return replace(self.position.now, ended=None).to_dict() | {
            "batch_size": settings.global_batch_size or settings.batch_size,
            "epochs": settings.epochs,
            "drop_last": settings.drop_last,
            "context_parallel": parts and [parts.size, parts.layout],
            "fields": settings.fields.settings,
        }

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> StepIterator:
        """Iterate, alone or as one of several processes that share its steps."""
        check_share(worker, num_workers)
        return StepIterator(self, worker, num_workers)

    def next_batch(self, iterator: StepIterator) -> Batch | None:
        """Return the next batch, and count it; None after the last one."""
        if iterator.iteration is None:
            iterator.iteration = self._opened(iterator.worker, iterator.num_workers)
        running = iterator.iteration
        try:
            delivered = running.take()
            batch = None if delivered is None else self._made(delivered, running)
        except CancelledError:
            raise
        except Exception as error:
            self.has_failed = True
            self._explain(error, running)
            raise
        self.has_failed = False
        if batch is None:
            self._end(running)
        else:
            running.count()
        return batch

    def rows(self, sequences: Sequences) -> Iterator[Batch]:
        """Yield batches of sequences of any numbers, [batches, rows], untransformed.

        Their pages are read once, and stay in memory for the next call as long as there
        is room. For loaders that do not iterate.
        """
        with self.lock, self.awaiting():
            engine = self._feed.engine()
            engine.keep_pages()
            engine.submit(self._feed.plan(sequences))
            try:
                for _ in range(len(sequences)):
                    yield self._feed.batch(engine.next_batch())
            finally:
                engine.clear(keep_pages=True)

    def _explain(self, error: Exception, running: Iteration) -> None:
        """Say in an error which steps need what cannot be read."""
        now, step = self.run.at(self.position.now), running.cursor.step
        explain(error, now, step)

    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""
        self._feed.close()

    def go_on(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running loop too."""
        running = self.position.running
        if running is not None and running.is_here:
            if self._grown is not None and not state.goes_on(state.first_epoch):
                self._take_all()
                state = self.run.beginning(state.epoch)
            cursor = running.cursor
            of = {"worker": cursor.worker, "num_workers": cursor.num_workers}
            self._position = self._position.go_on(state, running)
            cursor = self._position.at(state, **of)
            running.follow(cursor, self._feed, is_new=is_new or running.is_new)
        else:
            self.begin(state)
        self.tell()

    def begin(self, state: LoaderState) -> None:
        """End the running loop; the next begins at ``state``."""
        self._leave(state)

    def _end(self, running: Iteration) -> None:
        """Continue with the next epoch, all steps of this one taken."""
        if running is self.position.running:
            self._leave(self.run.after(self.position.now), is_done=True)

    def _leave(self, state: LoaderState, *, is_done: bool = False) -> None:
        with self.lock:
            self._stop()
            if self._grown is not None:
                state = self.run.going_on(state)
                if not state.goes_on(self._grown[0]):
                    self._take_all()
                    state = self.run.beginning(state.epoch)
            move = self._position.done if is_done else self._position.begin
            self._position = move(state)

    def _stop(self) -> None:
        """Stop the running loop, also if another thread takes its batches."""
        if (running := self.position.running) is not None:
            running.stop()
            self._num_padding_rows += running.num_padding_rows
            running.num_padding_rows = 0

    def _take_all(self) -> None:
        """Leave the epoch over earlier data: the next epoch uses all data."""
        if self._grown is not None:
            self._feed.close()
            _, run, self._feed = self._grown
            self._position, self._grown = replace(self._position, run=run), None

    def _opened(self, worker: int, num_workers: int) -> Iteration:
        """Begin a loop."""
        self._check_learned()
        state = self.position.left
        if num_workers == 1:  # Only some of several workers may have steps left.
            state = self.run.going_on(state)
            self.run.check_steps(state)
        return self._start(state, worker, num_workers)

    def _start(self, state: LoaderState, worker: int, num_workers: int) -> Iteration:
        """Begin a loop at a state."""
        self.begin(state)
        start = self._position.start
        cursor = self._position.at(start, worker=worker, num_workers=num_workers)
        if worker == 0:
            if self._watch is not None:
                self._watch.begin(cursor.route, self.accumulated)
            if self.settings.rank == 0 and not self._has_logged:
                self._has_logged = True
                cursor.log()
        iteration = Iteration(
            cursor,
            self._feed,
            self.settings.memory,
            self.settings.plan_bytes,
            tells_datasets=self._tells_datasets,
            lengths=self.settings.lengths,
        )
        self._position = self._position.go_on(self._position.start, iteration)
        return iteration

    def _check_learned(self) -> None:
        """Refuse to continue with a policy's weights if no policy is given."""
        if self._learner is None and self._learning is not None:
            check_unlearned(self._learning)

    def _made(self, delivered: Any, running: Iteration) -> Batch:
        if self._watch is not None and self._num_made % STEPS_BETWEEN_LOOKS == 0:
            self._watch.look(self._feed.engine().stats())
        self._num_made += 1
        batch = self._feed.batch(delivered)
        if self._tells_datasets:
            dataset_ids = self._feed.dataset_ids(batch, running.dataset_ids)
            batch |= converted({"dataset_ids": dataset_ids}, self._convert)
        if self.transform is None:
            return batch
        cursor = running.cursor
        return transformed(
            self.transform,
            batch,
            lambda: self.generator(cursor.begin.first_epoch, cursor.step),
        )


def _learned(state: LoaderState, learning: Any) -> LoaderState:
    """Return a state, and the end before it, with the learner's present memory."""
    ended = state.ended and _learned(state.ended, learning)
    return replace(state.having(learning=learning), ended=ended)


def open_session(settings: LoaderSettings) -> RunView:
    """Return the view of a loader with these settings.

    Raises:
        InvalidArgumentError: If this kind of source does not support a setting.
    """
    check_settings(settings)
    settings = with_chosen_block(settings)
    fleet = settings.fleet
    return RunView(settings) if fleet is None else fleet.open_session(settings)
