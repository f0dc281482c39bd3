"""Runs tasks on the nodes of a Ray cluster, which share files and folder."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing

from pagefeed.core._base import logger
from pagefeed.errors import DataError
from pagefeed.prepare.tokenizing.folder import JobFolder
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
        retries: Most retries of a task if files cannot be used, or if its worker dies
            before it finishes another shard.

    Raises:
        DataError: If the worker of a task dies each time; names its input.
    """
    del num_threads
    left, folder = tasks_left(job), JobFolder(job.folder)
    deaths = Counter[tuple[int, int]]()

    def died(task: int, said: str) -> None:
        """Count deaths since the last finished shard; raise if they are too many."""
        shards = folder.shards(task)
        task_and_shard = task, len(shards)
        deaths[task_and_shard] += 1
        begin = (0, 0) if not shards else shards[-1].next or (0, 0)
        ranges = job.tasks[task][begin[0] :]
        names = ", ".join(dict.fromkeys(file_range.file for file_range in ranges))
        if deaths[task_and_shard] <= retries:
            logger.info("a worker died and %s is tried again: %s", names, said)
            return
        raise DataError(
            f"{names}: the worker that tokenizes it died {deaths[task_and_shard]} "
            f"times at the same place: {said}; look at its memory, or tokenize the "
            "file by itself"
        ).at(file=ranges[0].file)

    with InputWork(job, left) as work:
        run = on_ray(_run, (job, retries), left, died=died, tick=work.tell)
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
