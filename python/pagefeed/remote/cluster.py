"""Tasks on the nodes of a Ray cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from pagefeed.core._base import logger, require
from pagefeed.errors import DataError

Common = TypeVar("Common")
Task = TypeVar("Task")
Done = TypeVar("Done")

SECONDS_BETWEEN = 1.0
SECONDS_TO_END = 30.0


def on_ray(
    run: Callable[[Common, Task], Done],
    common: Common,
    tasks: Iterable[Task],
    *,
    name: Callable[[Task], str],
    retries: int = 3,
    tick: Callable[[], object] = lambda: None,
) -> Generator[tuple[Task, Done]]:
    """Run ``run(common, task)`` for each task, on one CPU of a Ray cluster each.

    Close the generator (``contextlib.closing``): that ends the tasks which still run.

    Args:
        run: A function of a module that all nodes have.
        common: What all tasks need, sent to each node once.
        tasks: The tasks.
        name: Returns what a task works on, for messages.
        retries: How often a task runs again whose worker died.
        tick: Called at least once a second.

    Yields:
        Each task and its result, as they end. An exception of a task is raised here.

    Raises:
        MissingDependencyError: If Ray is not installed.
        DataError: If the worker of a task dies each time.
    """
    ray: Any = require("ray", extra="ray", purpose="engine='ray'")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    remote = ray.remote(num_cpus=1, max_retries=0)(run)
    shared = ray.put(common)
    waiting = {remote.remote(shared, task): task for task in tasks}
    deaths = Counter[Task]()
    try:
        while waiting:
            ended, _ = ray.wait([*waiting], timeout=SECONDS_BETWEEN)
            for future in ended:
                task = waiting.pop(future)
                try:
                    done = ray.get(future)
                except ray.exceptions.RayTaskError as problem:
                    raise problem.cause from None
                except ray.exceptions.RayError as problem:
                    deaths[task] += 1
                    said = str(problem).strip().partition("\n")[0]
                    if deaths[task] > retries:
                        raise DataError(
                            f"{name(task)}: the worker died {deaths[task]} times: "
                            f"{said}; look at its memory"
                        ) from None
                    logger.info("a worker died; %s again: %s", name(task), said)
                    waiting[remote.remote(shared, task)] = task
                else:
                    yield task, done
            tick()
    finally:
        for future in waiting:
            ray.cancel(future, force=True)
        if waiting:  # Wait until nothing writes any more.
            ray.wait([*waiting], num_returns=len(waiting), timeout=SECONDS_TO_END)
