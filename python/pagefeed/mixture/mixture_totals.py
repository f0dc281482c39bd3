"""Totals of a mixture: tokens, share and repetitions of each dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagefeed.mixture.component import Component
from pagefeed.mixture.course import Course

__all__ = [
    "DatasetTotals",
    "ends_by_datasets",
    "last_position",
    "totals",
    "totals_as_text",
]


class DatasetTotals(NamedTuple):
    """Totals of a dataset of a mixture."""

    name: str
    sequences: int
    """Sequences that are delivered."""
    tokens: int
    """Tokens in them, by the mean of a sequence; 0 if they are not counted."""
    share: float
    """Share in all tokens; in all sequences, where some tokens are not counted."""
    epochs: float
    """Times that the dataset is delivered."""
    max_epochs: int | None
    """Greatest number of times; None without a limit."""
    out_at: int | None
    """Position from which on it is left out for that; None: it never is."""


def ends_by_datasets(course: Course, stop: str | None) -> list[int | None]:
    """Return the positions at which datasets that run out end an epoch; None: never."""
    ends = [course.natural_end]
    if stop is not None:
        parts = enumerate(course.schedule.parts)
        done = [
            course.delivered(number, part.max_epochs or 1) for number, part in parts
        ]
        known = [position for position in done if position is not None]
        if known:
            ends.append(min(known) if stop == "first_exhausted" else max(known))
    return ends


def last_position(course: Course, end: int | None) -> int:
    """Return the end of a mixture, or where every dataset was delivered once."""
    if end is not None:
        return end
    numbers = range(len(course.schedule.parts))
    done = [place for n in numbers if (place := course.delivered(n, 1)) is not None]
    return max(done)


def totals(course: Course, end: int) -> list[DatasetTotals]:
    """Return the totals of each dataset up to a position, in schedule order."""
    parts, counts = course.schedule.parts, course.counts(end).tolist()
    tokens = [_tokens_in(*each) for each in zip(parts, counts, strict=True)]
    counted = tokens if all(part.num_tokens for part in parts) else counts
    whole = max(1, sum(counted))
    found = []
    for number, part in enumerate(parts):
        out = None
        if part.max_epochs is not None:
            out = course.delivered(number, part.max_epochs)
        found.append(
            DatasetTotals(
                name=part.name,
                sequences=counts[number],
                tokens=tokens[number],
                share=counted[number] / whole,
                epochs=part.num_epochs(counts[number]),
                max_epochs=part.max_epochs,
                out_at=None if out is None or out > end else out,
            )
        )
    return found


def totals_as_text(found: list[DatasetTotals], step_sequences: int) -> Iterator[str]:
    """Yield a line for each dataset, to log."""
    for one in found:
        what = (
            f"{one.tokens:,} tokens" if one.tokens else f"{one.sequences:,} sequences"
        )
        line = (
            f"{one.name}: {what}, {one.share:.2%} of the run, {one.epochs:.3g} epochs"
        )
        if one.out_at is not None:
            step = one.out_at // step_sequences
            line += f"; left out from step {step:,} on (max_epochs={one.max_epochs})"
        yield line


def _tokens_in(part: Component, sequences: int) -> int:
    return round(sequences * part.sequence_tokens) if part.num_tokens else 0
