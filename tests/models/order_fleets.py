"""Fleets over the functions of the order alone: without files, states of JSON, runs.

A seed decides blocks of sequences, their shuffle, the steps, and a life: members die
before a commit or between two steps, join by the number of the step or by the state of
another, stall and come back, wait as spares, ask again, and skip steps. What a commit
is made of was given to the members of its quorum. All commits together must be the
order's prefix. A fleet takes a few milliseconds, so that a hundred thousand are run.
"""

import functools
import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.core.run.route import Ranges, Step, merge_ranges
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.elastic import Fleet, FleetRoute

WORLDS = 500
"""So many seeds share an order."""
STEPS = 14
"""Steps that a fleet commits, if its data has as many."""
SHUFFLES = [
    Shuffle(),
    Shuffle(passes=2),
    Shuffle(block="row"),
    Shuffle(block=None),
]
PADDING = -1
LANES = [1, 4, 6, 12, 48]


class World(NamedTuple):
    """What all members know before they begin."""

    order: npt.NDArray[np.int64]
    """The sequence at each position, through some epochs."""
    epoch_size: int
    num_lanes: int
    fleet: Fleet

    def lanes_of(
        self, positions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The lane of each position, and of how many."""
        lanes = positions % self.epoch_size % self.num_lanes
        return lanes, np.full_like(lanes, self.num_lanes)


@functools.lru_cache(maxsize=8)
def world_of(number: int) -> World:
    """A world by its number."""
    draw = random.Random(number)
    sizes = [draw.randint(1, 12) for _ in range(draw.randint(5, 40))]
    blocks = ExplicitBlocks(np.cumsum([0, *sizes]).tolist())
    num_lanes = draw.choice([lanes for lanes in LANES if lanes <= len(sizes)])
    shuffle, window = draw.choice(SHUFFLES), draw.choice([0, 1, 8])
    epochs = [
        EpochOrder(
            blocks,
            seed=number,
            epoch=epoch,
            name="",
            shuffle=shuffle,
            num_lanes=num_lanes,
            window=window,
        ).at(range(sum(sizes)))
        for epoch in range(draw.randint(1, 3))
    ]
    size = draw.choice([3, 5, 8, 16, 33, 48])
    stages = [(0, size)]
    while draw.random() < 0.3:
        stages.append((stages[-1][0] + draw.randint(1, 5), draw.randint(3, 48)))
    order = np.concatenate(epochs)
    return World(order, sum(sizes), num_lanes, Fleet.parse(stages))


@dataclass
class Member:
    """What one knows: where it began to count, and what is skipped from there on."""

    position: int = 0
    step: int = 0
    skipped: Ranges = ()


class SimulatedFleet:
    """A fleet that lives as a seed decides."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.world = world = world_of(seed // WORLDS)
        self.drop_last = draw.random() < 0.5
        self.order = world.order.tolist()
        self.members = [Member() for _ in range(draw.randint(1, 5))]
        self.stalled: list[Member] = []
        self.step = 0
        self.left = [*range(len(self.order))]
        """Positions that no commit has had, and that are not skipped."""

    def route(self, member: Member, rank: int = 0, world_size: int = 1) -> FleetRoute:
        """The route of a member from where it began to count."""
        return FleetRoute(
            fleet=self.world.fleet,
            lanes_of=self.world.lanes_of,
            batch_size=0,
            start=member.position,
            end=len(self.order),
            drop_last=self.drop_last,
            first_step=member.step,
            skipped=member.skipped,
            rank=rank,
            world_size=world_size,
        )

    def given(self, member: Member, rank: int, world_size: int) -> list[int]:
        """The sequences that a member gets for its part of the step."""
        route = self.route(member, rank, world_size)
        positions = route.positions(route.checked_index(Step(self.step)), 1)
        return [self.order[at] if at >= 0 else PADDING for at in positions.tolist()]

    def live(self) -> int:
        """Commit steps until enough are; returns how many."""
        num_steps, asked, tries = self.route(Member()).num_steps or 0, 0, 0
        while self.step < min(STEPS, num_steps) and self.left:
            tries += 1
            assert tries < 40 * STEPS
            self.change()
            if not self.has_step():
                break
            size = min(self.world.fleet.size_of(self.step), len(self.left))
            # Those that are more than the rows of a step wait.
            least = min(size for _, size in self.world.fleet.stages)
            quorum = self.draw.sample(self.members, min(len(self.members), least))
            parts = [
                self.given(member, rank, len(quorum))
                for rank, member in enumerate(quorum)
            ]
            asked += len(parts)
            rows = [*map(len, parts)]
            assert max(rows) - min(rows) <= 1
            if self.draw.random() < 0.2:  # One asks once more.
                rank = self.draw.randrange(len(quorum))
                assert self.given(quorum[rank], rank, len(quorum)) == parts[rank]
            if self.draw.random() < 0.25:  # One dies before the commit.
                self.members.remove(self.draw.choice(quorum))
                continue
            self.commit([each for part in parts for each in part], size)
        return asked

    def has_step(self) -> bool:
        """Whether there is a step left; the number of skipped ones is taken off."""
        size = self.world.fleet.size_of(self.step)
        return len(self.left) >= size or not self.drop_last

    def commit(self, given: list[int], size: int) -> None:
        """What a step was made of: the next of the order, none missing, none twice."""
        wanted, self.left = self.left[:size], self.left[size:]
        real = sorted(each for each in given if each != PADDING)
        assert real == sorted(self.order[at] for at in wanted)
        self.step += 1

    def change(self) -> None:
        """Let members come and go."""
        draw, members = self.draw, self.members
        if draw.random() < 0.15 and len(members) > 1:
            members.remove(draw.choice(members))
        if draw.random() < 0.15 and len(members) > 1:
            self.stalled.append(members.pop(draw.randrange(len(members))))
        if self.stalled and draw.random() < 0.4:
            members.append(self.stalled.pop())
        if draw.random() < 0.02:
            self.skip()
        joins = draw.choice([0, 0, 0, 1, 1, 2]) if members else 1
        if draw.random() < 0.004:
            joins = draw.randint(8, 40)
        for _ in range(joins):
            members.append(self.joined())

    def joined(self) -> Member:
        """One that knows the step alone, or has a state of another member."""
        others = self.members + self.stalled
        if not self.skipped and (not others or self.draw.random() < 0.5):
            return Member()
        peer = self.draw.choice(others) if others else Member(skipped=self.skipped)
        route = self.route(peer)
        index = self.draw.randint(
            0, route.checked_index(Step(self.step), past_end=True)
        )
        return Member(
            route.position_after(index), route.step_after(index), peer.skipped
        )

    skipped: Ranges = ()
    """What all have left out."""

    def skip(self) -> None:
        """All leave out steps ahead; who is away hears of it when it is back."""
        size = self.world.fleet.size_of(self.step)
        if len(self.left) < 6 * size:
            return
        route = self.route(Member(skipped=self.skipped))
        first = route.checked_index(Step(self.step)) + self.draw.randint(0, 2)
        gone = route.positions(first, self.draw.randint(1, 2)).tolist()
        spans = [*self.skipped, *((at, at + 1) for at in gone)]
        self.skipped = merge_ranges(spans)
        kept = set(gone)
        self.left = [at for at in self.left if at not in kept]
        for member in self.members + self.stalled:
            member.skipped = self.skipped
