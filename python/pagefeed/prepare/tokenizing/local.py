"""Runs tasks on threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Self

from pagefeed.core._base import Work, logger
from pagefeed.errors import FileAccessError
from pagefeed.prepare.jobs import run_threads
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.task import run_task, tasks_left


class InputWork:
    """Progress of a job in bytes of its inputs."""

    def __init__(self, job: Job, tasks: list[int]) -> None:
        self._weights = {
            task: sum(file_range.weight for file_range in job.tasks[task])
            for task in tasks
        }
        self._read = dict.fromkeys(tasks, 0)
        self._advanced = 0
        self._lock = threading.Lock()
        total = sum(self._weights.values())
        self._work = Work("tokenizing", total=total, unit="bytes")

    def __enter__(self) -> Self:
        self._work.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.tell()
        self._work.__exit__(*error)

    def advance(self, task: int, num_bytes: int) -> None:
        """Count bytes that a task has read; any thread may call it."""
        with self._lock:
            # The weight is approximate: of other columns, or of what is compressed.
            self._read[task] = min(self._read[task] + num_bytes, self._weights[task])

    def finish(self, task: int) -> None:
        """Count all bytes of a finished task."""
        self.advance(task, self._weights[task])

    def tell(self) -> None:
        """Report the progress; only one thread calls it."""
        with self._lock:
            read = sum(self._read.values())
        self._work.advance(read - self._advanced)
        self._advanced = read


def run_locally(job: Job, num_threads: int, retries: int) -> None:
    """Run all unfinished tasks, several at a time."""
    left = tasks_left(job)
    stop = threading.Event()
    running = 0
    lock = threading.Lock()

    def share() -> int:
        return max(1, num_threads // max(1, running))

    def run(task: int, work: InputWork) -> None:
        nonlocal running
        with lock:
            running += 1
        try:
            with_retries(
                retries,
                lambda: run_task(
                    job, task, share, partial(work.advance, task), stop.is_set
                ),
                stop.wait,
            )
            work.finish(task)
        finally:
            with lock:
                running -= 1

    with InputWork(job, left) as work:
        tasks = [partial(run, task, work) for task in left]
        run_threads(tasks, min(num_threads, len(left)), stop, work.tell)


def with_retries(
    retries: int, run: Callable[[], object], wait: Callable[[float], bool]
) -> None:
    """Run a task, and retry it from its last shard if a file cannot be used.

    Args:
        retries: Most retries.
        run: Runs the task.
        wait: Waits for seconds, and returns whether the job was cancelled.
    """
    for attempt in range(retries):
        try:
            run()
        except FileAccessError as problem:
            logger.info("a shard is tried again: %s", problem)
            if wait(2.0**attempt):
                raise
        else:
            return
    run()
