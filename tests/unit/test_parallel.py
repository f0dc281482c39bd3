"""Work on threads, in order."""

import os
import threading
from typing import Any

import pytest

from pagefeed.core._base.progress import in_order, num_processors
from pagefeed.core.ranks import resolve_threads
from pagefeed.reports import nodes


@pytest.mark.parametrize("num_started", [0, 1, 99])
def test_where_threads_cannot_be_started_the_caller_works(
    monkeypatch: pytest.MonkeyPatch, num_started: int
):
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> Any:
        started.append(thread)
        if len(started) > num_started:
            raise RuntimeError("can't start new thread")
        return start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    this_process = {0: range(4)}
    monkeypatch.setattr("os.sched_getaffinity", this_process.__getitem__)
    assert list(in_order(str, range(50))) == [str(number) for number in range(50)]


def test_systems_without_affinity_have_the_processors_of_the_machine(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert num_processors() == resolve_threads(None) == 7


def test_systems_that_hide_their_free_memory_say_what_they_have(monkeypatch):
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    known = dict(os.sysconf_names)
    known.pop("SC_AVPHYS_PAGES")
    monkeypatch.setattr("os.sysconf_names", known)

    def absent(path, *_, **__):
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", absent)
    assert nodes._memory() == has
