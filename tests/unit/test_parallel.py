"""Work on threads, in order."""

import threading
from typing import Any

import pytest

from pagefeed.core._base.parallel import in_order


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
