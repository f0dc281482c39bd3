"""Find what limits a training: data, compute or their overlap, and what to change."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from pagefeed.core._base import Work, check_positive, format_bytes, num_processors
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.errors import (
    BalanceWarning,
    InvalidArgumentError,
    PaddingWarning,
    ReloadWarning,
)
from pagefeed.mixture import Mixture
from pagefeed.reports.evidence import Evidence, recording, wait_for_device
from pagefeed.reports.gpu_copies import Copy, copy_of, seen_gpu
from pagefeed.reports.sampling import check_counted
from pagefeed.reports.soundness import Damage, sound_batches

Limit: TypeAlias = Literal["data", "compute", "overlap"]
Train: TypeAlias = Callable[[Batch], object]

WARM_STEPS = 2
FREE_SHARE = 0.15
"""A loss of less than this share of the time is not reported as a limit."""
TRANSFORM_SHARE, RELOAD_SHARE, BUSY_SHARE = 0.5, 0.25, 0.5
WAIT_SHARE, START_SHARE = 0.3, 0.3
SMALL_READ = 1 << 16


@dataclass(kw_only=True)
class Diagnosis:
    """The limit of a training; without a training step, of the loader."""

    limit: Limit | None = None
    """The limit of steps; None before anything was measured."""
    cause: str | None = None
    """Why: ``"storage"``, ``"threads"``, ``"processors"``, ``"memory"``, ``"shuffle"``,
    ``"passes"``, ``"transform"``, ``"overhead"``, ``"copy"``; None if compute limits.
    """
    setting: str | None = None
    """The setting to change."""
    advice: str = ""
    """Change to make to the setting."""
    lost_share: float = 0.0
    """Share of the training's time that is lost to it."""
    step_seconds: dict[str, float] = field(default_factory=dict)
    """Time of a step: ``"data"`` alone, ``"compute"`` alone, ``"both"`` together."""
    tokens_per_second: dict[str, float] = field(default_factory=dict)
    """Tokens a second, by the names of ``seconds``."""
    evidence: Evidence | None = None
    """Measurements of the loader."""
    copy: Copy | None = None
    """The copy of a batch to the accelerator; None without CUDA."""
    gpu: dict[str, float] = field(default_factory=dict)
    """Load of the GPU in training, as ``metrics(gpu=True)`` tells; empty if unknown."""
    wait_hours: dict[str, float] = field(default_factory=dict)
    """Hours of all accelerators that the whole training loses: ``"now"``, and ``"after
    the change"`` at best. Empty if its size was not given."""
    damage: list[Damage] = field(default_factory=list)
    """Pages that could not be read; their steps were skipped."""

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
        elif self.cause:
            lines.append(
                "only the loader was measured: give a training step to see whether the "
                "data limits (--train, --step-seconds)"
            )
            lines.append(f"for faster data, {self.setting}: {self.advice}")
        for name, hours in self.wait_hours.items():
            lines.append(f"waiting costs {hours:,.2f} accelerator hours {name}")
        lines += [f"{name} {value:,.2f}" for name, value in self.gpu.items()]
        return "\n".join(lines)

    def add(self, name: str, seen: Evidence) -> None:
        """Add the times and rates of a measurement under a name."""
        self.step_seconds[name] = seen.step_seconds
        self.tokens_per_second[name] = seen.tokens_per_second

    def blame(self, limit: Limit, cause: Cause, lost: float) -> None:
        """Set what limits, why, and the setting to change."""
        self.limit, self.lost_share = limit, lost
        self.cause, self.setting, self.advice = cause


class Cause(NamedTuple):
    """A cause of slow batches."""

    name: str
    setting: str
    """The setting to change."""
    advice: str
    """Advice on the setting, in a sentence."""


_ADVICE = """
transform | transform | transform | the transform takes {transform_ms:.1f} ms a step in
the training's thread: make it faster, do its work ahead in the files, or run the loader
in a worker process (pagefeed.torch.as_dataset with num_workers=1)

reloaded rows | shuffle | shuffle | {reloaded}: shuffle={shuffle!r} reads a page for
each sequence; take shuffle='page', or memory for all pages

reloaded pages | memory | memory | {reloaded}, for lack of memory: give more than
memory={memory}, or a smaller window; `pagefeed plan` says how much is needed

starts | overhead | {epochs} | iterations are short: {starts:.0%} of the time goes into
their first batches, for which few threads have work. Give more {epochs}: those of one
iteration join without a gap

consumer | overhead | batch_size | the loader's threads are ahead; the time goes into
the consumer's own steps: take larger batches

small reads | storage | num_threads | the threads wait for storage: {rate}/s in reads of
{each}, on average {busy:.1f} of {threads} threads work; more threads keep more reads in
flight, and larger pages (data_page_size) need fewer

reads | storage | num_threads | the threads wait for storage: {rate}/s in reads of
{each}, on average {busy:.1f} of {threads} threads work; bring the files nearer, or keep
more reads in flight with more threads

passes | passes | passes | the threads are busy decoding, and passes={passes} reads
every page as often: take fewer passes, or more num_threads

rows | shuffle | shuffle | the threads are busy decoding a page for each sequence: take
shuffle='page', or memory for all pages

threads | threads | num_threads | all {threads} threads are busy decoding and this
machine has {here} processors: give more num_threads

processors | processors | num_threads | all {threads} threads are busy decoding, as many
as there are processors: give the loader more of them, or write files that decode with
less work (`pagefeed inspect` says how)

copy | copy | on_device | copying a batch to the accelerator takes {copy_ms:.1f} ms a
step, from {memory_kind} memory, while it trains nothing: iterate over
pagefeed.torch.on_device(loader, device), and ask for pin_memory=True

overlap | processors | num_threads | each alone is fast enough, but together they
compete for the same processors. Give the loader fewer num_threads if the training is
the slower one, or keep cores free for it
"""
CAUSES = {
    key: Cause(*(" ".join(text.split()) for text in cause))
    for key, *cause in (text.split(" | ") for text in _ADVICE.strip().split("\n\n"))
}
"""All causes: name, the setting to change, and how to change it."""


def doctor(
    loader: Loader,
    train: Train | None = None,
    *,
    seconds: float = 3.0,
    accelerators: int | None = None,
    tokens: int | None = None,
) -> Diagnosis:
    """Measure data alone, compute alone and both together, and say what limits.

    The measurements use a copy of the loader. The loader itself does not move.

    Args:
        loader: The run, of this rank.
        train: A function that does one training step with a batch. The doctor waits for
            its pending CUDA work; on other accelerators the function
            must wait itself. Without it only the loader is measured.
        seconds: Time for each of the three measurements.
        accelerators: Accelerators of the whole training, for the hours that waiting
            costs.
        tokens: Tokens of the whole training, on all ranks.

    Raises:
        InvalidArgumentError: If a number is not positive, only one of ``accelerators``
            and ``tokens`` is given or neither goes with ``train``, or no batch can be
            read.

    Example:
        >>> doctor(loader, train, seconds=0.1).limit in ("data", "compute", "overlap")
        True
    """
    if not seconds > 0:
        raise InvalidArgumentError(f"seconds={seconds!r} must be more than 0")
    size = _checked_size(accelerators, tokens, train)
    twin, diagnosis = copy.copy(loader), Diagnosis()
    batches = _Endless(twin, diagnosis.damage)
    with (
        Work("diagnosis", total=3 if train else 1, unit="measurements") as work,
        warnings.catch_warnings(),
    ):
        for kind in (BalanceWarning, PaddingWarning, ReloadWarning):
            warnings.simplefilter("ignore", kind)
        diagnosis.evidence = alone = _measure(
            twin, batches, train=None, seconds=seconds
        )
        diagnosis.add("data", alone)
        work.advance()
        if train is None:
            diagnosis.cause, diagnosis.setting, diagnosis.advice = cause_of_data(
                alone, twin
            )
            return diagnosis
        step = _step_seconds(train, next(batches), seconds)
        diagnosis.step_seconds["compute"] = step
        diagnosis.tokens_per_second["compute"] = alone.tokens / alone.steps / step
        work.advance()
        both = _measure(twin, batches, train=train, seconds=seconds)
        diagnosis.add("both", both)
        diagnosis.gpu = seen_gpu()
        diagnosis.copy = copy_of(next(batches))
        work.advance()
    lost = 1 - step / both.step_seconds
    fetching = (both.wait_seconds + both.transform_seconds) / both.seconds
    is_slower = alone.step_seconds >= (1 - FREE_SHARE) * step
    if min(lost, fetching) < FREE_SHARE:
        diagnosis.limit, diagnosis.lost_share = "compute", max(0.0, min(lost, fetching))
    elif both.transform_seconds > both.wait_seconds:
        # A transform runs in the training's own thread: nothing hides its time.
        limit: Limit = "data" if alone.step_seconds >= step else "overlap"
        diagnosis.blame(limit, cause_of_data(both, twin, alone=False), lost)
    elif is_slower:
        diagnosis.blame("data", cause_of_data(alone, twin), lost)
    else:
        diagnosis.blame("overlap", CAUSES["overlap"], lost)
    if diagnosis.limit == "compute" and diagnosis.copy is not None:
        _blame_copy(diagnosis, diagnosis.copy, both.step_seconds)
    diagnosis.wait_hours = _hours(diagnosis, both, twin, size)
    return diagnosis


def _checked_size(
    accelerators: int | None, tokens: int | None, train: Train | None
) -> tuple[int, int] | None:
    """Return accelerators and tokens of a training, checked; None if not given."""
    if accelerators is None and tokens is None:
        return None
    if train is None:
        raise InvalidArgumentError("accelerators and tokens need a step: give train")
    return (
        check_positive(accelerators, "accelerators (which goes with tokens)"),
        check_positive(tokens, "tokens (which goes with accelerators)"),
    )


def _hours(
    diagnosis: Diagnosis, both: Evidence, loader: Loader, size: tuple[int, int] | None
) -> dict[str, float]:
    """Return the hours of all accelerators that waiting costs, before and after."""
    if size is None:
        return {}
    accelerators, tokens = size
    steps = tokens / max(1, both.tokens / max(1, both.steps) * loader.world_size)
    hours = steps * both.step_seconds * accelerators / 3600
    costs = {"now": hours * diagnosis.lost_share}
    if diagnosis.cause is not None:
        costs["after the change"] = hours * _share_after(diagnosis, both, loader)
    return costs


def _blame_copy(diagnosis: Diagnosis, copied: Copy, step_seconds: float) -> None:
    """Name the copy of a batch, if the accelerator waits long for it."""
    if (share := copied.seconds / step_seconds) < FREE_SHARE:
        return
    kind = "page-locked" if copied.is_pinned else "pageable"
    name, setting, advice = CAUSES["copy"]
    advice = advice.format(copy_ms=1e3 * copied.seconds, memory_kind=kind)
    diagnosis.blame("overlap", Cause(name, setting, advice), share)


def _share_after(diagnosis: Diagnosis, both: Evidence, loader: Loader) -> float:
    """Return the share of time that is lost if the advice is followed, at best."""
    data, step = (diagnosis.step_seconds[name] for name in ("data", "compute"))
    better = {
        "transform": both.transform_seconds / max(1, both.steps),
        "memory": data * both.pages_reloaded / max(1, both.pages_loaded),
        "passes": data * (1 - 1 / loader.shuffle.passes),
        "threads": data * max(0.0, 1 - both.num_threads / num_processors()),
    }
    if diagnosis.cause not in better:  # All of it may go.
        return 0.0
    lost = diagnosis.lost_share * both.step_seconds
    left = max(0.0, lost - better[diagnosis.cause])
    return min(diagnosis.lost_share, left / (step + left))


@contextmanager
def diagnose(loader: Loader) -> Iterator[Diagnosis]:
    """Measure a training inside a script, and say at the end what limited it.

    Args:
        loader: The loader whose batches the block takes.

    Yields:
        A diagnosis that is filled in when the block ends; print it then.

    Example:
        >>> with diagnose(loader) as diagnosis:
        ...     for batch in loader:
        ...         train(batch)
        >>> print(diagnosis)  # doctest: +SKIP
    """
    check_counted(loader, "diagnose")
    diagnosis, records = Diagnosis(), list[Evidence]()
    try:
        with recording(loader, records):
            yield diagnosis
    finally:
        for evidence in records:
            diagnosis.evidence = evidence
            diagnosis.add("both", evidence)
            waited = evidence.wait_seconds + evidence.transform_seconds
            diagnosis.lost_share = waited / max(1e-9, evidence.seconds)
            if evidence.steps and diagnosis.lost_share < FREE_SHARE:
                diagnosis.limit = "compute"
            elif evidence.steps:
                cause = cause_of_data(evidence, loader, alone=False)
                diagnosis.blame("data", cause, diagnosis.lost_share)


def cause_of_data(seen: Evidence, loader: Loader, *, alone: bool = True) -> Cause:
    """Return what keeps a loader from making batches faster.

    Args:
        seen: Measurements of the loader.
        loader: The loader.
        alone: Whether the consumer did nothing but take batches.
    """
    waited = seen.wait_seconds + seen.transform_seconds
    is_scattered = loader.view().run.shuffle.is_exact
    reloaded = seen.pages_reloaded / max(1, seen.pages_loaded)
    is_ahead = alone and waited < WAIT_SHARE * seen.seconds
    busy = seen.num_threads if seen.busy_threads is None else seen.busy_threads
    processors = num_processors()
    # More threads than processors cannot all be busy.
    are_idle = busy < BUSY_SHARE * min(seen.num_threads, processors)
    starts = seen.start_seconds / max(1e-9, seen.seconds)
    read_bytes = seen.bytes_read / max(1, seen.pages_loaded)
    applies = {
        "transform": seen.transform_seconds > TRANSFORM_SHARE * waited,
        "reloaded rows": reloaded > RELOAD_SHARE and is_scattered,
        "reloaded pages": reloaded > RELOAD_SHARE,
        "starts": (is_ahead or are_idle) and starts > START_SHARE,
        "consumer": is_ahead,
        "small reads": are_idle and read_bytes < SMALL_READ,
        "reads": are_idle,
        "passes": loader.shuffle.passes > 1,
        "rows": is_scattered,
        "threads": seen.num_threads < processors,
        "processors": True,
    }
    name, setting, advice = CAUSES[next(key for key, so in applies.items() if so)]
    epochs = "max_epochs" if isinstance(loader.dataset, Mixture) else "epochs"
    values = {
        "transform_ms": 1e3 * seen.transform_seconds / max(1, seen.steps),
        "reloaded": f"{reloaded:.0%} of the reads are of pages read before",
        "rate": format_bytes(seen.bytes_read / max(1e-9, seen.seconds)),
        "each": format_bytes(read_bytes),
        "memory": format_bytes(loader.memory),
        "shuffle": loader.shuffle.block or "row",
        "passes": loader.shuffle.passes,
        "threads": seen.num_threads,
    }
    values |= {"starts": starts, "busy": busy, "here": processors, "epochs": epochs}
    return Cause(name, setting.format(**values), advice.format(**values))


class _Endless(Iterator[Batch]):
    """The batches of consecutive iterations."""

    def __init__(self, loader: Loader, damage: list[Damage]) -> None:
        self._loader, self._damage = loader, damage
        self._batches: Iterator[Batch] = iter(())
        self.start_seconds = 0.0
        """Seconds to the first batches of all iterations."""

    def __next__(self) -> Batch:
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
    loader: Loader, batches: _Endless, *, train: Train | None, seconds: float
) -> Evidence:
    """Take batches for some seconds, and train on them if a step is given."""
    train = train or (lambda _: None)
    for _ in range(WARM_STEPS):
        train(next(batches))
    wait_for_device()
    before, records = batches.start_seconds, list[Evidence]()
    with recording(loader, records):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            train(next(batches))
    return replace(records[0], start_seconds=batches.start_seconds - before)


def _step_seconds(train: Train, batch: Batch, seconds: float) -> float:
    """Return the seconds of a training step on a batch in memory."""
    copied: dict[str, Any] = {
        name: value.copy() if hasattr(value, "copy") else value
        for name, value in batch.items()
    }
    for _ in range(WARM_STEPS):
        train(copied)
    wait_for_device()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        train(copied)
        steps += 1
    wait_for_device()
    return (time.perf_counter() - begin) / steps
