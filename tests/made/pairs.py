"""Values of parameters in pairs, in place of their product."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairs(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Some cases in which each value of a parameter meets each value of another."""

    def meetings(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return {*combinations(enumerate(case), 2)}

    cases = [*product(*(range(len(each)) for each in values))]
    missing = set().union(*map(meetings, cases))
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(meetings(case) & missing))
        missing -= meetings(best)
        chosen.append(tuple(each[at] for each, at in zip(values, best, strict=True)))
    return chosen
