"""What a run of a mixture will do, before it runs: who comes when, and how often."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.loader import Loader, session_of
from pagefeed.mixture import Component, Course, WeightChange
from pagefeed.reports.part_reads import are_parts
from pagefeed.reports.reuse import needed_bytes, share_with_columns
from pagefeed.run import MixtureTrack, Run

__all__ = [
    "DatasetForecast",
    "MixtureForecast",
    "StageForecast",
    "forecast_mixture",
    "mixture_shares",
    "plot_mixture",
]

PLOTTED_POINTS = 200
SAMPLED_SEQUENCES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class DatasetForecast:
    """A dataset of a mixture."""

    files: int
    pages: int
    rows: int
    tokens: int
    sequences: int
    """Sequences of an epoch."""
    delivered_sequences: int
    """Sequences the run delivers."""
    delivered_tokens: int
    """Tokens in them, by mean tokens of a sequence; 0 if they are not counted."""
    epochs: float
    """How often that is the whole dataset."""


@dataclass(frozen=True, kw_only=True)
class StageForecast:
    """A stage of a mixture: from one change of the weights to the next."""

    first_step: int
    """Step at which it begins."""
    steps: float
    """Steps it takes."""
    anneal_steps: float
    """Steps in which the former weights turn into its own."""
    shares: dict[str, float]
    """Share of each dataset in its tokens, as realised; in its sequences, if the
    tokens are not counted."""
    tokens: dict[str, int]
    """Tokens of each dataset; 0 if they are not counted."""
    epochs: dict[str, float]
    """Epochs over each dataset, from the begin of the run to its end."""


@dataclass(frozen=True, kw_only=True)
class MixtureForecast:
    """What the epoch of a mixture that a loader stands at comes to."""

    datasets: dict[str, DatasetForecast]
    """The datasets by name."""
    stages: list[StageForecast]
    """The stages in order."""
    sequences: int
    """Sequences until the end."""
    tokens: int
    """Tokens in them."""
    steps: int | None
    """Steps, the same on every rank; None if it never ends: then all is up to where
    every dataset was delivered once."""
    num_lanes: int
    """Lanes that are read side by side."""
    memory_bytes: int
    """What the loader of one rank may hold."""
    needed_bytes: int
    """What pages take, at most, so that none is read twice."""


def forecast_mixture(loader: Loader) -> MixtureForecast:
    """Return what the mixture of ``loader`` comes to, from its index alone.

    Raises:
        InvalidArgumentError: If it is not a mixture.

    Example:
        >>> forecast_mixture(loader).stages[0].shares  # doctest: +SKIP
        {'code': 0.3, 'web': 0.7}
    """
    run, track = _mixture_of(loader)
    course, end = track.course, _end(track)
    spans, parts = course.schedule.changes, course.schedule.parts
    counts = course.counts(end)
    reached = [span for span in spans if span.start < end]
    borders = [*(span.start for span in reached), end]
    datasets = {}
    for part, count in zip(parts, counts.tolist(), strict=True):
        if part.name in track.data.names:
            spans_of = track.mixture.datasets[part.name].spans
            datasets[part.name] = DatasetForecast(
                files=len(spans_of.index.files),
                pages=len(spans_of.index),
                rows=spans_of.num_rows,
                tokens=spans_of.num_values,
                sequences=part.num_sequences,
                delivered_sequences=count,
                delivered_tokens=_tokens_in(part, count),
                epochs=count / part.num_sequences,
            )
    return MixtureForecast(
        datasets=datasets,
        stages=[
            _stage(course, span, stop, run.step_sequences)
            for span, stop in zip(reached, borders[1:], strict=True)
        ],
        sequences=end,
        tokens=sum(data.delivered_tokens for data in datasets.values()),
        steps=run.route(track.begin).num_steps,
        num_lanes=track.begin.num_lanes,
        memory_bytes=loader.memory,
        needed_bytes=_needed_bytes(loader, run, track),
    )


def mixture_shares(
    loader: Loader,
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.float64]]]:
    """Return the realised share of each dataset in the tokens over the run.

    Returns:
        Steps, float64 [points], each but the first and last twice: where shares change;
        and shares in 0..1 at them by name, float64 [points].

    Raises:
        InvalidArgumentError: If it is not a mixture.
    """
    run, track = _mixture_of(loader)
    course, end = track.course, _end(track)
    # Over a few turns the lanes even out what single batches show.
    count = min(PLOTTED_POINTS, max(2, end // (4 * course.num_lanes)))
    points = np.unique(np.linspace(0, end, count + 1).astype(np.int64))
    counts = np.array([course.counts(point) for point in points.tolist()])
    tokens = np.diff(counts, axis=0) * [
        p.sequence_tokens for p in course.schedule.parts
    ]
    shares = (tokens / np.maximum(1e-9, tokens.sum(axis=1, keepdims=True))).T
    steps = np.repeat(points / run.step_sequences, 2)[1:-1]
    by_name = zip(course.schedule.names, np.repeat(shares, 2, axis=1), strict=True)
    return steps, dict(by_name)


def plot_mixture(loader: Loader, path: str | os.PathLike[str]) -> None:
    """Draw the realised share of each dataset in the tokens over the run.

    Args:
        loader: The run of a mixture.
        path: Where to: ``.png``, ``.svg`` or what else Matplotlib writes.

    Raises:
        InvalidArgumentError: If it is not a mixture.
        MissingDependencyError: If Matplotlib is not installed.
    """
    run, track = _mixture_of(loader)
    course, end = track.course, _end(track)
    figures: Any = require("matplotlib.figure", extra="plot", purpose="a plot")
    steps, shares = mixture_shares(loader)
    figure = figures.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.stackplot(
        steps,
        [*shares.values()],
        labels=[*shares],
    )
    for span in course.schedule.changes[1:]:
        if span.start < end:
            axes.axvline(span.start / run.step_sequences, color="black", lw=0.8)
    axes.set(xlabel="step", ylabel="share of tokens", ylim=(0, 1))
    axes.set_xlim(0, steps[-1])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper")
    figure.savefig(os.fspath(path), dpi=150)


def _mixture_of(loader: Loader) -> tuple[Run, MixtureTrack]:
    session = session_of(loader)
    track = session.run.source.at(session.first)
    if not isinstance(track, MixtureTrack):
        raise InvalidArgumentError("this is one dataset, not a mixture: see forecast")
    return session.run, track


def _end(track: MixtureTrack) -> int:
    end, course = track.end, track.course
    if end is not None:
        return end
    numbers = range(len(course.schedule.parts))
    done = [place for n in numbers if (place := course.delivered(n, 1)) is not None]
    return max(done)


def _stage(
    course: Course, span: WeightChange, stop: int, step_sequences: int
) -> StageForecast:
    parts = course.schedule.parts
    before, after = course.counts(span.start), course.counts(stop)
    sequences = after - before
    pairs = zip(parts, sequences.tolist(), strict=True)
    tokens = np.array([_tokens_in(part, count) for part, count in pairs])
    counted = tokens if all(part.num_tokens for part in parts) else sequences
    names = course.schedule.names
    epochs = after / np.array([part.num_sequences for part in parts])
    shares = counted / max(1, int(counted.sum()))
    return StageForecast(
        first_step=-(-span.start // step_sequences),
        steps=(stop - span.start) / step_sequences,
        anneal_steps=span.anneal / step_sequences,
        shares=dict(zip(names, shares.tolist(), strict=True)),
        tokens=dict(zip(names, tokens.tolist(), strict=True)),
        epochs=dict(zip(names, epochs.tolist(), strict=True)),
    )


def _tokens_in(part: Component, sequences: int) -> int:
    return round(sequences * part.sequence_tokens) if part.num_tokens else 0


def _needed_bytes(loader: Loader, run: Run, track: MixtureTrack) -> int:
    """Bytes of pages needed at most, from a stretch in the middle of the run."""
    planner = run.planner(track.begin)
    route = planner.route
    count = (
        max(SAMPLED_SEQUENCES, 2 * track.horizon(loader.memory)) // route.batch_size + 1
    )
    first = 0
    if route.num_steps is not None:
        count = min(count, route.num_steps)
        first = (route.num_steps - count) // 2
    sequences = planner.sequences(first, count)
    index, datasets = track.data.index, run.source.datasets
    segments = index.segments(sequences[sequences >= 0])
    pages = segments.page[~are_parts(datasets, index, segments)]
    tells_metadata = "metadata" in session_of(loader).settings.fields.names
    share = share_with_columns(datasets, tells_metadata=tells_metadata)
    sizes = (index.loaded_bytes(pages) * share).astype(np.int64)
    return needed_bytes(pages, sizes)
