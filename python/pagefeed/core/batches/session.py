"""The session of a loader of counted tokens: its run, and the position in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import is_not
from typing import Any

from pagefeed.core._base import Facts, Int64Array
from pagefeed.core.batches.feeds import Feed
from pagefeed.core.batches.formats import Batch, converted, make_converter, transformed
from pagefeed.core.batches.iteration import Iteration, StepIterator, dataset_ids
from pagefeed.core.batches.run_view import AnyView, warn_of_return
from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.batches.sources import (
    make_feed,
    make_run,
    rest_of,
    with_chosen_block,
)
from pagefeed.core.ranks import check_share
from pagefeed.core.run import Cursor, Grown, LoaderState, Run
from pagefeed.core.wiring import offered, provided
from pagefeed.errors import CancelledError, InvalidArgumentError

__all__ = ["RunView", "open_session"]


LEARNING = "learning"
"""Name of what a learner adds to a state."""

STEPS_BETWEEN_LOOKS = 64
"""Steps after which a session looks again whether pages are read again."""


class RunView(AnyView):
    """A run on this rank, and the position in it: what ``loader.view()`` returns.

    Args:
        settings: The settings of the loader.

    Raises:
        InvalidArgumentError: If there is nothing to deliver.
    """

    def __init__(self, settings: LoaderSettings) -> None:
        super().__init__(settings)
        self._run = run = make_run(settings)
        self._feed = make_feed(settings, run)
        self._convert = make_converter(settings.format, pin_memory=False)
        watch = offered("watch over a run", None)
        self._watch = None if watch is None else watch(run, settings)
        self._begin_state = run.beginning(0)
        if not run.is_of_state:
            run.check_steps(self._begin_state)
        self._iteration: Iteration | None = None
        self._finished: LoaderState | None = None
        """State at the end of the last iteration, until another one begins."""
        self._grown: tuple[int, Run, Feed] | None = None
        """An epoch of grown data, with its run and its feed."""
        self._answers: dict[str, Grown] = {}
        """Answers to earlier states over grown data, in case they are loaded again."""
        self._known: tuple[tuple[object, ...], Cursor] | None = None
        """The last result of :meth:`known`, and the arguments it is for."""
        self._num_made = self._num_padding_rows = 0
        self._has_logged = False
        self._tells_datasets = "dataset_ids" in settings.fields.names
        self._learner: Any = None
        self._learning: Any = None
        """The learner's part of the loaded state, until there is a learner."""

    @property
    def run(self) -> Run:
        """The run of the loader, with its sizes."""
        return self._run

    @property
    def begin(self) -> LoaderState:
        """Position at which the running iteration began.

        If none runs, the next one begins there.
        """
        begin = self._begin_state
        return self.run.going_on(begin) if self._iteration is None else begin

    @property
    def state(self) -> LoaderState:
        """The position after the last batch handed out.

        A running loop may stand at its end. Without one there are steps ahead.
        """
        running = self._iteration
        return self.begin if running is None else running.cursor.state

    @property
    def saved(self) -> LoaderState:
        """The position as ``state_dict`` returns it: a loaded end stays one."""
        return self._begin_state if self._iteration is None else self.state

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence, or the last one of a loop at its end."""
        state = self.state
        last = self.run.after(state).epoch - 1
        return state.epoch if self.run.epochs is None else min(state.epoch, last)

    @property
    def num_iterations(self) -> int:
        """Number of iterations before the next batch's; trainers call these epochs."""
        return self.run.going_on(self.state).epoch // (self.run.epochs or 1)

    @property
    def first(self) -> LoaderState:
        """The state in which the current iteration began, with its weights."""
        return self._beginning_of(self._begin_state)

    @property
    def again(self) -> LoaderState:
        """Position at which an iteration that was left early begins again."""
        return replace(self.first, skipped=self._begin_state.skipped)

    @property
    def following(self) -> LoaderState:
        """Position at which the next ``iter(loader)`` begins."""
        return self.run.going_on(self._unfinished)

    @property
    def _unfinished(self) -> LoaderState:
        """Like :attr:`following`, but the end to which a state or a seek led stays."""
        begin, running = self._begin_state, self._iteration
        if running is None or running.is_new:
            return begin
        return self.run.after(begin) if running.is_finished else self.again

    @property
    def latest(self) -> LoaderState:
        """Position at which the last iteration began, if no other has begun since."""
        return self._beginning_of(self._finished or self._begin_state)

    def _beginning_of(self, state: LoaderState) -> LoaderState:
        """Return the state in which its iteration began, with the weights it has."""
        begin = self.run.beginning(state.first_epoch)
        return replace(begin, mixture=state.mixture)

    def known(self) -> Cursor:
        """Return the cursor at the first step known to have the present sizes."""
        idle = self._iteration is None
        place = self._run, self._begin_state, idle, *self._place.values()
        if self._known is None or any(map(is_not, place, self._known[0])):
            begin = self.run.known(self.begin).begin
            self._known = place, self.run.at(begin, **self._place)
        return self._known[1]

    @property
    def _place(self) -> dict[str, Any]:
        """Rank and world size of another rank whose cursor is meant.

        None for this one.
        """
        return {}

    def reweight(self, weights: Mapping[str, float], anneal: int) -> None:
        """Mix with other weights from the next step on."""
        self.move(self.run.reweighted(self.state, weights, anneal), is_new=False)

    @property
    def running(self) -> Cursor | None:
        """The cursor of the loop that runs; None without one."""
        return None if self._iteration is None else self._iteration.cursor

    def facts(self) -> Facts:
        """Return facts about the run, to print."""
        run = self.run
        return {
            "num_sequences": run.num_sequences,
            "steps": run.at(run.beginning(0)).route.num_steps,
            "epoch": self.epoch,
            "step": self.state.step,
        }

    def load_state_dict(self, state: Any, grown: Grown | None = None) -> None:
        """Continue at a state, see :meth:`Loader.load_state_dict`.

        Raises:
            InvalidArgumentError: If data are to be mixed into steps some of which are
                skipped.
            StateMismatchError: If it belongs to another run, or is none.
        """
        learning = None
        if isinstance(state, Mapping) and LEARNING in state:
            learning = state[LEARNING]
            state = {name: state[name] for name in state if name != LEARNING}
        if self._learner is not None:
            self._learner.check(learning)
        wanted = LoaderState.from_dict(state)
        grown = grown or self._answers.get(wanted.data)
        self._load(wanted, grown)
        if grown is not None:
            self._answers[wanted.data] = grown
        self.loaded = self.begin
        self.learning = learning
        self.tell()

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, and what a learner remembers."""
        state, learning = super().state_dict(), self.learning
        return state if learning is None else {**state, LEARNING: learning}

    @property
    def learning(self) -> Any:
        """State of the learner, or of the learner in the loaded state, or None."""
        return self._learning if self._learner is None else self._learner.state_dict()

    @learning.setter
    def learning(self, learning: Any) -> None:
        self._learning = learning
        if self._learner is not None:
            self._learner.load_state_dict(learning, self.state.step)

    def learn(self, memory: Any) -> None:
        """Keep the state of the learner. A loaded state is given to it first."""
        memory.load_state_dict(self.learning, self.state.step)
        self._learner = memory

    def replay(self) -> None:
        """Begin the recorded iteration again, with all its changes of weights.

        Raises:
            StateMismatchError: If the state does not tell what it delivered.
        """
        if (ended := self._begin_state.ended) is not None:
            self._load(ended, None)
        self.restart(self._begin_state.again(is_grown=self._grown is not None))
        self.learning = None  # The weights are known, whatever made them.
        self.loaded = self.begin

    def resume(self, state: LoaderState) -> None:
        """Continue at ``state`` without marking it as loaded.

        Used when a session is copied.
        """
        self._load(state, None if state.mixture is not None else "next-epoch")
        self.tell()

    def _load(self, state: LoaderState, grown: Grown | None) -> None:
        """Continue at a state, perhaps in the rest of an epoch of the data of before.

        If nothing was delivered or skipped of the epoch, it begins with all data.
        """
        run = self._run if self._grown is None else self._grown[1]
        rest, begin = rest_of(run, state, grown)
        feed = None
        if rest is not run and begin.goes_on(state.first_epoch):
            feed = make_feed(self.settings, rest)
        with self.lock:
            self._stop()
            self._take_all()
            if feed is not None:
                self._grown = begin.first_epoch, self._run, self._feed
                self._run, self._feed = rest, feed
            elif rest is not run:
                begin = run.beginning(begin.epoch)
            self.restart(begin)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration the ``epoch``-th, see :meth:`Loader.set_epoch`."""
        following, joined = self.following, self.run.epochs or 1
        first, last = following.first_epoch // joined, following.epoch // joined
        if epoch not in (first, last, self.num_iterations):
            if self.loaded is not None and epoch < last:
                warn_of_return(epoch, following.epoch)
            self.restart(self.run.beginning(epoch * joined))
        self.tell()

    @property
    def num_steps_left(self) -> int | None:
        """Steps until the end of this iteration; None if it never ends."""
        running = self._iteration
        if running is not None and running.cursor.num_workers == 1:
            return running.cursor.num_left
        return self.run.at(self.state).num_left

    def last_datasets(self, rank: int | None = None) -> Int64Array:
        """Return the dataset of each row of the last batch taken.

        Args:
            rank: Whose batch; None for that of this rank.

        Returns:
            int64 [batch_size]: numbers of the datasets; -1 for padding.
        """
        if self.running is None:
            raise InvalidArgumentError("no batch was taken")
        rank = self.settings.rank if rank is None else rank
        return dataset_ids(self.run, self.running.last_sequences([rank])[0])

    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""
        counters: dict[str, float] = self._feed.engine().stats()
        running = 0 if self._iteration is None else self._iteration.num_padding_rows
        counters["padding_sequences"] = self._num_padding_rows + running
        delivered = self.run.at(self._finished or self.state).stats()
        storages = {id(d.index.storage): d.index.storage for d in self.run.datasets}
        counts: Counter[str] = Counter()
        for storage in storages.values():
            counts.update(storage.counts())
        stored = {f"storage/{name}": count for name, count in counts.items()}
        return counters | delivered | stored

    def progress(self) -> dict[str, float]:
        """Return the position of the run as metrics."""
        state = self.state
        return {
            "data/epoch": self.epoch,
            "data/step": state.step,
            "data/tokens_total": self.run.at(self._finished or state).num_tokens_before,
        }

    def _agreed(self) -> dict[str, Any]:
        return replace(self.state, ended=None).to_dict()

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> StepIterator:
        """Iterate, alone or as one of several processes that share its steps."""
        check_share(worker, num_workers)
        return StepIterator(self, worker, num_workers)

    def next_batch(self, iterator: StepIterator) -> Batch | None:
        """Return the next batch, and count it; None after the last one."""
        if iterator.iteration is None:
            iterator.iteration = self._begin(iterator.worker, iterator.num_workers)
        running = iterator.iteration
        try:
            delivered = running.take()
            batch = None if delivered is None else self._made(delivered, running)
        except CancelledError:
            raise
        except Exception as error:
            self._explain(error, running)
            raise
        if batch is None:
            self._end(running)
        else:
            running.count()
        return batch

    def _explain(self, error: Exception, running: Iteration) -> None:
        """Say in an error which steps need what cannot be read."""
        now, step = self.run.at(self.state), running.cursor.step
        offered("notes on errors", lambda *_: None)(error, now, step)

    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""
        self._feed.close()

    def move(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running iterator too."""
        running = self._iteration
        if running is not None and running.is_here:
            if self._grown is not None and not state.goes_on(state.first_epoch):
                self._take_all()
                state = self.run.beginning(state.epoch)
            self._begin_state = state
            cursor = self.run.at(
                state,
                worker=running.cursor.worker,
                num_workers=running.cursor.num_workers,
                **self._place,
            )
            running.follow(cursor, self._feed, is_new=is_new or running.is_new)
        else:
            self.restart(state)
        self.tell()

    def restart(self, begin: LoaderState) -> None:
        """End the running iteration; the next begins at ``begin``."""
        with self.lock:
            self._stop()
            if self._grown is not None:
                begin = self.run.going_on(begin)
                if not begin.goes_on(self._grown[0]):
                    self._take_all()
                    begin = self.run.beginning(begin.epoch)
            self._begin_state = begin  # First: who sees no iteration needs the new one.
            self._iteration, self._finished, self.loaded = None, None, None

    def _stop(self) -> None:
        """Stop the running iteration, also if another thread takes its batches."""
        if self._iteration is not None:
            self._iteration.stop()
            self._num_padding_rows += self._iteration.num_padding_rows
            self._iteration.num_padding_rows = 0

    def _take_all(self) -> None:
        """Leave the epoch of the data of before: what begins is of all."""
        if self._grown is not None:
            self._feed.close()
            _, self._run, self._feed = self._grown
            self._grown = None

    def _begin(self, worker: int, num_workers: int) -> Iteration:
        self._check_learned()
        begin = self._unfinished
        if num_workers == 1:  # Others may have steps left where one has none.
            begin = self.run.going_on(begin)
            self.run.check_steps(begin)
        return self._start(begin, worker, num_workers)

    def _start(self, begin: LoaderState, worker: int, num_workers: int) -> Iteration:
        """Begin an iteration at a state."""
        self.restart(begin)
        begin = self._begin_state
        cursor = self.run.at(
            begin, worker=worker, num_workers=num_workers, **self._place
        )
        if worker == 0:
            if self._watch is not None:
                self._watch.begin(cursor.route, self.accumulated)
            if self.settings.rank == 0 and not self._has_logged:
                self._has_logged = True
                cursor.log()
        memory, plan_bytes = self.settings.memory, self.settings.plan_bytes
        iteration = Iteration(
            cursor,
            self._feed,
            memory,
            plan_bytes,
            tells_datasets=self._tells_datasets,
        )
        self._iteration, self._finished, self.loaded = iteration, None, None
        return iteration

    def _check_learned(self) -> None:
        """Refuse to continue with a policy's weights if no policy is given."""
        if self._learner is None and self._learning is not None:
            provided("check of learning")(self._learning)

    def _made(self, delivered: Any, running: Iteration) -> Batch:
        if self._watch is not None and self._num_made % STEPS_BETWEEN_LOOKS == 0:
            self._watch.look(self._feed.engine().stats())
        self._num_made += 1
        made = self._feed.batch(delivered)
        if self._tells_datasets:
            dataset_ids = self._feed.dataset_ids(made, running.dataset_ids)
            made |= converted({"dataset_ids": dataset_ids}, self._convert)
        transform = self.settings.transform
        return made if transform is None else transformed(transform, made)

    def _end(self, iteration: Iteration) -> None:
        """Go to the next epoch after all steps of this one."""
        if iteration is self._iteration:
            finished = self.state
            self.restart(self.run.after(finished))
            self._finished = finished


def open_session(settings: LoaderSettings) -> RunView:
    """Return the session or view behind a loader with these settings.

    Raises:
        InvalidArgumentError: If its kind of source cannot do what they ask for.
    """
    offered("check of settings", bool)(settings)
    settings = with_chosen_block(settings)
    opens = settings.fleet or settings.dataset
    own: RunView | None = opens.open_session(settings)
    return RunView(settings) if own is None else own
