"""The way through a mixture from a state on: positions to sequences of its datasets."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pagefeed._base import Int64Array, lazy, sorted_with_places
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture import Course, Mixture, Schedule
from pagefeed.order import Dealing, Ordered, derive_key
from pagefeed.run.mixed_datasets import MixedDatasets
from pagefeed.run.route import Route
from pagefeed.run.source import MAX_HORIZON, Held, Positions
from pagefeed.run.state import LoaderState

__all__ = ["MixtureTrack", "schedule_of"]

AT_ONCE = 1 << 15
"""Positions looked at in a step; of datasets in order fewer, as they take longer."""
RARE = 0.05
"""Pages of a dataset with a smaller share may be read again: plans end somewhere."""


@dataclass(frozen=True, kw_only=True)
class MixtureTrack:
    """An epoch of a mixture from a state on; positions count through this epoch."""

    begin: LoaderState
    """The state from which it goes on."""
    course: Course
    """Which dataset is whose turn."""
    mixture: Mixture
    """What ends it."""
    data: MixedDatasets
    """The datasets."""
    world_size: int
    """Number of ranks."""
    step_sequences: int
    """Sequences of a step on all ranks."""

    @property
    def start(self) -> int:
        """The position of the begin, counted in its epoch."""
        return self.begin.position

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""
        schedule, mixture = self.course.schedule, self.mixture
        # Weights that leave only what has run out end it where they begin.
        begun = [each.start for each in schedule.changes if each.start <= self.start]
        ends = [None if end is None else max(end, *begun, 0) for end in self._ends]
        if mixture.max_steps is not None:
            ends.append(self._end_of_steps(mixture.max_steps))
        if mixture.max_tokens is not None:
            ends.append(schedule.position_of_tokens(mixture.max_tokens))
        return min((end for end in ends if end is not None), default=None)

    @property
    def _ends(self) -> list[int | None]:
        """Where datasets end it, whatever its steps and tokens."""
        course, parts, stop = self.course, self.course.schedule.parts, self.mixture.stop
        ends = [course.natural_end]
        if stop is not None:
            done = [
                course.delivered(number, part.max_epochs or 1)
                for number, part in enumerate(parts)
            ]
            known = [place for place in done if place is not None]
            if known:
                ends.append(min(known) if stop == "first_exhausted" else max(known))
        return ends

    def state_at(self, position: int) -> LoaderState:
        """Return the state at a position."""
        return replace(self.begin, position=position)

    @lazy
    def balanced(self) -> Dealing | None:
        """What deals the sequences of its positions anew, if ranks are balanced."""
        begin, balance = self.begin, self.data.balance
        if balance is None or begin.ranks is None:
            return None
        course = self.course
        # Nothing is moved over a change of weights, or over the end of some dataset.
        cuts = {0, *(change.start for change in course.schedule.changes)}
        cuts.update(end for end in self._ends if end is not None)
        return Dealing(
            _Unbalanced(self),
            balance=balance,
            key=derive_key(begin.seed, begin.epoch, "mixture", "balance"),
            costs=self.data.costs,
            ranks=begin.ranks,
            cuts=sorted(cuts),
            end=None,
        )

    def sequences(self, positions: Positions) -> Iterator[Int64Array | None]:
        """Yield the sequences at positions, some at a time; None after other work."""
        if self.balanced is None:
            yield from self.unbalanced(positions)
        else:
            yield (yield from self.balanced.reading(positions))

    def unbalanced(self, positions: Positions) -> Iterator[Int64Array | None]:
        """Yield the same, as the datasets come before ranks are balanced."""
        names = self.course.schedule.names
        at_once = AT_ONCE // 4 if self.data.in_order else AT_ONCE
        for first in range(0, len(positions), at_once):
            part = positions[first : first + at_once]
            if isinstance(part, range):
                part = np.arange(part.start, part.stop, part.step)
            dataset, local = self.course.at(part)
            yield None
            found = np.empty(len(dataset), dtype=np.int64)
            for number in np.flatnonzero(np.bincount(dataset)).tolist():
                which = np.flatnonzero(dataset == number)
                ours = self._number_of(names[number])
                for order, now, places in self._epochs(ours, local[which]):
                    sequences = yield from order.reading(places)
                    first_sequence = self.data.index.first_sequence[ours]
                    found[which[now]] = sequences + first_sequence
                    yield None
            yield found

    def local_sequences(self, number: int, local: Int64Array) -> Int64Array:
        """Return the sequences of one dataset at its local positions: int64 [local]."""
        sequences = np.empty(len(local), dtype=np.int64)
        for order, now, places in self._epochs(number, local):
            sequences[now] = order.at(places)
        return sequences

    def begin_next_epoch(
        self,
        position: int,  # noqa: ARG002 - datasets begin theirs at their own time
    ) -> Iterator[None]:
        """Do nothing: every dataset begins its epochs when its lanes reach them."""
        yield from ()

    def positions(self, held: Held, now: int) -> Int64Array:
        """Return the positions of sequences in the current epoch: int64.

        Without an end, those up to the end of the next epoch of their dataset.
        """
        names, end = self.course.schedule.names, self.end
        following = self.course.following(now if end is None else max(end, self.start))
        found = [np.empty(0, dtype=np.int64)]
        for ours, sequences in held:
            number = names.index(self.data.names[ours])
            num_sequences = self.data.indexes[ours].num_sequences
            # Epochs that some lane has begun: of a small dataset lanes are far apart.
            begun = -(-int(following[number].max()) // num_sequences)
            for epoch in range(begun + (end is None)):
                order = self._order(ours, epoch)
                places = epoch * num_sequences + order.positions(sequences)
                found.append(self.course.positions(number, places))
        positions = np.concatenate(found)
        positions = positions[positions >= 0]
        return positions if self.balanced is None else self.balanced.moved(positions)

    def horizon(self, memory: int) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well."""
        shares, num_lanes = self._largest_shares, self.begin.num_lanes
        horizons = [0.0]
        for name, orders, sequences in zip(
            self.data.names,
            self.data.orders(self.begin.epoch),
            self.data.indexes,
            strict=True,
        ):
            if orders.is_scattered:
                held = int(memory / max(1.0, orders.page_bytes))
                window = min(held, sequences.num_sequences) * self.world_size
            else:
                window = orders.window(num_lanes) * num_lanes
                window += self.data.stretch * (self.begin.ranks or 0)
            horizons.append(2 * window / max(RARE, shares[name]))
        return min(int(max(horizons)) // self.world_size, 2 * MAX_HORIZON)

    @property
    def epoch_positions(self) -> float:
        """Positions in which the shortest dataset, by its share, has an epoch."""
        shares, data = self._largest_shares, self.data
        sizes = zip(data.names, data.indexes, strict=True)
        return min(
            index.num_sequences / max(RARE, shares[name]) for name, index in sizes
        )

    @property
    def num_tokens_before(self) -> int:
        """Tokens delivered before its begin, by the mean of each dataset."""
        counts = self.stats().items()
        return int(sum(count for name, count in counts if name.endswith("/tokens")))

    def stats(self) -> dict[str, float]:
        """Return sequences before the begin, and tokens by the mean of a sequence."""
        course, position = self.course, self.begin.position
        found = {}
        counts = course.counts(position)
        for begin, end in self.begin.skipped:
            if begin < position:
                counts -= course.counts(min(end, position)) - course.counts(begin)
        for part, count in zip(course.schedule.parts, counts.tolist(), strict=True):
            found[f"{part.name}/sequences"] = count
            if part.num_tokens:
                found[f"{part.name}/tokens"] = round(count * part.sequence_tokens)
        return found

    def _epochs(
        self, number: int, local: Int64Array
    ) -> Iterator[tuple[Ordered, Int64Array, Int64Array]]:
        """Yield the orders of local positions: which are of it, and at which places."""
        epoch, place = np.divmod(local, self.data.indexes[number].num_sequences)
        rising, which = sorted_with_places(epoch)
        borders = np.flatnonzero(np.diff(rising, prepend=-1))
        ends = np.append(borders[1:], len(which))[: len(borders)].tolist()
        # Of one epoch the places stay in order.
        for first, end in zip(borders.tolist(), ends, strict=True):
            now = which[first:end]
            yield self._order(number, int(rising[first])), now, place[now]

    def _order(self, number: int, epoch: int) -> Ordered:
        """The order of a dataset in an epoch of its own."""
        orders = self.data.orders(self.begin.epoch)[number]
        return orders.of(epoch, self.begin.num_lanes)

    @property
    def _largest_shares(self) -> dict[str, float]:
        schedule = self.course.schedule
        shares = np.array([span.weights for span in schedule.changes])
        largest = (shares / shares.sum(axis=1, keepdims=True)).max(axis=0)
        return dict(zip(schedule.names, largest.tolist(), strict=True))

    def _number_of(self, name: str) -> int:
        names = self.data.names
        if name not in names:
            raise InvalidArgumentError(
                f"dataset {name!r} was delivered before this run, which does not have "
                f"it: it has {', '.join(names)}; give it, with a weight of 0, to "
                "look back"
            )
        return names.index(name)

    def _end_of_steps(self, max_steps: int) -> int:
        """One past the last position of the steps with smaller numbers.

        Skips of other sizes leave steps that are not whole: the last one is filled up.
        """
        begin = self.begin
        if max_steps <= begin.step:
            return begin.position + (max_steps - begin.step) * self.step_sequences
        endless = Route(
            start=begin.position,
            end=None,
            batch_size=self.step_sequences,
            rank=0,
            world_size=1,
            drop_last=True,
            first_step=begin.step,
            skipped=begin.skipped,
        )
        return endless.span(0, endless.index_of(max_steps))[1]


class _Unbalanced:
    """A track as an order, before ranks are balanced."""

    def __init__(self, track: MixtureTrack) -> None:
        self._track = track

    def reading(self, positions: Int64Array) -> Generator[None, None, Int64Array]:
        """Find the sequences at rising positions, in short steps."""
        parts = [np.empty(0, dtype=np.int64)]
        for part in self._track.unbalanced(positions):
            if part is not None:
                parts.append(part)
            yield
        return np.concatenate(parts)


def schedule_of(state: LoaderState) -> Schedule:
    """Return the schedule of the state of a mixture.

    Raises:
        StateMismatchError: If it has none.
    """
    if state.mixture is None:
        raise StateMismatchError(
            "the state is of a mixture, but holds no datasets and weights; expected "
            "what state_dict() returned"
        )
    return state.mixture
