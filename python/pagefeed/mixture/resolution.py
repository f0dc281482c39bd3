"""Make the schedule of a mixture: starts and weights of sequences, by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pagefeed.core.dataset import what_changed
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture.component import Component
from pagefeed.mixture.mixture import Mixture, Stage
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.weights import WeightChange, rounded

__all__ = ["Anchor", "adopt", "resolve", "sequence_weights"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A position and step from which on all steps have these sizes."""

    position: int = 0
    """Position of the sequence."""
    step: int = 0
    """Step of the sequence."""
    step_sequences: int
    """Sequences of a step of all ranks."""

    def position_of(self, step: int) -> int:
        """Return where a step would be if all had these sizes; may be below 0."""
        return self.position + (step - self.step) * self.step_sequences


def resolve(mixture: Mixture, parts: Sequence[Component], anchor: Anchor) -> Schedule:
    """Return the schedule of a run of a mixture.

    Args:
        mixture: What is asked for.
        parts: Its datasets, cut; in the order of names.
        anchor: Where steps are counted from.

    Raises:
        InvalidArgumentError: If the stages do not begin one after another.
    """
    schedule = Schedule(
        parts=tuple(parts),
        changes=(WeightChange(0, 0, rounded(_first_weights(mixture, parts))),),
        digest=mixture.digest,
    )
    last = -math.inf
    for number, stage in enumerate(mixture.stages):
        asked = _position(stage.start, stage, schedule, anchor)
        if asked <= last:
            raise InvalidArgumentError(
                f"stage {number} begins at position {asked}, not after the one before "
                f"it at {last}: give stages by rising start"
            )
        last, start = asked, max(0, asked)
        weights = sequence_weights(mixture, schedule.parts, stage.weights)
        anneal = _anneal_sequences(stage, schedule, start, weights, anchor)
        schedule = schedule.changed(start, anneal, weights)
    return schedule


def adopt(
    theirs: Schedule,
    mixture: Mixture,
    parts: Sequence[Component],
    anchor: Anchor,
    position: int | None = None,
) -> Schedule:
    """Return the schedule with which ``mixture`` continues a run.

    The schedule before a position, by default that of the anchor, stays. After it, the
    recorded one goes on if the same mixture was asked for, and otherwise the one that
    is asked for now.

    Raises:
        StateMismatchError: If two datasets of one name differ, or no name is known.
    """
    theirs = replace(theirs, parts=_counted(theirs.parts, parts))
    _check_same(theirs, parts)
    known = theirs.with_parts(parts)
    if theirs.digest == mixture.digest:
        return known
    wanted = resolve(mixture, parts, anchor)
    position = anchor.position if position is None else position
    schedule = replace(known.until(position), digest=mixture.digest)
    before = [span for span in wanted.changes if span.start <= position]
    now = before[-1]
    left = max(0, now.start + now.anneal - position)
    here = _by_name(now.weights, wanted, schedule)
    if left or schedule.weights_before(position) != here:
        schedule = schedule.changed(position, left, here)
    for span in wanted.changes[len(before) :]:
        weights = _by_name(span.weights, wanted, schedule)
        schedule = schedule.changed(span.start, span.anneal, weights)
    return schedule


def sequence_weights(
    mixture: Mixture, parts: Sequence[Component], weights: Mapping[str, float]
) -> list[float]:
    """Return the weight of one sequence of each dataset.

    A weight by tokens is shared by sequences in proportion to their mean tokens.
    """
    given = [weights.get(part.name, 0) for part in parts]
    if mixture.unit == "sequences":
        return [float(weight) for weight in given]
    return [
        weight / part.sequence_tokens if weight else 0.0
        for weight, part in zip(given, parts, strict=True)
    ]


def _first_weights(mixture: Mixture, parts: Sequence[Component]) -> list[float]:
    if mixture.weights is not None:
        return sequence_weights(mixture, parts, mixture.weights)
    by_tokens = mixture.unit == "tokens"
    sizes = {
        part.name: (by_tokens and part.num_tokens) or part.num_sequences
        for part in parts
    }
    # Of the largest: a power of the sizes themselves may be beyond all numbers.
    largest = max(sizes.values())
    return sequence_weights(
        mixture,
        parts,
        {
            name: (size / largest) ** (1 / mixture.temperature)
            for name, size in sizes.items()
        },
    )


def _position(amount: int, stage: Stage, schedule: Schedule, anchor: Anchor) -> int:
    if stage.start_tokens is not None:
        return schedule.position_of_tokens(amount)
    return anchor.position_of(amount)


def _anneal_sequences(
    stage: Stage,
    schedule: Schedule,
    start: int,
    weights: Sequence[float],
    anchor: Anchor,
) -> int:
    if not stage.anneal:
        return 0
    if stage.start_tokens is None:
        return max(0, anchor.position_of(stage.start + stage.anneal) - start)
    # Over a straight line the mean tokens of a sequence are those half way.
    ends = schedule.weights_before(start), rounded(weights)
    mean = sum(schedule.sequence_tokens(end) for end in ends) / 2
    return max(1, round(stage.anneal / mean))


def _by_name(
    weights: Sequence[float], theirs: Schedule, ours: Schedule
) -> tuple[float, ...]:
    by_name = dict(zip(theirs.names, weights, strict=True))
    return tuple(by_name.get(name, 0.0) for name in ours.names)


def _counted(
    parts: Sequence[Component], others: Sequence[Component]
) -> tuple[Component, ...]:
    """Return components, with token counts taken from others where they lack them."""
    known = {part.name: part.num_tokens for part in others}
    return tuple(
        replace(part, num_tokens=part.num_tokens or known.get(part.name, 0))
        for part in parts
    )


def _check_same(theirs: Schedule, parts: Sequence[Component]) -> None:
    ours = {part.name: part for part in _counted(parts, theirs.parts)}
    shared = [part for part in theirs.parts if part.name in ours]
    differing = [
        f"  {part.name}: {found}"
        for part in shared
        if (found := _differences(part, ours[part.name]))
    ]
    if not shared:
        differing = [f"  datasets: the state has {theirs.names}, this loader {[*ours]}"]
    if differing:
        raise StateMismatchError(
            "the state belongs to another mixture:\n" + "\n".join(differing) + "\n"
            "weights and stages may change, and datasets may be added and left out; "
            "those that stay must have the same max_epochs, and the same contents: if "
            "files were added, load with grown="
        )


def _differences(then: Component, now: Component) -> str:
    """Return what differs between two datasets of one name, for messages."""
    found = [changed] if (changed := what_changed(then.data, now.data)) else []
    for name in ("num_sequences", "num_tokens", "max_epochs"):
        old, new = getattr(then, name), getattr(now, name)
        if old != new:
            found.append(f"{name} then {old}, now {new}")
    return "; ".join(found)
