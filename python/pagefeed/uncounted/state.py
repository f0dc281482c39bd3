"""State of a loader of texts: the positions of its lanes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pagefeed.core._base import MOST, check_text, check_whole
from pagefeed.core.order import ORDER_VERSION
from pagefeed.core.run import reading_state
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.uncounted.lane_passes import LanePosition

TEXTS = ("dataset", "sequences", "shuffle")
PLAN = (*TEXTS, "seed")
NUMBERS = ("step", "steps_before", "first_epoch", "num_lanes")
VERSIONS = {"uncounted_version": 2, "order_version": ORDER_VERSION}


@dataclass(frozen=True, kw_only=True, slots=True)
class TextState:
    """Positions of the lanes of a rank, and the settings they are valid for."""

    step: int = 0
    """Number of the next step of this iteration."""
    steps_before: int = 0
    """Steps of the iterations before."""
    first_epoch: int = 0
    """The pass with which this iteration began."""
    num_lanes: int
    """Lanes of all ranks together."""
    seed: int
    dataset: str
    sequences: str
    shuffle: str
    lanes: Mapping[int, LanePosition]
    """Positions by lanes."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the lanes are one text, and so one leaf."""
        lanes = [[lane, *position] for lane, position in sorted(self.lanes.items())]
        text = json.dumps(lanes, separators=(",", ":"))
        return {**VERSIONS, **asdict(self), "lanes": text}

    @classmethod
    def from_dict(cls, states: object) -> TextState:
        """Read the result of :meth:`to_dict`, of one rank or of all ranks.

        Raises:
            StateMismatchError: If it is not a state, or states do not belong together.
        """
        several = [states] if isinstance(states, Mapping) else states
        if not isinstance(several, Sequence) or isinstance(several, str) or not several:
            raise StateMismatchError(
                f"a state is what state_dict() returned, or the list of those of all "
                f"ranks; found {states!r:.60}"
            )
        first, *others = (_parsed(state) for state in several)
        lanes = dict(first.lanes)
        for other in others:
            if replace(other, lanes={}) != replace(first, lanes={}):
                raise StateMismatchError(
                    "the states are not of one run at one step: "
                    f"{replace(other, lanes={})!r:.400} and "
                    f"{replace(first, lanes={})!r:.400}"
                )
            twice = lanes.keys() & other.lanes.keys()
            if twice:
                raise StateMismatchError(
                    f"two of the states have lane {min(twice)}: give one of each rank"
                )
            lanes |= other.lanes
        return replace(first, lanes=lanes)

    def of_rank(self, rank: int, world_size: int) -> TextState:
        """Return the state with only the lanes of a rank.

        Raises:
            StateMismatchError: If some of them are not in it.
        """
        ours = lanes_of_rank(self.num_lanes, rank, world_size)
        if not ours or any(lane not in self.lanes for lane in ours):
            raise StateMismatchError(
                f"the state has lanes {sorted(self.lanes)!r:.100} of {self.num_lanes}, "
                f"and rank {rank} of {world_size} reads "
                f"{[*ours[:20]] or 'one at least'}: load the state of this rank, or "
                "the list of those of all ranks, on at most as many ranks as lanes"
            )
        return replace(self, lanes={lane: self.lanes[lane] for lane in ours})


def lanes_of_rank(num_lanes: int, rank: int, world_size: int) -> range:
    """Return the lanes that a rank reads."""
    return range(rank, num_lanes, world_size)


def _parsed(state: object) -> TextState:
    names = [*VERSIONS, *NUMBERS, *PLAN, "lanes"]
    if not isinstance(state, Mapping) or sorted(state) != sorted(names):
        raise StateMismatchError(
            f"this is not a state of a TextLoader: {state!r:.200}; expected "
            f"{', '.join(names)}"
        )
    with reading_state(state, VERSIONS):
        numbers: dict[str, Any] = {
            name: check_whole(state[name], name, least=0, most=MOST) for name in NUMBERS
        }
        texts: dict[str, Any] = {n: check_text(state[n], n) for n in TEXTS}
        return TextState(
            lanes=_positions(json.loads(state["lanes"]), numbers["num_lanes"]),
            seed=check_whole(state["seed"], "seed"),
            **numbers,
            **texts,
        )


def _positions(
    lanes: Iterable[Iterable[int]], num_lanes: int
) -> dict[int, LanePosition]:
    positions = {}
    for lane, *numbers in lanes:
        check_whole(lane, "lane", least=0, most=num_lanes - 1)
        position = LanePosition(
            *(check_whole(n, "lanes", least=0, most=MOST) for n in numbers)
        )
        if (
            len(numbers) != len(position)
            or lane in positions
            or position.done > position.size
        ):
            raise InvalidArgumentError(f"lane {lane} is {numbers!r:.200}")
        positions[lane] = position
    return positions
