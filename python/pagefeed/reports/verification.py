"""Proof, from the index alone, that an epoch delivers every sequence exactly once.

Nothing is read but the index: what ranks deliver is arithmetic, so a run of any number
of ranks, with stops and resumes, can be followed to the end in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pagefeed.core._base import Int64Array, Work
from pagefeed.core.batches import LoaderSettings, make_run
from pagefeed.core.loader import Loader
from pagefeed.core.run import NO_SEQUENCE, LoaderState, Route, Run
from pagefeed.core.sequences import PackedIndex, Segments, SequenceIndex, with_erased
from pagefeed.documents import DocumentIndex
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture import MixtureCursor
from pagefeed.reports.sampling import check_counted
from pagefeed.reports.telling import Part, Told

CHUNK_SEQUENCES = 1 << 16
"""Sequences followed at once."""


def changed_sequences(index: SequenceIndex) -> Int64Array:
    """Return the sequences whose plan differs from the one without erasures.

    All sequences are planned both ways and compared. For packed ones, pages of the
    blocks with erased rows are read.

    Returns:
        Their numbers, rising: int64.
    """
    if index.erased is None:
        return np.empty(0, dtype=np.int64)
    return np.array([*_changed(index)], dtype=np.int64)


def _changed(index: SequenceIndex) -> Iterator[int]:
    whole = with_erased(index)
    for begin in range(0, index.num_sequences, CHUNK_SEQUENCES):
        end = min(begin + CHUNK_SEQUENCES, index.num_sequences)
        numbers = np.arange(begin, end)
        if isinstance(index, DocumentIndex):
            yield from numbers[~index.are_left(numbers)].tolist()
        elif isinstance(index, PackedIndex):
            keys = index.segments(numbers).page
            bundles = index.bundles(np.unique(keys))
            changed = bundles.key[np.diff(bundles.erased_offsets) > 0]
            for sequence in numbers[np.isin(keys, changed)].tolist():
                now, then = index.parts(sequence), whole.parts(sequence)
                if not all(map(np.array_equal, now, then)):
                    yield sequence
        else:
            both = index.segments(numbers), whole.segments(numbers)
            yield from numbers[_differ(*both, len(numbers))].tolist()


def _differ(ours: Segments, theirs: Segments, count: int) -> Int64Array:
    """Return which sequences differ in their segments."""
    num_segments = [
        np.bincount(segments.sequence, minlength=count) for segments in (ours, theirs)
    ]
    differs = num_segments[0] != num_segments[1]
    ours, theirs = (
        Segments(*(column[~differs[segments.sequence]] for column in segments))
        for segments in (ours, theirs)
    )
    for our_column, their_column in zip(ours, theirs, strict=True):
        differs[ours.sequence[our_column != their_column]] = True
    return np.flatnonzero(differs)


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A stretch of a run between two resumes."""

    world_size: int
    """Number of ranks."""
    batch_size: int
    """Sequences per step on one rank."""
    steps: int | None = None
    """Steps until the run is stopped; None: to the end of the epoch."""


@dataclass(kw_only=True)
class Verification(Told):
    """Result of verifying an epoch."""

    epoch: int
    """The epoch followed."""
    num_sequences: int = 0
    """Sequences of the epoch, repeated ones of a mixture counted."""
    num_steps: int = 0
    """Steps, all legs together."""
    num_delivered: int = 0
    """Sequences delivered."""
    num_dropped: int = 0
    """Sequences left out by the last, incomplete step."""
    num_erased: int = 0
    """Documents that were erased."""
    changed: list[int] = field(default_factory=list)
    """Sequences that are not what they were before documents were erased."""
    problems: list[str] = field(default_factory=list)
    """Problems; empty if there are none."""
    is_mixture: bool = False
    """Whether sequences may come several times, or not at all."""

    def _parts(self) -> Iterator[Part]:
        """Yield what ``pagefeed verify`` shows."""
        yield (
            f"epoch {self.epoch}: {self.num_delivered:,} of {self.num_sequences:,} "
            f"sequences in {self.num_steps:,} steps, {self.num_dropped:,} dropped by "
            "the last, incomplete step"
        )
        if self.num_erased:
            changed = f"{len(self.changed):,} sequences are not as before"
            yield f"{self.num_erased:,} documents erased: {changed}"
        yield from (f"WRONG: {problem}" for problem in self.problems)
        if self.ok:
            times = "as often as it should be" if self.is_mixture else "exactly once"
            yield (
                f"each sequence that is not dropped is delivered {times}; all ranks "
                "take the same number of steps"
            )

    @property
    def ok(self) -> bool:
        """Whether every sequence was delivered as often as it should be."""
        return not self.problems


def verify(
    loader: Loader, legs: Sequence[Leg] | None = None, *, epoch: int = 0
) -> Verification:
    """Follow an epoch through stops and resumes on changing numbers of ranks.

    If documents were erased, all sequences are planned with and without them: the
    sequences that differ must be exactly those that held one.

    Args:
        loader: The run; its own rank does not matter.
        legs: What happens, in order; the last leg runs to the end. By default the
            loader's own world size and batch size, without a stop.
        epoch: Epoch to follow.

    Returns:
        The result; look at ``ok`` and ``problems``.

    Raises:
        InvalidArgumentError: If a leg other than the last has no number of steps, or
            there is no end.

    Example:
        >>> verify(loader, [  # doctest: +SKIP
        ...     Leg(world_size=8, batch_size=4, steps=1000),
        ...     Leg(world_size=6, batch_size=4),
        ... ]).ok
        True
    """
    check_counted(loader, "verify")
    if not legs:
        legs = [Leg(world_size=loader.world_size, batch_size=loader.batch_size)]
    if any(leg.steps is None for leg in legs[:-1]):
        raise InvalidArgumentError(
            "only the last leg may run to the end: give the others their steps"
        )
    session = loader.view()
    state = session.run.first_of(session.position.start)
    state = replace(state, epoch=epoch, first_epoch=epoch)
    runs = [_run_of(session.settings, leg) for leg in legs]
    now, begin = runs[0].rest(state, "next-epoch")
    cursor = now.at(begin)
    start, end = cursor.start, cursor.end
    if end is None:
        raise InvalidArgumentError(
            "this mixture never ends: give it stop, max_steps or max_tokens to follow"
        )
    seen = np.zeros(now.index.num_sequences, dtype=np.int64)
    is_mixture = loader.dataset.kind == "mixture"
    result, position = Verification(epoch=epoch, is_mixture=is_mixture), start
    with Work("verify", total=end - start, unit="sequences") as work:
        for index, (leg, run) in enumerate(zip(legs, runs, strict=True)):
            text = json.dumps(state.to_dict())
            try:
                saved = LoaderState.from_dict(json.loads(text))
                # If data were added, the run covers the rest of the epoch.
                now, begin = run.rest(saved, "next-epoch")
            except StateMismatchError as error:
                result.problems.append(f"leg {index} cannot load its state: {error}")
                break
            cursor = now.at(begin)
            # Steps of another size may end the epoch at another position.
            end = cursor.route.end or end
            work.expect(end - start)
            steps = _checked_steps(leg, index, cursor.route)
            position, state = _follow(now, begin, steps, seen, result, work)
    result.num_sequences = end - start
    result.num_delivered = int(seen.sum())
    result.num_dropped = end - position
    _judge_erasures(now, result)
    if isinstance(cursor, MixtureCursor):
        _judge_mixture(cursor, position, seen, result)
    else:
        _judge(seen, result, finished=legs[-1].steps is None)
    return result


def _judge_erasures(run: Run, result: Verification) -> None:
    """Compare the changed sequences with those that have erased documents."""
    starts = run.index.first_sequence.tolist()
    for first, index in zip(starts, run.indexes, strict=False):
        if index.erased is None:
            continue
        result.num_erased += index.erased.num_rows
        changed, erased = changed_sequences(index), index.erased_sequences()
        result.changed += (first + changed).tolist()
        wrong = np.setxor1d(changed, erased)
        if len(wrong):
            result.problems.append(
                f"{len(wrong)} sequences are wrong after the erasure: they held erased "
                "documents and did not change, or held none and changed, such as "
                f"{(first + wrong[:5]).tolist()}"
            )


def _run_of(settings: LoaderSettings, leg: Leg) -> Run:
    """Return the run of one epoch with the sizes of a leg, on rank 0."""
    whole = replace(settings, rank=0, epochs=1, batch_size=leg.batch_size)
    return make_run(replace(whole, world_size=leg.world_size))


def _checked_steps(leg: Leg, index: int, route: Route) -> int:
    """Return the steps of a leg, all of which the epoch must have."""
    left = route.num_steps or 0
    if leg.steps is not None and leg.steps > left:
        raise InvalidArgumentError(
            f"leg {index} has {leg.steps} steps of batch_size={leg.batch_size} x "
            f"world_size={leg.world_size} sequences, but only {left} are left of the "
            "epoch: stop earlier"
        )
    return left if leg.steps is None else leg.steps


def _follow(
    run: Run,
    begin: LoaderState,
    steps: int,
    seen: np.ndarray,
    result: Verification,
    work: Work,
) -> tuple[int, LoaderState]:
    """Mark what all ranks of a leg deliver; return the position and state after it."""
    taken = {}
    for rank in range(run.num_ranks):
        cursor = run.at(begin, rank=rank)
        chunk = max(1, CHUNK_SEQUENCES // run.batch_size)
        for first in range(0, steps, chunk):
            sequences = cursor.sequences(first, min(chunk, steps - first))
            unique, counts = np.unique(
                sequences[sequences != NO_SEQUENCE], return_counts=True
            )
            seen[unique] += counts
            work.advance(int(counts.sum()))
        route = cursor.route
        reached = route.position_after(steps), route.step_after(steps)
        taken[reached] = cursor.state_after(steps)
    if len(taken) != 1:
        result.problems.append(f"ranks disagree on position and step: {[*taken]}")
    result.num_steps += steps
    least = min(taken)
    return least[0], taken[least]


def _judge_mixture(
    track: MixtureCursor,
    position: int,
    seen: np.ndarray,
    result: Verification,
) -> None:
    """Compare deliveries of each dataset with the first sequences of its lanes."""
    following = track.course.following(position)
    num_lanes = following.shape[1]
    for dataset, component in enumerate(track.course.schedule.components):
        if component.name not in track.run.names:
            continue
        ours = track.run.names.index(component.name)
        first, stop = track.run.index.first_sequence[ours : ours + 2].tolist()
        # The lane that lags most bounds the whole epochs. Earlier epochs may have had
        # less data.
        after, grown = following[dataset], 0
        if component.before:
            grown = component.begin_of(component.before[-1].end)
        whole = max(0, int(after.min()) - grown) // component.num_sequences
        begin = grown + whole * component.num_sequences
        last = int(after.max())
        local = np.append(np.arange(min(grown, last)), np.arange(begin, last))
        local = local[local < after[local % num_lanes]]
        wanted = np.zeros(len(seen), dtype=np.int64)
        wanted[first:stop] = whole
        np.add.at(wanted, track.local_sequences(dataset, local), 1)
        named = np.equal([*map(str, track.run.names)], component.name)
        is_its = np.repeat(named, np.diff(track.run.index.first_sequence))
        wrong = np.flatnonzero((seen != wanted) & is_its)
        if len(wrong):
            result.problems.append(
                f"{len(wrong)} sequences of {component.name!r} are delivered more or "
                f"less often than they should be, such as {wrong[:5].tolist()}"
            )


def _judge(seen: np.ndarray, result: Verification, *, finished: bool) -> None:
    repeated = np.flatnonzero(seen > 1)
    if len(repeated):
        result.problems.append(
            f"{len(repeated)} sequences are delivered more than once, such as "
            f"{repeated[:5].tolist()}"
        )
    missing = int(np.count_nonzero(seen == 0))
    if finished and missing != result.num_dropped:
        result.problems.append(
            f"{missing} sequences are never delivered, {result.num_dropped} were "
            "to be dropped"
        )
