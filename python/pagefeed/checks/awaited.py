"""Data, threads and functions that a batch waits for, in words."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from types import FrameType
from typing import Any

from pagefeed.core._base import format_bytes
from pagefeed.core.batches import AnyView, BatchIterator

MOST_PLACES = 3
"""Columns of files, and pages of each, that a message names."""
BETWEEN = ("pagefeed", "concurrent", "threading", "queue", "multiprocessing")
"""Packages whose functions are not the user's."""


def awaited_by(view: AnyView) -> str:
    """Return the end of a message about a wait: step, rank and what is missing."""
    told = list[str]()
    # The other thread may be in the middle of a change: what is not known is left out.
    with suppress(Exception):
        rank, world_size = view.rank_and_size
        told += [f" at step {view.position.now.step} on rank {rank} of {world_size}"]
    with suppress(Exception):
        told += _places(view)
    return "; ".join(told)


def _places(view: AnyView) -> Iterator[str]:
    """Yield what a view waits for, in words."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    # There is no other way to see where threads are.
    for ident, frame in sys._current_frames().items():  # noqa: SLF001
        is_own = names.get(ident, "pagefeed").startswith("pagefeed")
        if is_own or _is_waiting(view, ident, frame):
            user = _function_of_user(frame)
            name = "a thread of pagefeed" if is_own else "the loop's thread"
            yield from [f"{name} is in {user}"] if user else []
    awaited = view.awaited()
    if decoding := awaited.get("decoding"):
        yield f"{_counted(decoding, 'value')} being decoded"
    if num_pages := awaited.get("num_pages"):
        size = format_bytes(awaited["num_bytes"])
        places = _in_files(awaited["places"])
        yield f"it waits for {_counted(num_pages, 'page')}, {size}: {places}"
    num_threads, num_idle = awaited.get("workers", (0, 0))
    if num_threads:
        yield f"{num_threads - num_idle} of {num_threads} threads work"
    num_fetching, most = awaited.get("fetches", (0, 0))
    if most:
        yield f"{num_fetching} of {most} fetches are under way"
    if requests := awaited.get("storage/requests"):
        retries, now = awaited["storage/retries"], awaited["storage/in_flight"]
        told = f"{_counted(requests, 'request')} so far"
        yield f"{told}, {retries} tried again, {now} under way"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _in_files(places: list[tuple[Any, ...]]) -> str:
    """Return files with their columns and pages, in words."""
    found = list[str]()
    for (file, group, column), pages in groupby(places, lambda place: place[:3]):
        numbers = [str(page) for *_, page in pages]
        more = ", ..." if len(numbers) > MOST_PLACES else ""
        shown = ", ".join(numbers[:MOST_PLACES])
        found.append(f"{file}, row group {group}, column {column}, page {shown}{more}")
    if len(found) > MOST_PLACES:
        found[MOST_PLACES:] = [f"{len(found) - MOST_PLACES} more"]
    return " and ".join(found)


def _is_waiting(view: AnyView, ident: int, frame: FrameType | None) -> bool:
    """Return whether a thread is the one that waits for the view's batch."""
    if ident == view.waits.thread:
        return True
    while frame is not None:
        if frame.f_code is BatchIterator.__next__.__code__:
            return frame.f_locals.get("session") is view
        frame = frame.f_back
    return False


def _function_of_user(frame: FrameType | None) -> str | None:
    """Return the function of the user that runs in a thread, and its line."""
    user: FrameType | None = None
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in BETWEEN:
            break
        user, frame = frame, frame.f_back
    if user is None or frame is None:
        return None
    code = user.f_code
    return f"{code.co_qualname} ({code.co_filename}:{user.f_lineno})"
