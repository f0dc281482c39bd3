"""Schedule of a mixture: the weights that hold from each position on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pagefeed.core._base import MOST, check_number, check_text, check_whole
from pagefeed.core.run import reading_state
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture.component import Component

VERSIONS = {"mixture_version": 2}
"""Version of the order in which turns are dealt."""
DIGITS = 9
"""Significant digits of a weight of a stage."""
SHORT = 4
"""Significant digits of a weight that is set during a run, which may be often."""

ANNEAL_PIECES = 64
"""Pieces with constant weights in an anneal, at most."""


class WeightChange(NamedTuple):
    """Weights from a position on, until the next change."""

    start: int
    """First position."""
    anneal: int
    """Positions over which the earlier weights change into these."""
    weights: tuple[float, ...]
    """Weight of a sequence of each dataset."""


def rounded(weights: Sequence[float], digits: int = DIGITS) -> tuple[float, ...]:
    """Return weights rounded as states record them, so that runs and states agree.

    Raises:
        InvalidArgumentError: If all are 0.
    """
    total = math.fsum(weights)
    if not total > 0:
        raise InvalidArgumentError(f"no weight is above 0: {list(weights)!r}")
    return tuple(float(f"{weight / total:.{digits}g}") for weight in weights)


class Interval(NamedTuple):
    """Positions with constant weights."""

    start: int
    stop: int | None
    """One past the last; None: without end."""
    weights: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Datasets and their weights by position, counted in sequences of all ranks."""

    components: tuple[Component, ...]
    """The datasets, in the order of the weights."""
    changes: tuple[WeightChange, ...]
    """Weights by rising start; the first starts at 0, and so does an anneal from it."""
    digest: str
    """Digest of the mixture that was asked for."""

    @property
    def names(self) -> list[str]:
        """Names of the datasets."""
        return [component.name for component in self.components]

    @property
    def data(self) -> str:
        """Names and fingerprints of all datasets, as a state records them."""
        return "; ".join(
            f"{component.name} {component.data}" for component in self.components
        )

    @property
    def has_grown(self) -> bool:
        """Whether some epochs of a dataset lack data that were added."""
        return any(component.before for component in self.components)

    def intervals(self) -> Iterator[Interval]:
        """Yield the positions in order, in pieces of constant weights."""
        former = self.changes[0].weights
        for index, span in enumerate(self.changes):
            last = index + 1 == len(self.changes)
            stop = None if last else self.changes[index + 1].start
            for start, end, weights in _pieces(span, former):
                if stop is None or start < stop:
                    ends = [
                        position for position in (end, stop) if position is not None
                    ]
                    yield Interval(start, min(ends, default=None), weights)
            former = former if stop is None else _weights_at(span, former, stop)

    def weights_before(self, position: int) -> tuple[float, ...]:
        """Return the weights from which a change at a position starts."""
        former = self.changes[0].weights
        reached = [span for span in self.changes if span.start < position]
        ends = [*(span.start for span in reached), position][1:]
        for span, end in zip(reached, ends, strict=True):
            former = _weights_at(span, former, end)
        return former

    def position_of_tokens(self, tokens: float) -> int:
        """Return the first position with at least ``tokens`` before it."""
        for start, stop, weights in self.intervals():
            mean = self.sequence_tokens(weights)
            if stop is None or tokens <= (stop - start) * mean:
                return start + math.ceil(tokens / mean)
            tokens -= (stop - start) * mean
        raise AssertionError  # The last interval has no end.

    def sequence_tokens(self, weights: Sequence[float]) -> float:
        """Return the mean tokens of a sequence under some weights."""
        tokens = math.fsum(
            weight * component.sequence_tokens
            for weight, component in zip(weights, self.components, strict=True)
        )
        return tokens / math.fsum(weights)

    def changed(self, position: int, anneal: int, weights: Sequence[float]) -> Schedule:
        """Return the schedule with new weights from a position to the next change."""
        return self._changed(WeightChange(position, anneal, rounded(weights)))

    def _changed(self, change: WeightChange) -> Schedule:
        position = change.start
        before = [span for span in self.changes if span.start < position]
        after = [span for span in self.changes if span.start > position]
        if position == 0 and change.anneal:  # There is something to anneal from.
            before = [self.changes[0]]
        return replace(self, changes=(*before, change, *after))

    def reweighted(
        self, position: int, anneal: int, weights: Sequence[float]
    ) -> Schedule:
        """Return :meth:`changed` for a run that continues, with short weights."""
        recorded = rounded(weights, SHORT)
        last = [change for change in self.changes if change.start <= position][-1]
        is_over = position >= last.start + last.anneal
        if is_over and not anneal and rounded(last.weights, SHORT) == recorded:
            return self  # They hold already.
        return self._changed(WeightChange(position, anneal, recorded))

    def until(self, position: int) -> Schedule:
        """Return the schedule without changes that begin at a position or later."""
        changes = tuple(span for span in self.changes if span.start < position)
        return replace(self, changes=changes or self.changes[:1])

    def with_components(self, components: Sequence[Component]) -> Schedule:
        """Return the schedule with further datasets, of weight 0 so far."""
        names = set(self.names)
        added = tuple(
            component for component in components if component.name not in names
        )
        nothing = (0.0,) * len(added)
        changes = tuple(
            span._replace(weights=span.weights + nothing) for span in self.changes
        )
        return replace(self, components=self.components + added, changes=changes)

    def check(self) -> None:
        """Raise an error for values that no run has.

        Raises:
            InvalidArgumentError: If a value is out of its bounds.
        """
        for component in self.components:
            component.check()
        check_text(self.digest, "digest")
        if len(set(self.names)) < len(self.names):
            raise InvalidArgumentError(
                f"names of datasets must differ, found {self.names!r:.200}"
            )
        starts = [
            check_whole(span.start, "start", least=0, most=MOST)
            for span in self.changes
        ]
        # An anneal may begin at the first weights before any sequence has had them.
        anneals = starts[:2] == [0, 0] and self.changes[1].anneal > 0
        rising = starts[1:] if anneals else starts
        if starts[:1] != [0] or rising != sorted(set(rising)):
            raise InvalidArgumentError(
                f"stages start at {starts!r:.200}: the first must start at 0, and each "
                "further one after the one before it"
            )
        for span in self.changes:
            check_whole(span.anneal, "anneal", least=0, most=MOST)
            weights = span.weights
            is_one_each = len(weights) == len(self.components)
            if not is_one_each or min(weights) < 0 or not 0 < sum(weights) < math.inf:
                raise InvalidArgumentError(
                    f"weights={weights!r:.100} of {self.names!r:.100}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            **VERSIONS,
            "datasets": [component.to_list() for component in self.components],
            "stages": [
                [span.start, span.anneal, [_short(w) for w in span.weights]]
                for span in self.changes
            ],
            "digest": self.digest,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Schedule:
        """Read what :meth:`to_dict` wrote.

        Raises:
            StateMismatchError: If it is something else.
        """
        try:
            with reading_state(state, VERSIONS):
                pass
            components = tuple(map(Component.from_list, state["datasets"]))
            changes = tuple(
                WeightChange(
                    start, anneal, tuple(check_number(w, "weight") for w in weights)
                )
                for start, anneal, weights in state["stages"]
            )
            schedule = cls(
                components=components, changes=changes, digest=state["digest"]
            )
            schedule.check()
        except StateMismatchError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"this is not the mixture of a pagefeed state: {state!r:.200}; load "
                "what state_dict() returned, unchanged"
            ) from error
        return schedule


def _short(weight: float) -> float | int:
    return int(weight) if weight == int(weight) else weight


def _weights_at(
    span: WeightChange, former: Sequence[float], position: int
) -> tuple[float, ...]:
    """Weights at a position in a span, as if its anneal were a straight line."""
    if position >= span.start + span.anneal:
        return span.weights
    done = (position - span.start) / span.anneal
    return _between(former, span.weights, done)


def _between(
    former: Sequence[float], later: Sequence[float], done: float
) -> tuple[float, ...]:
    return tuple(a * (1 - done) + b * done for a, b in zip(former, later, strict=True))


def _pieces(span: WeightChange, former: Sequence[float]) -> Iterator[Interval]:
    """Yield the pieces of a span as if nothing followed it."""
    count = min(ANNEAL_PIECES, span.anneal)
    for piece in range(count):
        start, stop = (
            span.start + span.anneal * index // count for index in (piece, piece + 1)
        )
        weights = _between(former, span.weights, (piece + 0.5) / count)
        yield Interval(start, stop, weights)
    yield Interval(span.start + span.anneal, None, span.weights)
