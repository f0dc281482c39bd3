"""Deliveries to test: which unit came at which step on which rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from order_statistics.findings import Float64Array
from pagefeed.core._base import Int64Array, lazy
from pagefeed.errors import InvalidArgumentError

__all__ = ["NEVER", "Draw", "Seen", "Taken", "Units"]

Int32Array: TypeAlias = npt.NDArray[np.int32]

NEVER = -1
"""Step and rank of a unit that is not delivered."""
GROUPS = 8
"""Groups of sources and costs that are compared, at most."""


class Taken(NamedTuple):
    """The units of an epoch as delivered; arrays with an entry for each delivery."""

    unit: npt.NDArray[np.integer]
    """Number of the unit."""
    step: npt.NDArray[np.integer]
    """Step that delivers it; steps rise."""
    rank: npt.NDArray[np.integer]
    """Rank that gets it."""


Draw: TypeAlias = Callable[[int, int], Taken | ArrayLike]
"""Gives what is delivered under a seed in an epoch: a :class:`Taken`, or numbers of
units, [steps, rows] or [steps, ranks, rows], with -1 for padding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """Facts about the units of an epoch; arrays with an entry for each unit.

    Args:
        num_units: Units of an epoch.
        page: Page of each unit: units of a page are stored and read together.
        source: File of each unit.
        dataset: Dataset of each unit in a mixture. Every dataset has epochs of its own.
        shares: Share of each dataset in the delivered units; None if it changes.
        overlap: How many units of a dataset of a mixture may be left when its next
            epoch begins, since lanes end one by one.
        costs: Costs of the units, by the name of the cost.
    """

    num_units: int
    page: Int64Array | None = None
    source: Int64Array | None = None
    dataset: Int64Array | None = None
    shares: Float64Array | None = None
    overlap: int = 0
    costs: Mapping[str, Float64Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("page", "source", "dataset")}
        for name, values in (given | dict(self.costs)).items():
            if values is not None and np.shape(values) != (self.num_units,):
                raise InvalidArgumentError(
                    f"{name} has shape {np.shape(values)}, and there are "
                    f"{self.num_units} units: give one number for each unit"
                )

    @property
    def datasets(self) -> Int64Array:
        """The dataset of each unit; 0 without a mixture."""
        if self.dataset is None:
            return np.zeros(self.num_units, dtype=np.int64)
        return self.dataset

    @property
    def groups(self) -> dict[str, Int64Array]:
        """Groups of units that ranks and stretches of an epoch should share equally."""
        groups = {} if self.source is None else {"source": _numbered(self.source)}
        groups |= {name: _numbered(cost) for name, cost in self.costs.items()}
        return {name: group for name, group in groups.items() if group.max(initial=0)}


def _numbered(values: Int64Array | Float64Array) -> Int64Array:
    """Return numbers of groups of about equally many units; equal values share one."""
    distinct, first = np.unique(np.sort(values), return_index=True)
    group = first * min(GROUPS, len(distinct)) // len(values)
    return np.unique(group, return_inverse=True)[1][np.searchsorted(distinct, values)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Deliveries under several seeds, two epochs for each."""

    units: Units
    """Facts about the units."""
    taken: list[list[Taken]]
    """Deliveries by seed and epoch."""
    step: Int32Array
    """First step that delivers each unit, or NEVER: [seeds, 2, units]."""
    rank: Int32Array
    """Rank of that first delivery: [seeds, 2, units]."""

    @classmethod
    def of(cls, draw: Draw, units: Units, seeds: Iterable[int]) -> Seen:
        """Draw two epochs under each seed."""
        taken = [[_taken(draw(seed, epoch)) for epoch in (0, 1)] for seed in seeds]
        shape = len(taken), 2, units.num_units
        step, rank = (np.full(shape, NEVER, dtype=np.int32) for _ in range(2))
        for seed, epoch in np.ndindex(shape[:2]):
            drawn = taken[seed][epoch]
            if not len(drawn.unit) or drawn.unit.max() >= units.num_units:
                raise InvalidArgumentError(
                    f"seed {seed}, epoch {epoch}: expected units 0 to "
                    f"{units.num_units - 1}, found {drawn.unit.max(initial=NEVER)} in "
                    f"{len(drawn.unit)} deliveries"
                )
            # Of units that come several times the first one is written last.
            step[seed, epoch][drawn.unit[::-1]] = drawn.step[::-1]
            rank[seed, epoch][drawn.unit[::-1]] = drawn.rank[::-1]
        return cls(units=units, taken=taken, step=step, rank=rank)

    @property
    def epochs(self) -> list[Taken]:
        """Deliveries, one epoch after the other."""
        return [epoch for epochs in self.taken for epoch in epochs]

    @lazy
    def num_steps(self) -> int:
        """Steps of an epoch."""
        return 1 + max(int(epoch.step.max()) for epoch in self.epochs)

    @lazy
    def num_ranks(self) -> int:
        """Ranks that were given something."""
        return 1 + max(int(epoch.rank.max()) for epoch in self.epochs)


def _taken(given: Taken | ArrayLike) -> Taken:
    """Return the unit, step and rank of each delivery of a draw."""
    if not isinstance(given, Taken):
        units = np.asarray(given)
        if units.ndim == 2:
            units = units[:, None]
        if units.ndim != 3 or units.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"expected numbers of units, [steps, rows] or [steps, ranks, rows], "
                f"found {units.dtype} {units.shape}"
            )
        step, rank, _ = np.nonzero(units >= 0)
        given = Taken(units[units >= 0], step, rank)
    return Taken(*(np.asarray(column, dtype=np.int32) for column in given))
