"""What a loader saves: a few integers, and what they are valid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pagefeed.errors import StateMismatchError
from pagefeed.order import ORDER_VERSION

__all__ = ["LoaderState"]

VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderState:
    """The consumed position of a run, the same on every rank, and its plan.

    Rank, world size, batch size, threads and memory are not in it: they may change.
    """

    epoch: int
    """Epoch of the next unit."""
    position: int
    """Units of that epoch consumed by all ranks together."""
    step: int
    """Steps of this iteration taken so far."""
    first_epoch: int
    """Epoch in which the iteration began."""
    num_lanes: int
    """Lanes of that epoch's order."""
    seed: int
    """Seed of the run."""
    dataset: str
    """Fingerprint of the dataset."""
    sequences: str
    """How units are cut."""
    shuffle: str
    """How they are shuffled."""

    def advanced(
        self, *, epoch: int, position: int, step: int, num_lanes: int
    ) -> LoaderState:
        """Return the state of the same run at a later position."""
        return replace(
            self, epoch=epoch, position=position, step=step, num_lanes=num_lanes
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"version": VERSION, "order_version": ORDER_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LoaderState:
        """Read what :meth:`to_dict` wrote.

        Raises:
            StateMismatchError: If it is not such a dict, or of another version.
        """
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in state]
        if missing:
            raise StateMismatchError(
                f"this is not a state of a pagefeed loader: it lacks "
                f"{', '.join(missing)}; expected what state_dict() returned"
            )
        for name, ours in (("version", VERSION), ("order_version", ORDER_VERSION)):
            if state.get(name) != ours:
                raise StateMismatchError(
                    f"the state has {name} {state.get(name)!r}, this release of "
                    f"pagefeed reads {ours}: continue the run with the release that "
                    "began it"
                )
        return cls(**{name: state[name] for name in names})

    def check_plan(self, loader: LoaderState) -> None:
        """Refuse a state of another dataset or plan than the ``loader``'s.

        Raises:
            StateMismatchError: Naming everything that differs, both sides.
        """
        differing = [
            f"  {name}: the state has {theirs!r}, this loader {ours!r}"
            for name in ("dataset", "sequences", "shuffle", "seed")
            if (theirs := getattr(self, name)) != (ours := getattr(loader, name))
        ]
        if differing:
            raise StateMismatchError(
                "the state belongs to another run:\n" + "\n".join(differing) + "\n"
                "give the loader the same dataset (its contents, not its place), "
                "sequences, shuffle and seed; world size, batch size, memory and "
                "threads may change"
            )
