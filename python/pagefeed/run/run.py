"""A run: what does not change while it iterates, and the states and routes it makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.run.planner import Planner
from pagefeed.run.route import Route
from pagefeed.run.source import SequenceSource
from pagefeed.run.state import LoaderState

__all__ = ["Run"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The sizes of a run on this rank, and what it delivers.

    Where a run stands is told by the state from which it iterates: its ``begin``.
    """

    source: SequenceSource
    """What is delivered at which position."""
    batch_size: int
    """Sequences of a step on one rank."""
    rank: int
    """This rank."""
    world_size: int
    """Number of ranks."""
    epochs: int | None
    """Epochs of an iteration; None never ends."""
    drop_last: bool
    """Leave the last, incomplete step of an iteration out."""

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration from this epoch on begins."""
        return replace(self.source.plan, epoch=epoch, first_epoch=epoch)

    def after(self, begin: LoaderState) -> LoaderState:
        """Return the state in which the iteration after this one begins."""
        return self.beginning(begin.first_epoch + (self.epochs or 1))

    def state_at(self, begin: LoaderState, position: int, step: int) -> LoaderState:
        """Return the state at a position of the source."""
        sizes = self._sizes if self.has_one_size(begin) else None
        now = replace(begin, step=step, sizes=sizes)
        return self.source.at(now).state_at(position)

    def route(self, begin: LoaderState, worker: int = 0, num_workers: int = 1) -> Route:
        """Return the way from a state to the end of its iteration, of one process."""
        track = self.source.at(begin)
        end = track.end
        return Route(
            start=track.start,
            end=end if end is None else max(track.start, end),
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            drop_last=self.drop_last,
            first_step=begin.step,
            skipped=begin.skipped,
            worker=worker,
            num_workers=num_workers,
        )

    def accept(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it.

        Raises:
            StateMismatchError: If it belongs to another run, or lies beyond the end.
        """
        accepted = self.source.accept(state)
        track = self.source.at(accepted)
        start, end = track.start, track.end
        if end is not None and end < start:
            raise StateMismatchError(
                f"the state is after {start} sequences (epoch {state.epoch}, step "
                f"{state.step}), and this loader ends after {end}: give it at least "
                "the epochs, and a mixture the max_steps, max_tokens and max_epochs, "
                "of the run that saved it"
            )
        return accepted

    def going_on(self, begin: LoaderState) -> LoaderState:
        """Return a state with steps ahead: this one, or of the next iteration."""
        return begin if self.route(begin).num_steps != 0 else self.after(begin)

    def check_steps(self, begin: LoaderState) -> None:
        """Refuse to iterate over nothing.

        Raises:
            InvalidArgumentError: If no step lies ahead.
        """
        route = self.route(begin)
        if route.num_steps == 0:
            raise InvalidArgumentError(
                f"no step is complete: one takes batch_size={self.batch_size} x "
                f"world_size={self.world_size} = {self.step_sequences} sequences, and "
                f"{(route.end or 0) - route.start} are there; give a smaller "
                "batch_size, more epochs, or drop_last=False"
            )

    def known_route(self, begin: LoaderState) -> Route:
        """Return the way from the first step that is known to have had these sizes."""
        if not self.has_one_size(begin):
            return self.route(begin)
        return self.route(replace(begin, epoch=begin.first_epoch, position=0, step=0))

    def has_one_size(self, begin: LoaderState) -> bool:
        """Whether all steps of this iteration had this run's sizes."""
        return begin.step == 0 or begin.sizes == self._sizes

    def planner(self, begin: LoaderState, route: Route | None = None) -> Planner:
        """Return what finds the sequences of a route's steps; by default of all."""
        track, num_datasets = self.source.at(begin), len(self.source.datasets)
        return Planner(track, route or self.route(begin), num_datasets)

    @property
    def step_sequences(self) -> int:
        """Sequences of a step on all ranks."""
        return self.batch_size * self.world_size

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.batch_size, self.world_size
