"""Steps of a fleet are the order, cut evenly, whatever ranks there are."""

import random
from typing import Any

import numpy as np
import pytest

from models.fleets import planned_fleet
from models.order_fleets import WORLDS, SimulatedFleet
from pagefeed.core.run import NO_POSITION, StepIndex
from pagefeed.core.run.route import merge_ranges
from pagefeed.elastic import Fleet, FleetRoute
from pagefeed.elastic.dealing import rows_of_ranks, share_of_rank, share_size


def test_shares_are_a_step_and_differ_by_a_row():
    for seed in range(40):
        draw = random.Random(seed)
        size, num_lanes = draw.randint(1, 300), draw.choice([1, 2, 7, 16, 24, 48, 240])
        world_size = draw.randint(1, min(size, 64))
        settings = size, num_lanes, draw.randrange(num_lanes)
        shares = [
            share_of_rank(*settings, rank, world_size).tolist()
            for rank in range(world_size)
        ]
        assert sorted(row for share in shares for row in share) == [*range(size)]
        lengths = [len(share) for share in shares]
        assert lengths == [
            share_size(size, rank, world_size) for rank in range(world_size)
        ]
        assert max(lengths) - min(lengths) <= 1
        rows, ranks = rows_of_ranks(*settings, world_size)
        for place in range(size):
            assert shares[ranks[place]][rows[place]] == place


def lanes_of_ranks(size: int, world_size: int, num_lanes: int = 48) -> float:
    """Lanes that ranks touch, over the number of lanes."""
    touched: list[set[int]] = [set() for _ in range(world_size)]
    for step in range(num_lanes):
        first = step * size % num_lanes
        for rank, lanes in enumerate(touched):
            share = share_of_rank(size, num_lanes, first, rank, world_size)
            lanes.update(((first + share) % num_lanes).tolist())
    return sum(map(len, touched)) / num_lanes


@pytest.mark.parametrize("size", [48, 64, 96, 128, 256, 500, 512, 1000])
def test_ranks_read_lanes_of_their_own(size):
    for world_size in (1, 2, 4, 8):
        if size % world_size == 0:
            assert lanes_of_ranks(size, world_size) <= 1 + (size % 16 > 0) * 0.3
    assert lanes_of_ranks(size, 5) <= 1.3
    assert lanes_of_ranks(size, 7) <= 1.3


def route(draw: random.Random, **options: Any) -> FleetRoute:
    """A route of any steps, as one rank takes all of them."""
    start = draw.randint(0, 30)
    end = start + draw.randint(0, 300)
    skipped = [(at, at + draw.randint(1, 20)) for at in draw.sample(range(200), 2)]
    stages = [(0, draw.randint(5, 20))]
    for _ in range(draw.randint(0, 2)):
        stages.append((stages[-1][0] + draw.randint(1, 4), draw.randint(5, 20)))

    def lanes_of(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        num_lanes = np.where(positions < 100, 6, 7)
        return positions % num_lanes, num_lanes

    return FleetRoute(
        fleet=Fleet.parse(stages),
        lanes_of=lanes_of,
        batch_size=0,
        start=start,
        end=end,
        drop_last=draw.choice([True, False]),
        first_step=draw.randint(0, 3),
        skipped=merge_ranges((min(a, end), min(b, end)) for a, b in skipped),
        **options,
    )


def test_steps_are_the_positions_in_order():
    for seed in range(100):
        draw = random.Random(seed)
        world_size = draw.randint(1, 5)
        routes = [
            route(random.Random(seed), rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        one = routes[0]
        skipped = {at for begin, end in one.skipped for at in range(begin, end)}
        left = [at for at in range(one.start, one.end or 0) if at not in skipped]
        for index in range(one.num_steps or 0):
            size = one.fleet.size_of(one.number_of(StepIndex(index)))
            step, left = left[:size], left[size:]
            parts = [each.positions(index, 1).tolist() for each in routes]
            assert [len(part) for part in parts] == [
                each.rows(index) for each in routes
            ]
            found = [at for part in parts for at in part if at != NO_POSITION]
            assert sorted(found) == step
            assert one.position_after(index) == step[0]
            for rank, (each, part) in enumerate(zip(routes, parts, strict=True)):
                real = [at for at in part if at != NO_POSITION]
                assert each.weight(StepIndex(index)) == len(real) * world_size / len(
                    step
                )
                for slot in one.slots(np.array(real, dtype=np.int64)):
                    assert slot[:2] == (one.number_of(StepIndex(index)), rank)
                    assert part[slot.row] in real
                line = each.progression(index, 1)
                assert line is None or [*line] == part
        assert len(left) < one.fleet.size_of(
            one.number_of(StepIndex(one.num_steps or 0))
        )
        assert one.drop_last or not left
        joined = [each.positions(0, one.num_steps or 0).tolist() for each in routes]
        single = [
            [
                at
                for index in range(one.num_steps or 0)
                for at in each.positions(index, 1)
            ]
            for each in routes
        ]
        assert joined == single


def test_workers_take_the_steps_in_turn():
    for seed in range(20):
        one = route(random.Random(seed), rank=0, world_size=2)
        for worker in range(3):
            mine = route(
                random.Random(seed), rank=0, world_size=2, worker=worker, num_workers=3
            )
            count = mine.num_taken_here or 0
            for index in range(count):
                whole = one.positions(worker + 3 * index, 1).tolist()
                assert mine.positions(index, 1).tolist() == whole
            parts = [mine.positions(index, 1) for index in range(count)]
            assert mine.positions(0, count).tolist() == [at for p in parts for at in p]


@pytest.mark.parametrize("seed", range(0, 48, 8))
def test_committed_steps_of_any_fleet_are_the_beginning_of_the_order(seed):
    for each in range(seed, seed + 8):
        planned_fleet(each)


@pytest.mark.parametrize("first", range(0, 40 * WORLDS, 8 * WORLDS))
def test_fleets_over_the_order_alone_commit_its_beginning(first):
    """``make simulate-runs ARGS=--fleets`` lives through more."""
    committed = 0
    for seed in range(first, first + 8 * WORLDS, WORLDS // 5):
        fleet = SimulatedFleet(seed)
        assert fleet.live() >= fleet.step
        committed += fleet.step
    assert committed > 100
