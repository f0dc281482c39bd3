"""The shares of a mixture's datasets over its run, as numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import MixtureCursor, last_position

PLOTTED_POINTS = 200


def mixture_shares(
    loader: Loader,
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.float64]]]:
    """Return the share of each dataset in the delivered tokens, over the run.

    Returns:
        Steps, float64 [points]; and by name the shares at these steps in 0..1, float64
        [points]. All steps except the first and last come twice, with the shares before
        and after a change.

    Raises:
        InvalidArgumentError: If the loader has one dataset, not a mixture.
    """
    track = _latest(loader)
    course = track.course
    end = last_position(course, track.end)
    # Lanes take turns: shares are even only over a few turns of each lane.
    count = min(PLOTTED_POINTS, max(2, end // (4 * course.num_lanes)))
    points = np.unique(np.linspace(0, end, count + 1).astype(np.int64))
    counts = np.array([course.counts(point) for point in points.tolist()])
    tokens = np.diff(counts, axis=0) * [
        component.sequence_tokens for component in course.schedule.components
    ]
    shares = (tokens / np.maximum(1e-9, tokens.sum(axis=1, keepdims=True))).T
    steps = np.repeat(points / track.run.step_sequences, 2)[1:-1]
    by_name = zip(course.schedule.names, np.repeat(shares, 2, axis=1), strict=True)
    return steps, dict(by_name)


def mixture_weights(loader: Loader) -> list[tuple[int, dict[str, float]]]:
    """Return the weights over a run, as the state of the loader records them.

    They are those of the current iteration; if none has begun since, of the last one.

    Returns:
        For each change, the step from which on the weights hold, and the share of each
        dataset in the tokens; in the sequences, if tokens are not counted. An anneal
        has an entry for its begin and one for its end.

    Raises:
        InvalidArgumentError: If the loader has one dataset, not a mixture.
    """
    track = _latest(loader)
    schedule, step_sequences = track.course.schedule, track.run.step_sequences
    components, by_step = schedule.components, []
    for change in schedule.changes:
        pairs = [(change.start + change.anneal, change.weights)]
        if change.anneal:
            pairs.insert(0, (change.start, schedule.weights_before(change.start)))
        for position, weights in pairs:
            tokens = np.array(weights) * [
                component.sequence_tokens for component in components
            ]
            shares = (tokens / tokens.sum()).tolist()
            step = -(-position // step_sequences)
            by_step.append((step, dict(zip(schedule.names, shares, strict=True))))
    return by_step


def _latest(loader: Loader) -> MixtureCursor:
    """Return where the latest iteration of a mixture begins."""
    session = loader.view()
    track = session.run.at(
        session.run.first_of(session.position.finished or session.position.start)
    )
    if not isinstance(track, MixtureCursor):
        raise InvalidArgumentError("this is one dataset, not a mixture")
    return track
