"""How busy the loader's threads are: sampled, so that other load does not matter.

A thread that runs, or waits for a processor, is busy; one that waits for storage or for
work is not. How long it ran would say less: on a busy machine it is not for lack of
work that it did not.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["ThreadSampler"]

NAME = "pagefeed"
"""How the names of the engine's threads begin."""
SECONDS_BETWEEN = 0.005
TASKS = "/proc/self/task"


class ThreadSampler:
    """Samples the engine's threads in the background, as a context manager.

    Where the system does not tell of threads, as only Linux does, nothing is known.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")
        self._busy = self._samples = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    @property
    def mean_busy(self) -> float | None:
        """Mean number of threads that were busy; None if it is not known."""
        return self._busy / self._samples if self._samples else None

    def _run(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN):
            states = _states()
            if states:
                self._busy += states.count("R")
                self._samples += 1


def _states() -> list[str]:
    """State of each thread of the engine, as one letter."""
    found = []
    with suppress(OSError):
        for task in os.listdir(TASKS):
            with suppress(OSError), open(f"{TASKS}/{task}/stat") as stat:
                # The name is in brackets, and may hold any others.
                before, _, rest = stat.read().rpartition(")")
                if before.partition("(")[2].startswith(NAME):
                    found.append(rest.split()[0])
    return found
