"""Steps keep their numbers, whichever others are skipped."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.run.route import Route, merge_ranges

SKIPPED = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 20)), max_size=2)


@st.composite
def routes(draw: st.DrawFn) -> Route:
    start = draw(st.integers(0, 20))
    end = start + draw(st.integers(0, 80))
    begun = [(min(at, end), min(at + size, end)) for at, size in draw(SKIPPED)]
    return Route(
        start=start,
        end=end,
        batch_size=draw(st.integers(1, 4)),
        rank=0,
        world_size=draw(st.integers(1, 7)),
        drop_last=draw(st.booleans()),
        first_step=draw(st.integers(0, 3)),
        skipped=merge_ranges(begun),
    )


def numbers_of(route: Route) -> list[int]:
    """The number of each step, and that of the end."""
    assert route.num_steps is not None
    return [route.number_of(index) for index in range(route.num_steps + 1)]


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
        index = route.index_of(number)
        assert numbers[index] >= number > (numbers[index - 1] if index else -1)
    assert route.index_of(numbers[-1] + 1) >= len(numbers)
