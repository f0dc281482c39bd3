"""Whether data, compute or their overlap limits a training, and what to change."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from pagefeed._base import Work
from pagefeed.batches import Batch
from pagefeed.errors import InvalidArgumentError, PaddingWarning, ReloadWarning
from pagefeed.loader import Loader, session_of
from pagefeed.reports.limits.causes import Cause, cause_of_data
from pagefeed.reports.limits.evidence import Evidence, recording, wait_for_device
from pagefeed.reports.soundness import Damage, sound_batches

__all__ = ["Diagnosis", "diagnose", "doctor"]

Limit: TypeAlias = Literal["data", "compute", "overlap"]

FREE_SHARE = 0.15
"""Share of the time that may be lost before something is said to lose it."""
WARM_STEPS = 2


@dataclass(kw_only=True)
class Diagnosis:
    """What limits a training; as of a loader alone, what limits that."""

    limit: Limit | None = None
    """What steps wait for; None before anything was measured."""
    cause: str | None = None
    """Why: ``"storage"``, ``"threads"``, ``"processors"``, ``"memory"``, ``"shuffle"``,
    ``"passes"``, ``"transform"``, ``"overhead"``; None if compute limits."""
    setting: str | None = None
    """The setting to change."""
    advice: str = ""
    """How to change it."""
    lost_share: float = 0.0
    """Share of the training's time that is lost to it."""
    step_seconds: dict[str, float] = field(default_factory=dict)
    """Time of a step: ``"data"`` alone, ``"compute"`` alone, ``"both"`` together."""
    tokens_per_second: dict[str, float] = field(default_factory=dict)
    """Rates, likewise."""
    evidence: Evidence | None = None
    """What was seen of the loader."""
    damage: list[Damage] = field(default_factory=list)
    """What could not be read, and was passed over."""

    def __str__(self) -> str:
        lines = [
            f"{name:8} {1e3 * seconds:10.2f} ms a step"
            + (f"{rate:14,.0f} tokens/s" if rate else "")
            for name, seconds in self.step_seconds.items()
            for rate in [self.tokens_per_second.get(name)]
        ]
        if self.limit == "compute":
            lines.append("compute limits: the data is there when it is wanted")
        elif self.limit is not None:
            lost = f", {self.lost_share:.0%} of the time" if self.lost_share else ""
            lines.append(f"{self.limit} limits{lost}: {self.cause}")
            lines.append(f"change {self.setting}: {self.advice}")
        return "\n".join(lines)


def doctor(
    loader: Loader,
    train: Callable[[Batch], object] | None = None,
    *,
    seconds: float = 3.0,
) -> Diagnosis:
    """Find what limits a training, in three steps: data, compute, and both together.

    Works on a twin of the loader, which is left as it is.

    Args:
        loader: The run, of this rank.
        train: Does what a step does with a batch. What it leaves to a CUDA device is
            waited for; on other accelerators it must wait itself. None: only the
            loader is looked at.
        seconds: Time for each of the three.

    Raises:
        InvalidArgumentError: If ``seconds`` is no time, or there is no batch.

    Example:
        >>> doctor(loader, train, seconds=0.1).limit in ("data", "compute", "overlap")
        True
    """
    if not seconds > 0:
        raise InvalidArgumentError(f"seconds={seconds!r} must be more than 0")
    twin, found = copy.copy(loader), Diagnosis()
    batches = _Endless(twin, found.damage)
    with (
        Work("diagnosis", total=3 if train else 1, unit="measurements") as work,
        warnings.catch_warnings(),
    ):
        for kind in (PaddingWarning, ReloadWarning):
            warnings.simplefilter("ignore", kind)
        alone = _measure(twin, batches, None, seconds)
        work.advance()
        found.evidence = alone
        found.step_seconds["data"] = alone.step_seconds
        found.tokens_per_second["data"] = alone.tokens_per_second
        if train is None:
            return _limited(found, "data", cause_of_data(alone, twin), 0.0)
        step = _fixed(train, next(batches), seconds)
        work.advance()
        both = _measure(twin, batches, train, seconds)
        work.advance()
    found.step_seconds |= {"compute": step, "both": both.step_seconds}
    of_a_step = alone.tokens / max(1, alone.steps)
    found.tokens_per_second |= {
        "compute": of_a_step / max(1e-9, step),
        "both": both.tokens_per_second,
    }
    lost = 1 - step / both.step_seconds
    fetching = (both.wait_seconds + both.transform_seconds) / both.seconds
    if min(lost, fetching) < FREE_SHARE:
        found.limit, found.lost_share = "compute", max(0.0, min(lost, fetching))
        return found
    if both.transform_seconds > both.wait_seconds:
        # In the thread that trains: however fast the rest is, it is not hidden.
        limit: Limit = "data" if alone.step_seconds >= step else "overlap"
        return _limited(found, limit, cause_of_data(both, twin, alone=False), lost)
    if alone.step_seconds >= (1 - FREE_SHARE) * step:
        return _limited(found, "data", cause_of_data(alone, twin), lost)
    return _limited(found, "overlap", _of_overlap(), lost)


@contextmanager
def diagnose(loader: Loader) -> Iterator[Diagnosis]:
    """Watch a training inside a script, and say at the end what limited it.

    Args:
        loader: The loader whose batches the block takes.

    Yields:
        A diagnosis that is filled in when the block ends; print it.

    Example:
        >>> with diagnose(loader) as diagnosis:
        ...     for batch in loader:
        ...         train(batch)
        >>> print(diagnosis)  # doctest: +SKIP
    """
    session_of(loader)  # Of uncounted text nothing is known to compare with.
    found = Diagnosis()
    try:
        with recording(loader) as made:
            yield found
    finally:
        seen = made.evidence
        found.evidence = seen
        found.step_seconds["both"] = seen.step_seconds
        found.tokens_per_second["both"] = seen.tokens_per_second
        share = (seen.wait_seconds + seen.transform_seconds) / max(1e-9, seen.seconds)
        found.lost_share = share
        if seen.steps and share < FREE_SHARE:
            found.limit = "compute"
        elif seen.steps:
            cause = cause_of_data(seen, loader, alone=False)
            _limited(found, "data", cause, share)


def _limited(found: Diagnosis, limit: Limit, cause: Cause, lost: float) -> Diagnosis:
    found.limit, found.cause = limit, cause.name
    found.setting, found.advice = cause.setting, cause.advice
    found.lost_share = lost
    return found


def _of_overlap() -> Cause:
    advice = (
        "each alone is fast enough, together they are in each other's way: both use "
        "the same processors. Give the loader fewer num_threads if the training is the "
        "slower one of them, or keep cores free for it"
    )
    return Cause("processors", "num_threads", advice)


class _Endless(Iterator[Batch]):
    """Batches of one iteration after the other."""

    def __init__(self, loader: Loader, damage: list[Damage]) -> None:
        self._loader, self._damage = loader, damage
        self._batches: Iterator[Batch] = iter(())
        self.start_seconds = 0.0
        """Time to the first batch of each."""

    def __next__(self) -> Batch:
        """Return the next batch, if need be of the next iteration."""
        batch = next(self._batches, None)
        if batch is not None:
            return batch
        begin = time.perf_counter()
        self._batches = sound_batches(self._loader, self._damage)
        batch = next(self._batches, None)
        if batch is None:
            raise InvalidArgumentError("no batch can be read: see what is damaged")
        self.start_seconds += time.perf_counter() - begin
        return batch


def _measure(
    loader: Loader,
    batches: _Endless,
    train: Callable[[Batch], object] | None,
    seconds: float,
) -> Evidence:
    for _ in range(WARM_STEPS):
        batch = next(batches)
        if train is not None:
            train(batch)
    wait_for_device()
    before = batches.start_seconds
    with recording(loader) as made:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            batch = next(batches)
            if train is not None:
                train(batch)
    return replace(made.evidence, start_seconds=batches.start_seconds - before)


def _fixed(train: Callable[[Batch], object], batch: Batch, seconds: float) -> float:
    """Seconds of a step on one batch that is there."""
    held: dict[str, Any] = {
        name: value.copy() if hasattr(value, "copy") else value
        for name, value in batch.items()
    }
    for _ in range(WARM_STEPS):
        train(held)
    wait_for_device()
    begin = time.perf_counter()
    steps = 0
    while time.perf_counter() < begin + seconds:
        train(held)
        steps += 1
    wait_for_device()
    return (time.perf_counter() - begin) / steps
