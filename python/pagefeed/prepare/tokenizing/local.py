"""Runs tasks on threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from pagefeed.core._base import logger
from pagefeed.errors import FileAccessError
from pagefeed.prepare.jobs import ThreadedWork, run_threads
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.task import run_task, tasks_left


class InputWork(ThreadedWork):
    """Progress of a job in bytes of its inputs."""

    def __init__(self, job: Job, tasks: list[int]) -> None:
        # Weights are approximate where files are compressed, or have other columns.
        self._left = {
            task: sum(file_range.weight for file_range in job.tasks[task])
            for task in tasks
        }
        super().__init__("tokenizing", total=sum(self._left.values()), unit="bytes")

    def read(self, task: int, num_bytes: int) -> None:
        """Count bytes that a task has read; its thread calls it."""
        more = min(num_bytes, self._left[task])
        self._left[task] -= more
        self.count(more)

    def finish(self, task: int) -> None:
        """Count all bytes of a finished task."""
        self.read(task, self._left[task])


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
                    job, task, share, partial(work.read, task), stop.is_set
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
