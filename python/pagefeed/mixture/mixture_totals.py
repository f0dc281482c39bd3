"""Totals of a mixture: tokens, share and repetitions of each dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pagefeed.mixture.component import Component
from pagefeed.mixture.course import Course


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
        components = enumerate(course.schedule.components)
        done = [
            course.delivered(dataset, component.max_epochs or 1)
            for dataset, component in components
        ]
        reached = [position for position in done if position is not None]
        if reached:
            ends.append(min(reached) if stop == "first_exhausted" else max(reached))
    return ends


def last_position(course: Course, end: int | None) -> int:
    """Return the end of a mixture, or where every dataset was delivered once."""
    if end is not None:
        return end
    numbers = range(len(course.schedule.components))
    done = [
        position for n in numbers if (position := course.delivered(n, 1)) is not None
    ]
    return max(done)


def totals(course: Course, end: int) -> list[DatasetTotals]:
    """Return the totals of each dataset up to a position, in schedule order."""
    components, counts = course.schedule.components, course.counts(end).tolist()
    tokens = [_tokens_in(*pair) for pair in zip(components, counts, strict=True)]
    counted = (
        tokens if all(component.num_tokens for component in components) else counts
    )
    whole = max(1, sum(counted))
    datasets = []
    for dataset, component in enumerate(components):
        out = None
        if component.max_epochs is not None:
            out = course.delivered(dataset, component.max_epochs)
        datasets.append(
            DatasetTotals(
                name=component.name,
                sequences=counts[dataset],
                tokens=tokens[dataset],
                share=counted[dataset] / whole,
                epochs=component.num_epochs(counts[dataset]),
                max_epochs=component.max_epochs,
                out_at=None if out is None or out > end else out,
            )
        )
    return datasets


def totals_as_text(datasets: list[DatasetTotals], step_sequences: int) -> Iterator[str]:
    """Yield a line for each dataset, to log."""
    for total in datasets:
        what = (
            f"{total.tokens:,} tokens"
            if total.tokens
            else f"{total.sequences:,} sequences"
        )
        line = f"{total.name}: {what}, {total.share:.2%} of the run, "
        line += f"{total.epochs:.3g} epochs"
        if total.out_at is not None:
            step = total.out_at // step_sequences
            line += f"; left out from step {step:,} on (max_epochs={total.max_epochs})"
        yield line


def _tokens_in(component: Component, sequences: int) -> int:
    return round(sequences * component.sequence_tokens) if component.num_tokens else 0
