"""What is behind a loader of counted tokens: its run, and where that stands."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed._base import Facts, Int64Array
from pagefeed.batches.batch_iterator import BatchIterator, transformed
from pagefeed.batches.engines import ReloadWatch
from pagefeed.batches.explanation import explain
from pagefeed.batches.formats import Batch
from pagefeed.batches.iteration import Iteration
from pagefeed.batches.loader_session import LoaderSession, warn_of_return
from pagefeed.batches.padding import PaddingWatch
from pagefeed.batches.settings import LoaderSettings
from pagefeed.batches.token_batches import Feed
from pagefeed.dataset import before_growth, what_changed
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import check_share
from pagefeed.mixture import Mixture
from pagefeed.run import LoaderState, Planner, Route, Run, Track
from pagefeed.sequences import Documents, JoinedIndex

__all__ = ["Session"]

STEPS_BETWEEN_WARNINGS = 64
"""Steps after which a session looks again whether there is something to warn of."""


class Session(LoaderSession):
    """A run on this rank and where it stands: the iteration that runs, and its moves.

    Args:
        settings: What the loader was made of.

    Raises:
        InvalidArgumentError: If there is nothing to deliver.
    """

    is_adapted = False
    """Whether a framework was given the loader, or its user was told to."""

    def __init__(self, settings: LoaderSettings) -> None:
        super().__init__(settings)
        self._run = settings.make_run()
        source = self._run.source
        self._feed = settings.make_feed(source)
        self._reloads = ReloadWatch(settings.memory)
        if settings.context_parallel is not None:
            settings.context_parallel.check(settings.sequences, source.index.length)
        given = {each.column for each in source.datasets[0].aligned}
        tells_lengths = isinstance(settings.sequences, Documents)
        tells_lengths |= bool(given & {"labels", "loss_mask", "attention_mask"})
        self._padding = PaddingWatch(
            source.index, settings.fields, tells_lengths=tells_lengths
        )
        if not isinstance(settings.dataset, Mixture):  # A state may bring it steps.
            self.run.check_steps(self.run.beginning(0))
        self._begin_state = self.run.beginning(0)
        self.loaded: LoaderState | None = None
        """A state that was loaded, until an iteration begins."""
        self._iteration: Iteration[Any] | None = None
        self._finished: LoaderState | None = None
        """The end of the last iteration, until another begins."""
        self._grown: tuple[int, Run, Feed[Any]] | None = None
        """The last epoch of the data of before, and what runs from the next one on."""
        self._num_made = self._num_padding_rows = 0
        self._told_endless = False

    @property
    def run(self) -> Run:
        """What does not change while it iterates."""
        return self._run

    @property
    def begin(self) -> LoaderState:
        """Where the next iteration begins, or the running one began."""
        begin = self._begin_state
        return self.run.going_on(begin) if self._iteration is None else begin

    @property
    def track(self) -> Track:
        """What the current iteration delivers."""
        return self.run.source.at(self.begin)

    @property
    def state(self) -> LoaderState:
        """The consumed position; right also beside a thread that iterates.

        A running loop may stand at its end. Without one there are steps ahead.
        """
        running = self._iteration
        return self.begin if running is None else self.run.state_at(*running.consumed)

    @property
    def saved(self) -> LoaderState:
        """The consumed position as a state was loaded, even if that is an end."""
        return self._begin_state if self._iteration is None else self.state

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence, or the last one of a loop at its end."""
        state = self.state
        last = self.run.after(state).epoch - 1
        return state.epoch if self.run.epochs is None else min(state.epoch, last)

    @property
    def num_iterations(self) -> int:
        """Iterations before that of the next batch: what trainers count as epochs."""
        return self.run.going_on(self.state).epoch // (self.run.epochs or 1)

    @property
    def first(self) -> LoaderState:
        """The state in which the current iteration began, with its weights."""
        run, begin = self.run, self._begin_state
        return replace(run.beginning(begin.first_epoch), mixture=begin.mixture)

    @property
    def again(self) -> LoaderState:
        """Where an iteration begins again that was left early."""
        return replace(self.first, skipped=self._begin_state.skipped)

    @property
    def following(self) -> LoaderState:
        """Where another ``iter(loader)`` would begin."""
        return self.run.going_on(self._unfinished)

    def known_planner(self) -> Planner:
        """Return what finds the sequences of all steps known to have these sizes."""
        return self.run.planner(self.begin, self.run.known_route(self.begin))

    def facts(self) -> Facts:
        """Return what is known of the run, for people."""
        run = self.run
        return {
            "num_sequences": run.source.index.num_sequences,
            "steps": run.route(run.beginning(0)).num_steps,
            "epoch": self.epoch,
            "step": self.state.step,
        }

    def load_state_dict(self, state: Any) -> None:  # noqa: ANN401 - a user's
        """Make the next iteration continue there, see :meth:`Loader.load_state_dict`.

        Raises:
            StateMismatchError: If it belongs to another run, or is none.
        """
        self.load(LoaderState.from_dict(state))

    def load_grown(self, state: LoaderState) -> None:
        """Continue an epoch over the files of before, and then over all files.

        Of an epoch of which nothing was delivered, all files are delivered.

        Raises:
            InvalidArgumentError: If the run has no one dataset, or joins epochs.
            StateMismatchError: If the data are not those of before with files added.
        """
        settings = self.settings
        if isinstance(settings.dataset, Mixture) or self.run.epochs != 1:
            raise InvalidArgumentError(
                "grown='next-epoch' goes on where an epoch ends: give one dataset and "
                "epochs=1, and loop over the loader once an epoch"
            )
        if self._grown is not None:
            self.restart(self.run.beginning(self._grown[0] + 1))
        if not what_changed(state.dataset, self.run.source.plan.dataset):
            self.load(state)
            return
        if state.skipped:
            raise InvalidArgumentError(
                "grown='next-epoch' and skipped steps exclude each other: these are "
                "counted through all epochs of the data of before"
            )
        dataset = before_growth(settings.dataset, state.dataset)
        before = replace(settings, dataset=dataset)
        run = before.make_run()
        begin = run.going_on(run.accept(state))
        if begin.step == 0:
            self.restart(self.run.beginning(begin.epoch))
        else:
            feed = before.make_feed(run.source)
            self.restart(self._begin_state)
            self._grown = begin.epoch, self._run, self._feed
            self._run, self._feed = run, feed
            self.restart(begin)
        self.loaded = self.begin
        self.tell()

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
        if running is not None and running.route.num_workers == 1:
            return running.num_left
        return self.run.route(self.state).num_steps

    def last_datasets(self, rank: int | None = None) -> Int64Array:
        """Return from which dataset each row of the batch comes that was taken last.

        Args:
            rank: Whose batch; None for that of this rank.

        Returns:
            int64 [batch_size]: numbers of ``run.source.datasets``; -1 for padding.
        """
        running, index = self._iteration, self.run.source.index
        if running is None:
            raise InvalidArgumentError("no batch was taken")
        rank = self.settings.rank if rank is None else rank
        sequences = running.last_sequences(rank)
        if isinstance(index, JoinedIndex):
            return index.dataset_of(sequences)
        return np.minimum(sequences, 0)

    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""
        counters: dict[str, float] = self._feed.engine().stats()
        running = 0 if self._iteration is None else self._iteration.num_padding_rows
        counters["padding_sequences"] = self._num_padding_rows + running
        delivered = self.run.source.at(self._finished or self.state).stats()
        return counters | delivered | self._storage_counts()

    def _storage_counts(self) -> dict[str, int]:
        data = self.settings.dataset
        parts = data.datasets.values() if isinstance(data, Mixture) else [data]
        storages = {id(part.index.storage): part.index.storage for part in parts}
        counts: Counter[str] = Counter()
        for storage in storages.values():
            counts.update(storage.counts())
        return {f"storage/{name}": count for name, count in counts.items()}

    def _progress(self) -> dict[str, float]:
        state, source = self.state, self.run.source
        return {
            "data/epoch": self.epoch,
            "data/step": state.step,
            "data/tokens_total": source.at(self._finished or state).num_tokens_before,
            **self._balance(),
        }

    def _balance(self) -> dict[str, float]:
        """What the slowest rank of the last step cost, over the mean of all."""
        running, settings = self._iteration, self.settings
        if settings.balance is None or running is None or not running.num_taken:
            return {}
        ranks = [running.last_sequences(rank) for rank in range(settings.world_size)]
        costs = [self.run.source.costs(each[each >= 0]).sum() for each in ranks]
        return {"data/slowest_rank": float(max(costs) / max(np.mean(costs), 1e-300))}

    def _agreed(self) -> dict[str, Any]:
        return self.state.to_dict()

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[Batch]:
        """Iterate, alone or as one of several processes that share its steps."""
        check_share(worker, num_workers)
        return BatchIterator(
            lock=self.lock,
            begin=lambda: self._start(worker, num_workers),
            make=self._make_batch,
            end=self._ended,
            explain=self._explain,
        )

    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""
        self._feed.close()

    def load(self, state: LoaderState) -> None:
        """Make the next iteration continue at a saved state.

        Raises:
            StateMismatchError: If it belongs to another run, or lies beyond the end.
        """
        self.resume(state)
        self.loaded = self.begin

    def resume(self, state: LoaderState) -> None:
        """The same, for a twin of the session whose state it is: nothing was loaded."""
        self.restart(self.run.accept(state))
        self.tell()

    def move(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running iterator too."""
        running = self._iteration
        if running is not None and running.is_here:
            self._begin_state = state
            ours = running.route
            route = self.run.route(state, ours.worker, ours.num_workers)
            planner = self.run.planner(state, route)
            running.follow(planner, is_new=is_new or running.is_new)
        else:
            self.restart(state)
        self.tell()

    def restart(self, begin: LoaderState) -> None:
        """End the running iteration; the next begins at ``begin``."""
        with self.lock:
            if self._iteration is not None:
                self._iteration.close()
                self._num_padding_rows += self._iteration.num_padding_rows
            if self._grown is not None and begin.epoch > self._grown[0]:
                self._feed.close()
                _, self._run, self._feed = self._grown
                self._grown, begin = None, self._run.beginning(begin.epoch)
            self._begin_state = begin  # First: who sees no iteration needs the new one.
            self._iteration, self._finished, self.loaded = None, None, None

    @property
    def _unfinished(self) -> LoaderState:
        """The same, or the end of an iteration that a state or a seek led to."""
        begin, running = self._begin_state, self._iteration
        if running is None or running.is_new:
            return begin
        if running.is_finished:
            return self.run.after(begin)
        return self.again

    def _start(self, worker: int, num_workers: int) -> Iteration[Any]:
        begin = self._unfinished
        if num_workers == 1:  # Others may have steps left where one has none.
            begin = self.run.going_on(begin)
            self.run.check_steps(begin)
        self.restart(begin)
        begin = self._begin_state
        route = self.run.route(begin, worker, num_workers)
        if worker == 0:
            self._padding.look(route, stacklevel=4)
            self._tell_endless(route, stacklevel=5)
        planner = self.run.planner(begin, route)
        iteration = Iteration(
            feed=self._feed,
            planner=planner,
            horizon_sequences=planner.track.horizon(self.settings.memory),
            plan_bytes=self.settings.plan_bytes,
        )
        self._iteration, self._finished, self.loaded = iteration, None, None
        return iteration

    def _tell_endless(self, route: Route, stacklevel: int) -> None:
        """Warn, once, of a mixture that nobody said has no end."""
        if route.end is None and self.run.epochs is not None and not self._told_endless:
            self._told_endless = True
            warnings.warn(
                "this mixture never ends, and so a loop over it does not either: give "
                "pagefeed.mix a stop, max_steps or max_tokens; or give the Loader "
                "epochs=None if an endless loop is what you want",
                stacklevel=stacklevel,
            )

    def _make_batch(self, delivered: _core.Buffer) -> Batch:
        is_time = self._num_made % STEPS_BETWEEN_WARNINGS == 0
        if is_time and not self.run.source.is_scattered:
            self._reloads.look(self._feed.engine().stats(), stacklevel=3)
        self._num_made += 1
        batch, transform = self._feed.batch(delivered), self.settings.transform
        if self.settings.context_parallel is not None:
            length = self.run.source.index.length
            batch = self.settings.context_parallel.part(batch, length)
        if transform is None:
            return batch
        return transformed(transform, batch)  # type: ignore[no-any-return]

    def _ended(self, iteration: Iteration[Any]) -> None:
        """Go on to the next epoch, all steps of this one taken."""
        if iteration is self._iteration:
            finished = self.state
            self.restart(self.run.after(self.begin))
            self._finished = finished

    def _explain(self, error: Exception, iteration: Iteration[Any]) -> None:
        """Say which steps to skip, in the order of the iteration."""
        explain(error, self.run, self.state, iteration.step)
