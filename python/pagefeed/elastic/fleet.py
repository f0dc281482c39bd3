"""A fleet: steps of given sizes, for any number of ranks; and the route of a rank."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from pagefeed.core._base import (
    Int64Array,
    check_positive,
    check_stages,
    check_whole,
    lazy,
)
from pagefeed.core.batches import LoaderSettings, RunView
from pagefeed.core.run import NO_POSITION, Route, Step, StepIndex
from pagefeed.elastic.dealing import rows_of_ranks, share_of_rank, share_size
from pagefeed.elastic.fleet_session import FleetSession
from pagefeed.errors import InvalidArgumentError

LanesOf: TypeAlias = Callable[[Int64Array], tuple[Int64Array, Int64Array]]
"""Function that returns the lane of each position, and the number of lanes."""


@dataclass(frozen=True)
class Fleet:
    """Sizes of steps by stage, and the present rank and world size."""

    stages: tuple[tuple[int, int], ...]
    """First step and size of each stage; the first begins at step 0."""
    rank: int = 0
    world_size: int = 1

    @classmethod
    def parse(cls, asked: int | Sequence[tuple[int, int]]) -> Fleet:
        """Return a fleet of steps of one size, or of stages ``(step, size)``.

        Raises:
            InvalidArgumentError: If a size is not positive, or stages do not rise from
                step 0.
        """
        if not isinstance(asked, list | tuple):
            size = check_positive(asked, "global_batch_size")
            return cls(((0, size),))
        return cls(
            check_stages(asked, "global_batch_size", "[(0, 256), (10_000, 512)]")
        )

    def placed(self, rank: int, world_size: int) -> Fleet:
        """Return the fleet with a different rank and world size.

        Raises:
            InvalidArgumentError: As :meth:`check_place`.
        """
        rank, world_size = self.check_place(rank, world_size)
        return replace(self, rank=rank, world_size=world_size)

    def check_place(self, rank: int, world_size: int) -> tuple[int, int]:
        """Return rank and world size as plain numbers.

        Raises:
            InvalidArgumentError: If there is no such rank, or no row for it.
        """
        world_size = check_positive(world_size, "world_size")
        rank = check_whole(rank, "rank", least=0)
        if rank >= world_size:
            raise InvalidArgumentError(
                f"rank={rank} must lie below world_size={world_size}"
            )
        least = min(size for _, size in self.stages)
        if world_size > least:
            raise InvalidArgumentError(
                f"world_size={world_size} ranks cannot share a step of {least} "
                "sequences: each needs one at least; give a larger global_batch_size, "
                "or rank=None to those that wait"
            )
        return rank, world_size

    @property
    def asked(self) -> int | list[tuple[int, int]]:
        """The sizes as a user writes them."""
        [_, size], *further = self.stages
        return list(self.stages) if further else size

    @property
    def sizes(self) -> tuple[int, int]:
        """The entry of states: the step size, or a digest of all sizes; and 0."""
        if len(self.stages) == 1:
            return self.stages[0][1], 0
        digest = hashlib.sha256(repr(self.stages).encode()).digest()
        return int.from_bytes(digest[:6], "little") + 1, 0

    @property
    def batch_size(self) -> int:
        """Rows of this rank's batch in the first stage."""
        return share_size(self.stages[0][1], self.rank, self.world_size)

    def open_session(self, settings: LoaderSettings) -> RunView:
        """Return the session of a loader whose steps are shared by this fleet."""
        return FleetSession(settings)

    def route(
        self,
        lanes_of: LanesOf,
        rank: int | None,
        world_size: int | None,
        **settings: Any,
    ) -> FleetRoute:
        """Return the route of a rank; by default, of the present one."""
        return FleetRoute(
            fleet=self,
            lanes_of=lanes_of,
            batch_size=0,
            rank=self.rank if rank is None else rank,
            world_size=self.world_size if world_size is None else world_size,
            **settings,
        )

    @lazy
    def _table(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """First step and size of each stage, and the sequences before it."""
        first, size = np.array(self.stages, dtype=np.int64).T
        before = np.cumsum(np.append(0, np.diff(first) * size[:-1]))
        return first, size, before

    def size_of(self, step: int) -> int:
        """Return the sequences of a step."""
        return max(stage for stage in self.stages if stage[0] <= step)[1]

    def before(self, step: Any) -> Any:
        """Return the sequences before one or many steps."""
        first, size, before = self._table
        stage = np.searchsorted(first, step, side="right") - 1
        return before[stage] + (step - first[stage]) * size[stage]

    def divided(self, sequences: Any) -> tuple[Any, Any]:
        """Return the step after a number of sequences, and how many belong to it."""
        first, size, before = self._table
        stage = np.searchsorted(before, sequences, side="right") - 1
        steps, rest = np.divmod(sequences - before[stage], size[stage])
        return first[stage] + steps, rest


@dataclass(frozen=True, kw_only=True)
class FleetRoute(Route):
    """The positions of one rank in steps of a fleet.

    The k-th step is the k-th one that is not skipped, so all ranks count alike, even
    those that join later. The rows of an incomplete step are dealt in turn. It borrows
    no sequence from the step before it, as that would depend on the number of ranks.
    """

    fleet: Fleet
    lanes_of: LanesOf

    _borrowed = 0

    def __post_init__(self) -> None:
        """Find the rows of this rank's batch."""
        object.__setattr__(self, "batch_size", self.rows(0))

    @property
    def step_sequences(self) -> int:
        """Sequences of the first step on all ranks."""
        return self.fleet.size_of(self.first_step)

    def rows(self, index: int) -> int:
        """Return the rows of this rank's batch of a step."""
        size = self.fleet.size_of(self.number_here(index))
        return share_size(size, self.rank, self.world_size)

    def num_alike(self, index: int) -> int | None:
        """Return how many steps in a row have as many rows; None for all."""
        step = self.number_here(index)
        stages = self.fleet.stages
        end = next((first for first, _ in stages if first > step), None)
        return None if end is None else -(-(end - step) // self.num_workers)

    def number_of(self, index: StepIndex) -> Step:
        """Return the number of the ``index``-th step from the start."""
        return Step(self.first_step + index)

    def index_of(self, step: Step) -> StepIndex:
        """Return the index of the step with this number."""
        return StepIndex(step - self.first_step)

    def positions(self, first: int, count: int) -> Int64Array:
        """Return the positions of this process's steps ``first .. first + count``."""
        parts_of_steps = [np.empty(0, dtype=np.int64)]
        while count > 0:
            alike = min(count, self.num_alike(first) or count)
            parts_of_steps.append(self._positions_alike(first, alike))
            first, count = first + alike, count - alike
        places = np.concatenate(parts_of_steps)
        positions = self._positions(places)
        if self.end is None:
            return positions
        return np.where(positions < self.end, positions, NO_POSITION)

    def _positions_alike(self, first: int, count: int) -> Int64Array:
        """Places of steps of one size."""
        index = np.arange(first, first + count) * self.num_workers + self.worker
        size, here = self.fleet.size_of(self.number_here(first)), self.rows(first)
        begin = self.start + self._distance(index)
        lane, num_lanes = self.lanes_of(self._positions(begin))
        kinds, which = np.unique(num_lanes << 32 | lane, return_inverse=True)
        shares = np.empty((len(kinds), here), dtype=np.int64)
        for kind_index, kind in enumerate(kinds.tolist()):
            lanes, first_lane = kind >> 32, kind & 0xFFFFFFFF
            shares[kind_index] = share_of_rank(
                size, lanes, first_lane, self.rank, self.world_size
            )
        places = begin[:, None] + shares[which]
        places[index == self._short] = begin[index == self._short, None] + np.arange(
            self.rank, size, self.world_size
        )
        return places.reshape(-1)

    @lazy
    def _short(self) -> int:
        """Index of the step that is not full; -1 if all are."""
        if self.drop_last or (num_sequences := self.num_sequences) is None:
            return -1
        steps, rest = self._divided(num_sequences)
        return int(steps) if rest else -1

    def progression(self, first: int, count: int) -> range | None:
        """Return :meth:`positions` as a range, if they are one without padding."""
        if self.world_size > 1 or self.num_workers > 1 or len(self._gaps[0]):
            return None
        begin, end = (self._first_place(index) for index in (first, first + count))
        return range(begin, end) if self.end is None or end <= self.end else None

    def _distance(self, index: Any) -> Any:
        before = self.fleet.before
        return before(self.first_step + index) - before(self.first_step)

    def _divided(self, distance: Any) -> tuple[Any, Any]:
        begin = self.fleet.before(self.first_step)
        steps, rest = self.fleet.divided(begin + distance)
        return steps - self.first_step, rest

    def _dealt(
        self, index: Int64Array, row_in_step: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        row, rank = np.divmod(row_in_step, self.world_size)
        for step in np.unique(index[index != self._short]).tolist():
            which = index == step
            begin = self._positions(self.start + np.array([self._distance(step)]))
            [lane], [num_lanes] = self.lanes_of(begin)
            size = self.fleet.size_of(self.number_of(step))
            rows, ranks = rows_of_ranks(
                size, int(num_lanes), int(lane), self.world_size
            )
            row[which], rank[which] = (
                rows[row_in_step[which]],
                ranks[row_in_step[which]],
            )
        return row, rank
