"""Make the schedule of a mixture: starts and weights of sequences, by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pagefeed.core.dataset import what_changed
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture.component import Component
from pagefeed.mixture.mixture import Mixture, Stage
from pagefeed.mixture.schedule import Schedule, WeightChange, rounded


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
        """Return where a step would be if all steps had these sizes; may be below 0."""
        return self.position + (step - self.step) * self.step_sequences


def resolve(
    mixture: Mixture, components: Sequence[Component], anchor: Anchor
) -> Schedule:
    """Return the schedule of a run of a mixture.

    Args:
        mixture: The mixture as the user specified it.
        components: Its datasets with their sequences, in the order of names.
        anchor: State from which steps are counted.

    Raises:
        InvalidArgumentError: If the stages do not begin one after another.
    """
    schedule = Schedule(
        components=tuple(components),
        changes=(WeightChange(0, 0, rounded(_first_weights(mixture, components))),),
        digest=mixture.digest,
    )
    last = -math.inf
    for index, stage in enumerate(mixture.stages):
        asked = _position(stage.start, stage, schedule, anchor)
        if asked <= last:
            raise InvalidArgumentError(
                f"stage {index} begins at position {asked}, not after the one before "
                f"it at {last}: give stages by rising start"
            )
        last, start = asked, max(0, asked)
        weights = sequence_weights(mixture, schedule.components, stage.weights)
        anneal = _anneal_sequences(stage, schedule, start, weights, anchor)
        schedule = schedule.changed(start, anneal, weights)
    return schedule


def adopt(
    theirs: Schedule,
    mixture: Mixture,
    components: Sequence[Component],
    anchor: Anchor,
    position: int | None = None,
) -> Schedule:
    """Return the schedule with which ``mixture`` continues a run.

    The schedule before a position, by default that of the anchor, stays. After it, the
    recorded schedule continues if the user gave the same mixture, and otherwise the new
    mixture applies.

    Raises:
        StateMismatchError: If a dataset differs from the recorded one of the same name,
            or no name is known.
    """
    theirs = replace(theirs, components=_counted(theirs.components, components))
    _check_same(theirs, components)
    extended = theirs.with_components(components)
    if theirs.digest == mixture.digest:
        return extended
    wanted = resolve(mixture, components, anchor)
    position = anchor.position if position is None else position
    schedule = replace(extended.until(position), digest=mixture.digest)
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
    mixture: Mixture, components: Sequence[Component], weights: Mapping[str, float]
) -> list[float]:
    """Return the weight of one sequence of each dataset.

    A weight by tokens is shared by sequences in proportion to their mean tokens.
    """
    given = [weights.get(component.name, 0) for component in components]
    if mixture.unit == "sequences":
        return [float(weight) for weight in given]
    return [
        weight / component.sequence_tokens if weight else 0.0
        for weight, component in zip(given, components, strict=True)
    ]


def _first_weights(mixture: Mixture, components: Sequence[Component]) -> list[float]:
    if mixture.weights is not None:
        return sequence_weights(mixture, components, mixture.weights)
    by_tokens = mixture.unit == "tokens"
    sizes = {
        component.name: (by_tokens and component.num_tokens) or component.num_sequences
        for component in components
    }
    # Relative to the largest: a power of a size itself may overflow.
    largest = max(sizes.values())
    return sequence_weights(
        mixture,
        components,
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
    # On a straight line, the mean tokens of a sequence are those at its middle.
    ends = schedule.weights_before(start), rounded(weights)
    mean = sum(schedule.sequence_tokens(end) for end in ends) / 2
    return max(1, round(stage.anneal / mean))


def _by_name(
    weights: Sequence[float], theirs: Schedule, ours: Schedule
) -> tuple[float, ...]:
    by_name = dict(zip(theirs.names, weights, strict=True))
    return tuple(by_name.get(name, 0.0) for name in ours.names)


def _counted(
    components: Sequence[Component], others: Sequence[Component]
) -> tuple[Component, ...]:
    """Return components, with token counts taken from others where they lack them."""
    counts = {component.name: component.num_tokens for component in others}
    return tuple(
        replace(
            component, num_tokens=component.num_tokens or counts.get(component.name, 0)
        )
        for component in components
    )


def _check_same(theirs: Schedule, components: Sequence[Component]) -> None:
    ours = {
        component.name: component
        for component in _counted(components, theirs.components)
    }
    shared = [component for component in theirs.components if component.name in ours]
    differing = [
        f"  {component.name}: {difference}"
        for component in shared
        if (difference := _differences(component, ours[component.name]))
    ]
    if not shared:
        differing = [f"  datasets: the state has {theirs.names}, this loader {[*ours]}"]
    if differing:
        raise StateMismatchError(
            "the state belongs to another mixture:",
            *differing,
            "weights and stages may change, and datasets may be added and left out; "
            "those that stay must have the same max_epochs, and the same contents: if "
            "files were added, load with grown=",
        )


def _differences(then: Component, now: Component) -> str:
    """Return what differs between two datasets of one name, for messages."""
    differences = [changed] if (changed := what_changed(then.data, now.data)) else []
    for name in ("num_sequences", "num_tokens", "max_epochs"):
        old, new = getattr(then, name), getattr(now, name)
        if old != new:
            differences.append(f"{name} then {old}, now {new}")
    return "; ".join(differences)
