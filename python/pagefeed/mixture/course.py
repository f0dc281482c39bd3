"""The course of a mixture: position -> (dataset, its local position), and back.

Position p is turn ``p // num_lanes`` of lane ``p % num_lanes``. Every lane deals its
own turns out to the datasets, and its x-th turn of a dataset is local position
``x * num_lanes + lane`` of that dataset, counted through all its epochs: the lane takes
from each dataset's same lane, from front to back, whatever the weights do meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture.phases import Phases
from pagefeed.mixture.rows import LaneRows
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.tree import BITS, MAX_TURN, Members, Tree

__all__ = ["LEAST_LANES", "Course"]

LEAST_LANES = 8
"""Fewest lanes of a shuffled mixture: with fewer, their roundings may not even out."""

NEVER = 1 << 62
"""A position that is never reached."""
ENDED = -1
"""Stands for the tree of a lane that has run out."""


class Course:
    """Where every position of a mixture leads.

    The turns of a lane fall into rows with constant weights. In every row a tree deals
    them out; the lanes' phases are evenly apart, so that in the first row counts of two
    lanes differ by at most one at a node, and a rare dataset arrives spread over time
    and lanes. When weights change, what each lane lacks decides which phase it has in
    the next row, and what all lack moves them all: errors do not add up.

    With ``LEAST_LANES`` or more no count is further off its weight than one unit per
    lane, before any position. In the first row that is proven where ``Tree.bound`` is
    at most 1, as for up to four datasets: phases of all lanes are a half in the mean.
    For the rest a search against it found no more than 0.53, and 0.78 over changes of
    weights. With fewer lanes roundings may not even out: a single one, as when nothing
    is shuffled, came to 2.1 over changes. While datasets run out, lane by lane, up to
    1.2 was seen against the weights that remain in each lane.

    Args:
        schedule: Datasets and weights.
        num_lanes: V.
        seed: Seed of the run.

    Raises:
        InvalidArgumentError: If all datasets of a stage run out before the next begins.

    Example:
        >>> from pagefeed.mixture import Part, Span
        >>> sizes = [Part(name=name, fingerprint="", num_units=9, num_tokens=9)
        ...          for name in ("a", "b")]
        >>> schedule = Schedule(
        ...     parts=tuple(sizes), spans=(Span(0, 0, (0.75, 0.25)),), digest="")
        >>> dataset, local = Course(schedule, num_lanes=1, seed=0).at(np.arange(5))
        >>> dataset.tolist(), local.tolist()
        ([0, 0, 1, 0, 0], [0, 1, 0, 2, 3])
    """

    def __init__(self, schedule: Schedule, *, num_lanes: int, seed: int) -> None:
        self.schedule = schedule
        self.num_lanes = num_lanes
        self._trees: list[Tree] = []
        self._tree_numbers: dict[tuple[tuple[float, ...], Members, bool], int] = {}
        self._phases = Phases(schedule.names, num_lanes=num_lanes, seed=seed)
        self._limits = np.stack([self._lane_limits(p) for p in range(self._num_parts)])
        self._rows = LaneRows(num_lanes, self._num_parts)
        self._lay_out()

    @property
    def _num_parts(self) -> int:
        return len(self.schedule.parts)

    def at(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return dataset and local position, int64 each, of positions below the end."""
        if len(self._tail) and len(positions) and int(positions.max()) >= self._hole:
            after = np.clip(positions - self._hole, 0, len(self._tail) - 1)
            positions = np.where(positions < self._hole, positions, self._tail[after])
        turn = positions // self.num_lanes
        lane = positions - turn * self.num_lanes
        row = self._rows.find(lane, turn)
        dataset = np.empty(len(turn), dtype=np.int64)
        number = np.empty(len(turn), dtype=np.int64)
        turn = turn - self._rows.start[row]
        for tree, which in _groups(self._rows.tree[row]):
            phases = self._rows.phases[row[which]]
            dealt = self._trees[tree].deal(turn[which], phases)
            dataset[which], number[which] = dealt
        number += self._rows.counts[row, dataset]
        return dataset, number * self.num_lanes + lane

    def positions(self, dataset: int, local: Int64Array) -> Int64Array:
        """Return the positions of local positions of a dataset: undo :meth:`at`.

        Returns:
            int64 [local]; -1 for those that are never delivered.
        """
        lane, number = local % self.num_lanes, local // self.num_lanes
        row = self._rows.find_count(dataset, lane, number)
        turn = np.full(len(local), MAX_TURN)
        number = number - self._rows.counts[row, dataset]
        for tree, which in _groups(self._rows.tree[row]):
            if tree == ENDED or dataset not in self._trees[tree].root.members:
                continue
            phases = self._rows.phases[row[which]]
            in_row = self._trees[tree].turns_of(dataset, number[which], phases)
            turn[which] = in_row + self._rows.start[row[which]]
        reached = turn < self._rows.stop[row]
        places = np.where(reached, turn, 0) * self.num_lanes + lane
        if len(self._tail):
            after = self._hole + np.searchsorted(self._tail, places)
            places = np.where(places < self._hole, places, after)
        found: Int64Array = np.where(reached, places, -1)
        return found

    def counts(self, position: int) -> Int64Array:
        """Return the units of each dataset before a position: int64 [datasets]."""
        total: Int64Array = self.lane_counts(position).sum(axis=0)
        return total

    def lane_counts(self, position: int) -> Int64Array:
        """Return the units of each dataset before a position, by lane.

        Returns:
            int64 [lanes, datasets].
        """
        lane = np.arange(self.num_lanes)
        turn = self._turns_before(min(position, self._hole))
        extra = self._tail[: max(0, position - self._hole)]
        turn += np.bincount(extra % self.num_lanes, minlength=self.num_lanes)
        row = self._rows.find(lane, turn)
        counts = self._rows.counts[row].copy()
        turn = turn - self._rows.start[row]
        for tree, which in _groups(self._rows.tree[row]):
            if tree != ENDED:
                phases = self._rows.phases[row[which]]
                counts[which] += self._trees[tree].counts(turn[which], phases)
        return counts

    @cached_property
    def natural_end(self) -> int | None:
        """One past the last position if all datasets run out, else None."""
        return None if self._hole == NEVER else self._hole + len(self._tail)

    @property
    def end_of_changes(self) -> int:
        """Position after which weights cannot change any more: lanes have run out."""
        return self._hole

    def delivered(self, dataset: int, epochs: int) -> int | None:
        """Return the position after which a dataset was delivered so often in full.

        None if it never is.
        """
        num_units = self.schedule.parts[dataset].num_units * epochs
        last = np.arange(max(0, num_units - self.num_lanes), num_units)
        places = self.positions(dataset, last)
        return None if places.min() < 0 else int(places.max()) + 1

    # Laying out the rows, stage by stage.

    def _lay_out(self) -> None:
        turn = np.zeros(self.num_lanes, dtype=np.int64)
        counts = np.zeros((self.num_lanes, self._num_parts), dtype=np.int64)
        lacking = np.zeros_like(counts)
        ended = np.zeros(self.num_lanes, dtype=bool)
        for start, stop, weights in self.schedule.intervals():
            end = np.full(self.num_lanes, MAX_TURN)
            if stop is not None:
                end = self._turns_before(stop)
            self._lay_interval(weights, turn, end, counts, lacking, ended)
            if ended.any() and stop is not None:
                raise InvalidArgumentError(
                    f"from position {start} on all datasets with a weight reach their "
                    f"max_epochs, before the weights change at position {stop}: give "
                    "another dataset a weight, raise max_epochs, or begin the next "
                    "stage earlier"
                )
        self._rows.seal()
        self._find_tail(turn, ended)

    def _lay_interval(
        self,
        weights: tuple[float, ...],
        turn: Int64Array,
        end: Int64Array,
        counts: Int64Array,
        lacking: Int64Array,
        ended: npt.NDArray[np.bool_],
    ) -> None:
        """Add the rows of an interval; whenever a dataset runs out, another begins."""
        weighted = np.array(weights) > 0
        together, is_first = True, not turn.any()
        while (going := (turn < end) & ~ended).any():
            active = weighted & (counts < self._limits.T)
            for key in np.unique(active[going], axis=0):
                alike = (active == key).all(axis=1)
                lanes = np.flatnonzero(alike & going)
                members = tuple(np.flatnonzero(key).tolist())
                if not members:
                    self._rows.add(lanes, turn, end, ENDED, counts, None)
                    ended[lanes] = True
                    continue
                # A row that follows another lacks least if it has much the same nodes.
                best = is_first and together
                number = self._tree_number(weights, members, best=best)
                # Also those share phases that have no turn in a short interval.
                sharing = np.flatnonzero(alike & ~ended) if together else lanes
                tree = self._trees[number]
                phases = self._phases.of(tree, lacking, sharing, together=together)
                self._lay_row(number, phases, lanes, turn, end, counts, lacking)
            # Each lane is on its own when a dataset runs out in it: what others do
            # meanwhile may be later, and weights may change before.
            together = False

    def _lay_row(
        self,
        number: int,
        phases: Int64Array,
        lanes: Int64Array,
        turn: Int64Array,
        end: Int64Array,
        counts: Int64Array,
        lacking: Int64Array,
    ) -> None:
        """Add one row of some lanes, to the end or until a dataset runs out."""
        tree, phases = self._trees[number], phases[lanes]
        length = end[lanes] - turn[lanes]
        for member in tree.root.members:
            if self.schedule.parts[member].max_epochs is None:
                continue
            left = self._limits[member, lanes] - counts[lanes, member]
            length = np.minimum(length, tree.turns_of(member, left - 1, phases) + 1)
        stop = turn.copy()
        stop[lanes] += length
        self._rows.add(lanes, turn, stop, number, counts, phases)
        turn[lanes] = stop[lanes]
        dealt = tree.counts(length, phases)
        counts[lanes] += dealt
        # Wraps around 2**64, as it may: what is lacking is small.
        lacking[lanes] += tree.shares * length[:, None] - (dealt << BITS)

    def _tree_number(
        self, weights: tuple[float, ...], members: Members, *, best: bool
    ) -> int:
        key = weights, members, best
        if key not in self._tree_numbers:
            self._tree_numbers[key] = len(self._trees)
            self._trees.append(Tree(weights, members, best=best))
        return self._tree_numbers[key]

    def _lane_limits(self, part: int) -> Int64Array:
        """Most turns of each lane that a dataset can be given: int64 [lanes]."""
        epochs = self.schedule.parts[part].max_epochs
        if epochs is None:
            return np.full(self.num_lanes, MAX_TURN)
        return self._turns_before(epochs * self.schedule.parts[part].num_units)

    def _turns_before(self, position: int) -> Int64Array:
        """Turns of each lane before a position: int64 [lanes]."""
        lane = np.arange(self.num_lanes)
        return np.maximum(0, (position - lane + self.num_lanes - 1) // self.num_lanes)

    def _find_tail(self, turn: Int64Array, ended: npt.NDArray[np.bool_]) -> None:
        """Find the turns that are left when the first lane has run out.

        The lanes run out within a few turns of each other. Positions from there on go
        through the turns that are left, in order.
        """
        self._hole = NEVER
        self._tail = np.empty(0, dtype=np.int64)
        if not ended.all():
            return
        lane = np.arange(self.num_lanes)
        self._hole = int((turn * self.num_lanes + lane).min())
        first = self._hole // self.num_lanes
        turns = np.arange(first, int(turn.max()) + 1)[:, None]
        places = turns * self.num_lanes + lane
        self._tail = places[(turns < turn) & (places >= self._hole)]


def _groups(
    trees: Int64Array,
) -> Iterable[tuple[int, Int64Array | slice]]:
    """Return each tree and the places where it stands."""
    if len(trees) == 0:
        return []
    if (trees == trees[0]).all():
        return [(int(trees[0]), slice(None))]
    return [(tree, np.flatnonzero(trees == tree)) for tree in np.unique(trees).tolist()]
