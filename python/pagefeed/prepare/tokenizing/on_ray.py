"""Tasks on the nodes of a Ray cluster, which share the files and the folder."""

from __future__ import annotations

import time
from typing import Any

from pagefeed._base import require
from pagefeed.prepare.tokenizing.folder import JobFolder
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.local import TokenWork, with_retries
from pagefeed.prepare.tokenizing.task import is_done, run_task

__all__ = ["run_on_ray"]

SECONDS_BETWEEN = 1.0


def run_on_ray(job: Job, num_threads: int, retries: int) -> None:
    """Run all tasks that are left, each on a CPU of the cluster.

    A task whose node dies is run again elsewhere, from its last finished shard.

    Args:
        job: What is to be done.
        num_threads: Tasks at a time for each CPU of this machine are decided by the
            cluster; a task encodes on one thread, so that this is not used.
        retries: How often a task is tried again where files cannot be used.
    """
    del num_threads
    ray: Any = require("ray", extra="ray", purpose="engine='ray'")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    folder = JobFolder(job.folder)
    left = [task for task in range(len(job.tasks)) if not is_done(folder, task)]
    remote = ray.remote(num_cpus=1, max_retries=-1)(_run)
    shared = ray.put(job)
    waiting = {remote.remote(shared, task, retries): task for task in left}
    with TokenWork(job, left) as work:
        try:
            while waiting:
                done, _ = ray.wait([*waiting], timeout=SECONDS_BETWEEN)
                for one in done:
                    task = waiting.pop(one)
                    work.advance(task, *ray.get(one))
                    work.finish(task)
                work.tell()
        finally:
            for one in waiting:
                ray.cancel(one, force=True)


def _run(job: Job, task: int, retries: int) -> tuple[int, int]:
    """Run a task; returns bytes of text and tokens."""
    counts = [0, 0]

    def advance(num_bytes: int, num_tokens: int) -> None:
        counts[0] += num_bytes
        counts[1] += num_tokens

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    with_retries(retries, lambda: run_task(job, task, lambda: 1, advance), wait)
    return counts[0], counts[1]
