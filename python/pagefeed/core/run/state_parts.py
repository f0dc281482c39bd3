"""Parts of a state: skipped steps and the data of rooms; checks of all states.

Skipped positions are stored as one list of small numbers: differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd
from typing import Any

from pagefeed.core._base import MOST, check_whole
from pagefeed.core.run.route import Ranges
from pagefeed.errors import InvalidArgumentError, StateMismatchError


@dataclass(frozen=True)
class StatePart:
    """Data that a room adds to states; ``pagefeed.rooms`` names it.

    Args:
        to_json: Returns a value as plain JSON types.
        from_json: Returns the value that ``to_json`` wrote, checked. Raises a
            StateMismatchError for anything else.
    """

    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]


MAX_STATE_BYTES = 128 << 10
"""Bytes of the part in a state, enough for some 2,000 datasets; more are refused."""
MOST_RANGES = 2_000
"""Skipped ranges in a state, at most."""
MOST_CHARACTERS = 16 * MOST_RANGES
"""Characters of these at most: enough for lengths and gaps of six digits each."""


def packed_ranges(ranges: Ranges) -> list[int]:
    """Return ranges as one short list.

    The list has the first position, a unit, and then in turn the lengths of ranges and
    of the gaps between them, all in this unit. As steps are of one size, these numbers
    are small.

    Args:
        ranges: Ranges in order that do not touch.

    Example:
        >>> packed_ranges(((100, 108), (120, 124)))
        [100, 4, 2, 3, 1]
    """
    if not ranges:
        return []
    borders = [border for span in ranges for border in span]
    distances = [after - before for before, after in pairwise(borders)]
    unit = gcd(*distances)
    return [borders[0], unit, *(distance // unit for distance in distances)]


def unpacked_ranges(packed: Any) -> Ranges:
    """Return what :func:`packed_ranges` packed.

    Raises:
        InvalidArgumentError: If :func:`packed_ranges` cannot have made the list, or no
            state holds as many ranges.
    """
    if not isinstance(packed, list | tuple):
        raise InvalidArgumentError(f"skipped={packed!r:.60} must be a list")
    if not packed:
        return ()
    first, *others = (check_whole(value, "skipped", most=MOST) for value in packed)
    if len(others) % 2 or first < 0 or min(others, default=0) < 1:
        raise InvalidArgumentError(
            f"skipped={packed!r:.60} must be a position, a unit, and lengths of ranges "
            "and of the gaps between them"
        )
    unit, *distances = others
    borders = [
        *accumulate(distances, lambda at, length: at + length * unit, initial=first)
    ]
    ranges = tuple(zip(borders[::2], borders[1::2], strict=True))
    check_whole(borders[-1], "skipped", most=MOST)
    if packed_ranges(ranges) != [*packed] or not ranges_fit(ranges):
        raise InvalidArgumentError(
            f"skipped={packed!r:.60} must be in the largest unit, and of at most "
            f"{MOST_RANGES} ranges"
        )
    return ranges


def ranges_fit(ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether a state has room for these ranges."""
    packed = packed_ranges(tuple(ranges))
    return len(ranges) <= MOST_RANGES and len(json.dumps(packed)) <= MOST_CHARACTERS


@contextmanager
def reading_state(
    state: Mapping[str, Any], versions: Mapping[str, int]
) -> Iterator[None]:
    """Check the versions of a state; errors in the block say that the state is wrong.

    Raises:
        StateMismatchError: If a version differs, or the block raises an error about a
            value.
    """
    for name, ours in versions.items():
        if state.get(name) != ours:
            raise StateMismatchError(
                f"the state has {name} {state.get(name)!r:.200}, this release of "
                f"pagefeed reads {ours}: continue with the release that began the run"
            )
    try:
        yield
    except (InvalidArgumentError, RecursionError, TypeError, ValueError) as error:
        raise StateMismatchError(
            f"this is not what state_dict() returned: {error}"
        ) from error


def check_same_run(
    state: Any, loader: Any, names: tuple[str, ...], advice: str, *differing: str
) -> None:
    """Raise an error if a state is of a different run.

    Args:
        state: Facts of the saved state.
        loader: The same facts of the loader that is to continue.
        names: Names of the facts that must be equal.
        advice: What to give the loader, for the message.
        *differing: Further differences, for the message.

    Raises:
        StateMismatchError: Naming both values of everything that differs.
    """
    told = [
        *differing,
        *(
            f"{name}: the state has {theirs!r:.200}, this loader {ours!r:.200}"
            for name in names
            if (theirs := getattr(state, name)) != (ours := getattr(loader, name))
        ),
    ]
    if told:
        raise StateMismatchError(
            "the state belongs to another run:",
            *(f"  {line}" for line in told),
            f"Give the loader the same {advice}",
        )
