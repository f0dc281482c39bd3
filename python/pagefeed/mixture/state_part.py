"""The schedule and the datasets of a mixture in its states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pagefeed.core._base import check_positive
from pagefeed.core.dataset import Dataset, identity_of_data
from pagefeed.core.run import MAX_STATE_BYTES, LoaderState, StatePart, reading_state
from pagefeed.core.sequences import SequenceIndex
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture.component import Component
from pagefeed.mixture.mixture import Mixture
from pagefeed.mixture.schedule import Schedule

MOST_CUTS = 16
"""Ends of a run that a state holds, about; further ones do not cut its order."""


def make_components(
    mixture: Mixture,
    names: Sequence[str],
    datasets: Sequence[Dataset],
    indexes: Sequence[SequenceIndex],
) -> list[Component]:
    """Return the datasets with their sequences and the tokens these deliver.

    Raises:
        InvalidArgumentError: If the mixture counts tokens, and a dataset has none.
    """
    tokens = _num_tokens(mixture, names, indexes)
    usual = 1 if mixture.stop == "first_exhausted" else None
    return [
        Component(
            name=name,
            data=identity_of_data(dataset),
            num_sequences=index.num_sequences,
            num_tokens=num_tokens,
            max_epochs=mixture.max_epochs.get(name, usual),
        )
        for name, dataset, index, num_tokens in zip(
            names, datasets, indexes, tokens, strict=True
        )
    ]


def _num_tokens(
    mixture: Mixture, names: Sequence[str], indexes: Sequence[SequenceIndex]
) -> list[int]:
    """Return the tokens of each dataset.

    0 where they are not counted and not needed.
    """
    starts = [("start_tokens", stage.start_tokens) for stage in mixture.stages]
    asked = [("max_tokens", mixture.max_tokens), *starts]
    ends = [f"{name}={value}" for name, value in asked if value is not None]
    if not ends and not any(index.has_tokens for index in indexes):
        return [0] * len(indexes)  # Text and the like: rows are what counts.
    if not ends and mixture.unit == "sequences":
        # Lengths are not read for this.
        return [
            0 if index.reads_lengths else index.num_delivered_tokens
            for index in indexes
        ]
    for name, index in zip(names, indexes, strict=True):
        is_bare = not index.has_tokens
        if is_bare or index.num_delivered_tokens == 0:
            what = "a column without tokens" if is_bare else "no token in any row"
            instead = "use max_steps" if ends else "give pagefeed.mix unit='sequences'"
            raise InvalidArgumentError(
                f"dataset {name!r} has {what}, and "
                f"{' and '.join(ends) or 'the weights of the mixture'} count tokens: "
                f"{instead}"
            )
    return [index.num_delivered_tokens for index in indexes]


def schedule_of(state: LoaderState) -> Schedule:
    """Return the schedule of the state of a mixture.

    Raises:
        StateMismatchError: If it has none.
    """
    schedule: Schedule | None = state.parts.get("mixture")
    if schedule is None:
        raise StateMismatchError(
            "the state is of a mixture, but holds no datasets and weights; expected "
            "what state_dict() returned"
        )
    return schedule


def cuts_in(state: LoaderState) -> tuple[int, ...]:
    """Return the positions across which balancing moves no sequence.

    There, runs ended or continued in another way.
    """
    cuts: tuple[int, ...] = state.parts.get("cuts", ())
    return cuts


def with_cuts(state: LoaderState, cuts: Iterable[int]) -> LoaderState:
    """Return a state with other such positions."""
    return state.having(cuts=tuple(cuts) or None)


def _read_cuts(given: Any) -> tuple[int, ...]:
    with reading_state({}, {}):
        if not isinstance(given, list | tuple):
            raise InvalidArgumentError(f"cuts={given!r:.60} must be a list")
        cuts = tuple(check_positive(cut, "cuts") for cut in given)
        if list(cuts) != sorted(set(cuts)):
            raise InvalidArgumentError(f"cuts={given!r:.60} must rise")
        return cuts


CUTS = StatePart(to_json=list, from_json=_read_cuts)
MIXTURE = StatePart(to_json=Schedule.to_dict, from_json=Schedule.from_dict)


def cuts_of(
    mixture: Mixture, step_sequences: int, state: LoaderState, border: int
) -> tuple[int, ...]:
    """Return the positions at which a continued order is cut.

    Ranks are balanced up to the last step. If a run now ends later, because its step
    size changed, its order is unchanged up to its former end. If it has no such end
    ahead, the sequences dealt before the border stay.
    """
    ends = set[int]()
    if len(cuts_in(state)) > MOST_CUTS:
        return cuts_in(state)
    if mixture.max_tokens is not None:
        ends.add(schedule_of(state).position_of_tokens(mixture.max_tokens))
    if mixture.max_steps is not None and mixture.max_steps > state.step:
        left = mixture.max_steps - state.step
        ends.add(state.position + left * step_sequences)
    last, end = max(cuts_in(state), default=0), min(ends, default=0)
    if end <= max(border, last):
        return cuts_in(state)
    return *cuts_in(state), *([border] if border > last else []), end


def check_size(state: LoaderState) -> None:
    """Raise an error for a state that is too large.

    Raises:
        InvalidArgumentError: If it is; the message says what makes it large.
    """
    size = len(json.dumps(replace(state, ended=None).to_dict()))
    if size > MAX_STATE_BYTES:
        schedule = schedule_of(state)
        raise InvalidArgumentError(
            f"{len(schedule.components)} datasets and {len(schedule.changes)} changes "
            f"of their weights make a state of {size} bytes; at most {MAX_STATE_BYTES} "
            "are kept: change weights less often, or join datasets"
        )
