"""The state of a loader: a few integers, and the run for which they are valid."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, cast

from pagefeed.core._base import MOST, check_choice, check_positive, check_whole
from pagefeed.core.dataset import what_changed
from pagefeed.core.order import ORDER_VERSION
from pagefeed.core.run.route import Ranges, Route, Step, StepIndex, merge_ranges
from pagefeed.core.run.state_parts import (
    MOST_RANGES,
    StatePart,
    check_same_run,
    packed_ranges,
    ranges_fit,
    reading_state,
    unpacked_ranges,
)
from pagefeed.core.wiring import state_part
from pagefeed.errors import InvalidArgumentError, StateMismatchError

VERSIONS = {"version": 4, "order_version": ORDER_VERSION}
Grown: TypeAlias = Literal["next-epoch"]
"""When data are delivered that were added."""
MIXED = (
    "grown='now', which mixed added files into the rest of an epoch. Such states are "
    "refused now: load a state from before, with grown='next-epoch'"
)
"""The error for a state of such a run."""
OPTIONAL = ("balance", "ranks", "ended", "parts")
"""Fields that only the states of some runs have."""
MOST_RANKS = 1 << 20
"""Ranks that an order is balanced for, at most."""
MOST_USUAL_LANES = 48
"""Lanes of a run at most, if the dataset has fewer blocks."""


def check_grown(grown: object) -> Grown | None:
    """Return when added data are delivered, checked; None if nothing was said.

    Raises:
        InvalidArgumentError: If it is another value.
    """
    if grown == "now":
        raise InvalidArgumentError(
            "grown='now' mixed added files into the rest of an epoch, and is gone: "
            "grown='next-epoch' delivers them from the next epoch on; to begin an "
            "epoch over all files at once, call set_epoch and load no state"
        )
    if grown is None:
        return None
    return cast("Grown", check_choice(grown, ("next-epoch",), "grown"))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderState:
    """The consumed position of a run, the same on every rank.

    It records the dataset and the settings that decide the order. Rank, threads and
    memory are not part of it. World size and batch size may change; they are recorded
    only to detect a change.
    """

    epoch: int = 0
    """Epoch of the next sequence."""
    position: int = 0
    """Sequences of that epoch consumed by all ranks together."""
    step: int = 0
    """Number of the next step of this iteration. Skipped steps count."""
    first_epoch: int = 0
    """Epoch in which the iteration began."""
    sizes: tuple[int, int] | None = None
    """Batch size and world size of all steps so far; None if they changed. For a fleet,
    the size of its steps and 0."""
    skipped: Ranges = ()
    """Positions, counted through all epochs, that the iteration passes over."""
    num_lanes: int
    """Lanes of the epoch's order."""
    seed: int
    """Seed of the run."""
    dataset: str
    """Fingerprint of the dataset, and its description for people."""
    sequences: str
    """Identity of the cut."""
    shuffle: str
    """Identity of the shuffle."""
    balance: str | None = None
    """Identity of the balance; None without balance."""
    ranks: int | None = None
    """Number of ranks that the epoch's order balances."""
    parts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Parts that rooms add, by name: each a :class:`StatePart`."""
    ended: LoaderState | None = None
    """State at the end of the iteration before, until a step of this one is taken."""

    def having(self, **parts: Any) -> LoaderState:
        """Return this state with other parts; None takes one out."""
        kept = {**self.parts, **parts}
        return replace(self, parts={n: v for n, v in kept.items() if v is not None})

    def goes_on(self, epoch: int) -> bool:
        """Whether this state is inside the iteration that began with an epoch.

        At the beginning of the iteration this is true only if steps are skipped.
        """
        is_begun = self.step > 0 or bool(self.skipped)
        return is_begun and self.first_epoch == epoch

    def again(self, *, is_grown: bool) -> LoaderState:
        """Return the state at the beginning of the recorded iteration, to repeat it.

        Args:
            is_grown: Whether data were added during the iteration.

        Raises:
            StateMismatchError: If the state does not record what was delivered.
        """
        if self.first_epoch > 0 and not self.goes_on(self.first_epoch):
            raise StateMismatchError(
                f"the state is at the start of epoch {self.first_epoch}, and nothing "
                "was delivered that replay=True could repeat: load a state that was "
                "saved in an iteration, or at its end"
            )
        if is_grown:
            raise StateMismatchError(
                "data were added in the iteration of the state, which replay=True "
                "cannot repeat: load the state without it"
            )
        if self.epoch > self.first_epoch and self.ranks and self.sizes is None:
            raise StateMismatchError(
                f"epoch {self.first_epoch}, in which the iteration of the state "
                "began, was balanced for a number of ranks that the state does not "
                "tell: replay a state that was saved in that epoch"
            )
        return replace(self, epoch=self.first_epoch, position=0, step=0, sizes=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        values = asdict(replace(self, parts={}, ended=None))
        values["sizes"] = self.sizes and list(self.sizes)
        values["skipped"] = packed_ranges(self.skipped)
        for name in OPTIONAL:
            if not values[name]:
                del values[name]
        for name, value in self.parts.items():
            values[name] = _part(name).to_json(value)
        if self.ended is not None and not self.goes_on(self.first_epoch):
            names = (*OPTIONAL[:-1], *self.parts)
            before = dict.fromkeys(names) | self.ended.to_dict()
            values["ended"] = {
                name: value
                for name, value in before.items()
                if value != {**VERSIONS, **values}.get(name)
            }
        return {**VERSIONS, **values}

    def skipping(self, route: Route, steps: Iterable[int]) -> LoaderState:
        """Return this state with further steps skipped.

        Args:
            route: The route from this state on.
            steps: Numbers of steps on the route.

        Raises:
            InvalidArgumentError: If a step is not on the route, or there are too many
                ranges.
        """
        skipped = list(self.skipped)
        for first, stop in _runs(steps):
            last = route.num_steps
            indices = route.index_of(Step(first)), route.index_of(Step(stop))
            if first < self.step or (last is not None and indices[1] > last):
                end = last if last is None else route.number_of(StepIndex(last))
                to = "" if end is None else f", the end {end}"
                raise InvalidArgumentError(
                    f"steps {first} to {stop - 1} cannot be skipped: the next step is "
                    f"{self.step}{to}; to leave out what was taken, load a state from "
                    "before it"
                )
            if indices[0] < indices[1]:
                skipped.append(route.span(*indices))
        merged = merge_ranges(skipped)
        if ranges_fit(merged):
            return replace(self, skipped=merged)
        # Earlier ranges only serve to look back, and `sizes=None` forbids that.
        ahead = tuple(span for span in merged if span[1] > route.start)
        if not ranges_fit(ahead):
            raise InvalidArgumentError(
                f"{len(ahead):,} separate ranges of steps are to be skipped, more than "
                f"a state holds, some {MOST_RANGES:,}: join some of them"
            )
        return replace(self, skipped=ahead, sizes=None)

    @classmethod
    def from_dict(cls, state: Any) -> LoaderState:
        """Read what :meth:`to_dict` wrote.

        Raises:
            StateMismatchError: If it is not such a dict, or of another version.
        """
        names = [field.name for field in fields(cls) if field.name not in OPTIONAL]
        added = _check_names(state, names)
        with reading_state(state, VERSIONS):
            values = _checked(state)
        parts = {name: _part(name).from_json(state[name]) for name in added}
        return cls(**values, ended=cls._ended(state)).having(**parts)

    @classmethod
    def _ended(cls, state: Mapping[str, Any]) -> LoaderState | None:
        """Read the end of the previous iteration: fields that differ from the state."""
        if "ended" not in state:
            return None
        before = state["ended"]
        if not isinstance(before, Mapping) or "ended" in before:
            raise StateMismatchError(
                f"ended={before!r:.60} must be a dict: what differs at the end of the "
                "iteration before; load what state_dict() returned, unchanged"
            )
        kept = {
            name: value
            for name, value in {**state, **before}.items()
            if name != "ended" and (value is not None or name == "sizes")
        }
        return cls.from_dict(kept)

    def check_lanes(self, num_pages: int) -> None:
        """Raise an error for more lanes than a dataset of ``num_pages`` pages can have.

        Raises:
            StateMismatchError: Then.
        """
        most = max(MOST_USUAL_LANES, num_pages)
        if self.num_lanes > most:
            raise StateMismatchError(
                f"the state has num_lanes={self.num_lanes}, runs of this dataset have "
                f"at most {most}"
            )

    def check_run(self, loader: LoaderState) -> None:
        """Raise an error if a state is of a different dataset or of different settings.

        Raises:
            StateMismatchError: If it is; the message names both values of everything
                that differs.
        """
        changed = what_changed(self.dataset, loader.dataset)
        check_same_run(
            self,
            loader,
            ("sequences", "shuffle", "balance", "seed"),
            "dataset, sequences, shuffle, balance and seed. Paths, world size, batch "
            "size, memory and threads may change; contents and the order of files may "
            "not. If files were added, load with grown='next-epoch'",
            *([f"dataset: {changed}"] if changed else []),
        )


def _part(name: str) -> StatePart:
    return cast("StatePart", state_part(name))


def _check_names(state: Mapping[str, Any], names: list[str]) -> list[str]:
    """Return the names of parts; refuse a state without all names, or with others."""
    if not isinstance(state, Mapping):
        raise StateMismatchError(
            f"a state is the dict that state_dict() returned, found {state!r:.60}: "
            "read a saved file first, as with json.load"
        )
    if "grown" in state:
        raise StateMismatchError(f"the state was saved after {MIXED}")
    missing = [name for name in names if name not in state]
    allowed = {*names, *OPTIONAL[:-1], *VERSIONS}
    added = [name for name in state if name not in allowed]
    foreign = [str(n) for n in added if state_part(n) is None]
    if missing or foreign:
        what = f"lacks {', '.join(missing)}" if missing else ""
        also = f"has {', '.join(foreign)} too" if foreign else ""
        raise StateMismatchError(
            "this is not a state of a pagefeed loader: it "
            f"{' and '.join(filter(None, (what, also)))}; expected what state_dict() "
            "returned"
        )
    return added


def _checked(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the core's fields of a state, checked."""
    values: dict[str, Any] = {}
    for name in ("epoch", "position", "step", "first_epoch", "num_lanes"):
        least = int(name == "num_lanes")
        values[name] = check_whole(state[name], name, least=least, most=MOST)
    check_whole(state["first_epoch"], "first_epoch", most=values["epoch"])
    values["seed"] = check_whole(state["seed"], "seed")
    for name in ("dataset", "sequences", "shuffle"):
        if not isinstance(state[name], str):
            raise InvalidArgumentError(f"{name}={state[name]!r:.60} must be text")
        values[name] = state[name]
    balance, ranks = (state.get(name) for name in ("balance", "ranks"))
    if balance is not None or ranks is not None:
        if not isinstance(balance, str):
            raise InvalidArgumentError(f"balance={balance!r:.60} must be text")
        values |= {
            "balance": balance,
            "ranks": check_whole(ranks, "ranks", least=1, most=MOST_RANKS),
        }
    values["skipped"] = unpacked_ranges(state["skipped"])
    sizes = state["sizes"]
    if sizes is not None:
        batch_size, world_size = sizes
        sizes = (
            check_positive(batch_size, "sizes"),
            check_whole(world_size, "sizes", least=0),
        )
    return values | {"sizes": sizes}


def _runs(steps: Iterable[int]) -> Ranges:
    """Return the runs of consecutive numbers: the first and one past the last."""
    if isinstance(steps, range) and steps.step == 1:
        return ((steps.start, steps.stop),) if steps else ()
    try:
        numbers = [operator.index(step) for step in steps]
    except TypeError as error:
        raise InvalidArgumentError(
            f"steps={steps!r:.60} must be whole numbers, such as [7] or range(90, 110)"
        ) from error
    return merge_ranges((position, position + 1) for position in numbers)
