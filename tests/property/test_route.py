"""Steps keep their numbers, whichever others are skipped."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.run.route import (
    NO_POSITION,
    Route,
    Slot,
    Step,
    StepIndex,
    merge_ranges,
)
from pagefeed.mixture.mixture_route import MixtureRoute

SKIPPED = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 20)), max_size=2)


@st.composite
def routes(draw: st.DrawFn) -> Route:
    start = draw(st.integers(0, 20))
    end = start + draw(st.integers(0, 80))
    begun = [(min(at, end), min(at + size, end)) for at, size in draw(SKIPPED)]
    lanes = draw(st.sampled_from([0, 1, 4, 6]))
    kind: Any = partial(MixtureRoute, num_lanes=lanes, key=b"a key") if lanes else Route
    return kind(
        start=start,
        end=end,
        batch_size=draw(st.integers(1, 4)),
        rank=0,
        world_size=draw(st.integers(1, 9)),
        drop_last=draw(st.booleans()),
        first_step=draw(st.integers(0, 3)),
        skipped=merge_ranges(begun),
    )


def numbers_of(route: Route) -> list[int]:
    """The number of each step, and that of the end."""
    assert route.num_steps is not None
    return [route.number_of(StepIndex(index)) for index in range(route.num_steps + 1)]


@given(route=routes(), draws=st.randoms(use_true_random=False))
def test_steps_keep_their_numbers(route: Route, draws) -> None:
    numbers = numbers_of(route)
    while len(numbers) > 1:
        index = draws.randrange(len(numbers) - 1)
        skipped = merge_ranges([*route.skipped, route.span(index, index + 1)])
        route = replace(route, skipped=skipped)
        left = numbers[:index] + numbers[index + 1 : -1]
        numbers = numbers_of(route)
        assert numbers[: len(left)] == left


@given(route=routes())
def test_a_number_leads_to_its_step_or_the_next_one(route: Route) -> None:
    numbers = numbers_of(route)
    assert numbers == sorted(set(numbers))
    for number in range(route.first_step, numbers[-1] + 1):
        index = route.index_of(Step(number))
        assert numbers[index] >= number > (numbers[index - 1] if index else -1)
    assert route.index_of(Step(numbers[-1] + 1)) >= len(numbers)


@given(route=routes())
def test_where_positions_go_is_what_ranks_take(route: Route) -> None:
    steps, wanted = route.num_steps or 0, list[tuple[int, Slot]]()
    for rank in range(route.world_size):
        taken = replace(route, rank=rank).positions(0, steps)
        for index, rows in enumerate(taken.reshape(steps, route.batch_size).tolist()):
            number = route.number_of(StepIndex(index))
            wanted += [(p, Slot(number, rank, row)) for row, p in enumerate(rows)]
    wanted = sorted(each for each in wanted if each[0] != NO_POSITION)
    positions = [position for position, _ in wanted]
    assert len(positions) == len(set(positions))
    assert route.slots(np.array(positions, dtype=int)) == sorted(
        slot for _, slot in wanted
    )
    for position, slot in wanted[::7]:
        assert route.slots(np.array([position])) == [slot]


@given(route=routes(), num_taken=st.integers(0, 9))
def test_a_resume_gives_ranks_what_they_would_have_had(
    route: Route, num_taken: int
) -> None:
    steps = route.num_steps or 0
    num_taken = min(num_taken, steps)
    resumed = replace(
        route,
        start=route.position_after(num_taken),
        first_step=route.step_after(num_taken),
    )
    if num_taken == steps or resumed.num_steps != steps - num_taken:
        return  # What the last step borrows was taken before.
    left = steps - num_taken
    for rank in range(route.world_size):
        before, after = (replace(each, rank=rank) for each in (route, resumed))
        found = after.positions(0, left).tolist()
        assert found == before.positions(num_taken, left).tolist()
