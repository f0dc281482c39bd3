"""What a loader of a stream saves: where its own lanes are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pagefeed._base import MOST, check_whole
from pagefeed.batches.streaming.lane_order import Cursor
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.order import ORDER_VERSION

__all__ = ["StreamState", "lanes_of_rank"]

VERSION = 1
PLAN = ("dataset", "sequences", "shuffle", "seed")
NUMBERS = ("stream_version", "order_version", "step", "num_lanes")


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamState:
    """Where the lanes of a rank are, and what that is valid for."""

    step: int = 0
    """Number of the next step."""
    num_lanes: int
    """Lanes of all ranks together."""
    seed: int
    dataset: str
    sequences: str
    shuffle: str
    lanes: Mapping[int, Cursor]
    """Cursors by lanes."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the lanes are one text, and so one leaf."""
        lanes = [[lane, *cursor] for lane, cursor in sorted(self.lanes.items())]
        return {
            "stream_version": VERSION,
            "order_version": ORDER_VERSION,
            "step": self.step,
            "num_lanes": self.num_lanes,
            **{name: getattr(self, name) for name in PLAN},
            "lanes": json.dumps(lanes, separators=(",", ":")),
        }

    @classmethod
    def of(cls, states: object) -> StreamState:
        """Read what :meth:`to_dict` wrote, on one rank or on all of them.

        Raises:
            StateMismatchError: If it is not that, or states do not belong together.
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
                    f"{replace(other, lanes={})} beside {replace(first, lanes={})}"
                )
            twice = lanes.keys() & other.lanes.keys()
            if twice:
                raise StateMismatchError(
                    f"two of the states have lane {min(twice)}: give one of each rank"
                )
            lanes |= other.lanes
        return replace(first, lanes=lanes)

    def check_plan(self, ours: StreamState) -> None:
        """Refuse a state of another run.

        Raises:
            StateMismatchError: Naming everything that differs, both sides.
        """
        differing = [
            f"  {name}: the state has {theirs!r}, this loader {mine!r}"
            for name in PLAN
            if (theirs := getattr(self, name)) != (mine := getattr(ours, name))
        ]
        if differing:
            raise StateMismatchError(
                "the state belongs to another run:\n" + "\n".join(differing) + "\n"
                "give the loader the same texts, tokenizer, sequences, shuffle and seed"
            )

    def of_rank(self, rank: int, world_size: int) -> StreamState:
        """Return the state with the lanes of a rank alone.

        Raises:
            StateMismatchError: If some of them are not in it.
        """
        ours = lanes_of_rank(self.num_lanes, rank, world_size)
        missing = [lane for lane in ours if lane not in self.lanes]
        if missing or not ours:
            raise StateMismatchError(
                f"the state has lanes {sorted(self.lanes)} of {self.num_lanes}, and "
                f"rank {rank} of {world_size} reads {ours or 'one at least'}: load the "
                "state of this rank, or the list of the states of all ranks, on at "
                "most as many ranks as there are lanes"
            )
        return replace(self, lanes={lane: self.lanes[lane] for lane in ours})


def lanes_of_rank(num_lanes: int, rank: int, world_size: int) -> list[int]:
    """Return the lanes that a rank reads."""
    return [*range(rank, num_lanes, world_size)]


def _parsed(state: object) -> StreamState:
    names = [*NUMBERS, *PLAN, "lanes"]
    if not isinstance(state, Mapping) or sorted(state) != sorted(names):
        raise StateMismatchError(
            f"this is not a state of a stream without counts: {state!r:.200}; expected "
            f"{', '.join(names)}"
        )
    for name, ours in (("stream_version", VERSION), ("order_version", ORDER_VERSION)):
        if state[name] != ours:
            raise StateMismatchError(
                f"the state has {name} {state[name]!r}, this release of pagefeed reads "
                f"{ours}: continue the run with the release that began it"
            )
    try:
        num_lanes = check_whole(state["num_lanes"], "num_lanes", least=1, most=MOST)
        return StreamState(
            step=check_whole(state["step"], "step", least=0, most=MOST),
            num_lanes=num_lanes,
            lanes=_cursors(json.loads(state["lanes"]), num_lanes),
            **{name: state[name] for name in PLAN},
        )
    except (InvalidArgumentError, TypeError, ValueError) as error:
        raise StateMismatchError(
            f"this is not what state_dict() returned: {error}"
        ) from error


def _cursors(lanes: Iterable[Iterable[int]], num_lanes: int) -> dict[int, Cursor]:
    found = {}
    for lane, *numbers in lanes:
        check_whole(lane, "lane", least=0, most=num_lanes - 1)
        cursor = Cursor(*(check_whole(n, "lanes", least=0, most=MOST) for n in numbers))
        if len(numbers) != len(cursor) or lane in found:
            raise InvalidArgumentError(f"lane {lane} is {numbers}")
        found[lane] = cursor
    return found
