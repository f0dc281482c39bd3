"""Runs tasks on the nodes of a Ray cluster, which share files and folder."""

from __future__ import annotations

import time
from contextlib import closing

from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.local import InputWork, with_retries
from pagefeed.prepare.tokenizing.task import run_task, tasks_left
from pagefeed.remote import on_ray


def run_on_ray(job: Job, num_threads: int, retries: int) -> None:
    """Run all unfinished tasks on a Ray cluster, each on one CPU.

    If a node or worker dies, its task runs again elsewhere from its last finished
    shard.

    Args:
        job: The job.
        num_threads: Not used: a task encodes on one thread, and the cluster decides
            how many tasks run.
        retries: Most retries of a task if files cannot be used, or if its worker dies.

    Raises:
        DataError: If the worker of a task dies each time; names its inputs.
    """
    del num_threads
    left = tasks_left(job)

    def inputs_of(task: int) -> str:
        return ", ".join(dict.fromkeys(some.file for some in job.tasks[task]))

    with InputWork(job, left) as work:
        run = on_ray(
            *(_run, (job, retries), left),
            name=inputs_of,
            retries=retries,
            tick=work.tell,
        )
        with closing(run) as done:
            for task, _ in done:
                work.finish(task)


def _run(common: tuple[Job, int], task: int) -> None:
    """Run a task."""
    job, retries = common

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def run() -> None:
        run_task(job, task, lambda: 1, lambda _: None)

    with_retries(retries, run, wait)
