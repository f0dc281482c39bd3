"""From what was measured to what limits, and which setting to change."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple, TypeAlias

from pagefeed._base import format_bytes
from pagefeed.loader import Loader, session_of
from pagefeed.mixture import Mixture
from pagefeed.reports.limits.evidence import Evidence

__all__ = ["Cause", "cause_of_data"]

Name: TypeAlias = Literal[
    "storage",
    "threads",
    "processors",
    "memory",
    "shuffle",
    "passes",
    "transform",
    "overhead",
]

TRANSFORM_SHARE = 0.5
RELOAD_SHARE = 0.25
BUSY_SHARE = 0.5
WAIT_SHARE = 0.3
START_SHARE = 0.3
SMALL_READ = 1 << 16


class Cause(NamedTuple):
    """Why batches come no faster."""

    name: Name
    """What it is."""
    setting: str
    """The setting to change."""
    advice: str
    """How, in a sentence."""


def cause_of_data(seen: Evidence, loader: Loader, *, alone: bool = True) -> Cause:
    """Return why a loader makes batches no faster, by what was seen of it.

    Args:
        seen: What was seen.
        loader: Of which loader.
        alone: Nothing but taking batches was done meanwhile.
    """
    waited = seen.wait_seconds + seen.transform_seconds
    if seen.transform_seconds > TRANSFORM_SHARE * waited:
        return _transform(seen)
    if seen.reload_share > RELOAD_SHARE:
        return _memory(seen, loader)
    is_ahead = alone and waited < WAIT_SHARE * seen.seconds
    busy = seen.busy_threads
    idles = busy is not None and busy < BUSY_SHARE * seen.num_threads
    if (is_ahead or idles) and seen.start_seconds > START_SHARE * seen.seconds:
        return _starts(seen, loader)
    if is_ahead:
        advice = (
            "the loader's threads are ahead; the time goes into the consumer's own "
            "steps: take larger batches"
        )
        return Cause("overhead", "batch_size", advice)
    return _storage(seen) if idles else _processors(seen, loader)


def _transform(seen: Evidence) -> Cause:
    each = seen.transform_seconds / max(1, seen.steps)
    advice = (
        f"the transform takes {each * 1e3:.1f} ms a step, in the thread that trains: "
        "make it faster, do its work ahead in the files, or run the loader in a worker "
        "process (pagefeed.torch.as_dataset with num_workers=1)"
    )
    return Cause("transform", "transform", advice)


def _starts(seen: Evidence, loader: Loader) -> Cause:
    setting = "max_epochs" if isinstance(loader.dataset, Mixture) else "epochs"
    share = seen.start_seconds / seen.seconds
    advice = (
        f"an iteration has {len(loader):,} steps, and {share:.0%} of the time is that "
        f"to their first batches, for which few threads have work: more {setting} in "
        "one iteration join without a gap"
    )
    return Cause("overhead", setting, advice)


def _memory(seen: Evidence, loader: Loader) -> Cause:
    share = f"{seen.reload_share:.0%} of the reads are of pages read before"
    if session_of(loader).run.source.is_scattered:
        advice = (
            f"{share}: shuffle={loader.shuffle.block or 'row'!r} reads a page for each "
            "sequence; take shuffle='page', or memory for all pages"
        )
        return Cause("shuffle", "shuffle", advice)
    advice = (
        f"{share}, for lack of memory: give more than memory="
        f"{format_bytes(loader.memory)}, or a smaller window; `pagefeed plan` says how "
        "much is needed"
    )
    return Cause("memory", "memory", advice)


def _storage(seen: Evidence) -> Cause:
    rate = format_bytes(seen.bytes_read / max(1e-9, seen.seconds))
    each = seen.bytes_read / max(1, seen.pages_loaded)
    waiting = (
        f"the threads wait for storage: {rate}/s in reads of {format_bytes(each)}, on "
        f"average {seen.busy_threads:.1f} of {seen.num_threads} threads work"
    )
    if each < SMALL_READ:
        advice = f"{waiting}; more threads keep more reads in flight, and larger pages"
        return Cause("storage", "num_threads", f"{advice} (data_page_size) need fewer")
    advice = f"{waiting}; bring the files nearer, or have more reads in flight by more"
    return Cause("storage", "num_threads", f"{advice} threads")


def _processors(seen: Evidence, loader: Loader) -> Cause:
    here = len(os.sched_getaffinity(0))
    if loader.shuffle.passes > 1:
        advice = (
            f"the threads are busy decoding, and passes={loader.shuffle.passes} reads "
            "every page as often: take fewer passes, or more num_threads"
        )
        return Cause("passes", "passes", advice)
    if session_of(loader).run.source.is_scattered:
        advice = (
            "the threads are busy decoding a page for each sequence: take "
            "shuffle='page', or memory for all pages"
        )
        return Cause("shuffle", "shuffle", advice)
    if seen.num_threads < here:
        advice = (
            f"all {seen.num_threads} threads are busy decoding and this machine has "
            f"{here} processors: give more num_threads"
        )
        return Cause("threads", "num_threads", advice)
    advice = (
        f"all {seen.num_threads} threads are busy decoding, as many as there are "
        "processors: give the loader more of them, or write files that decode with "
        "less work (`pagefeed inspect` says how)"
    )
    return Cause("processors", "num_threads", advice)
