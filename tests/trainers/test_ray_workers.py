"""Ray actors answer prompts of a queue, and are killed while they do."""

import os
import signal
import time
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

import ray

import pagefeed as pf
from made.prompts import ROWS, queue_of, write


@ray.remote(num_cpus=0)  # By value: actors cannot import this module.
class Worker:
    """Reads tickets with a copy of the queue, and is slow."""

    def __init__(self, queue: pf.PromptQueue) -> None:
        self._queue = queue

    def pid(self) -> int:
        return os.getpid()

    def answer(self, tickets: Any) -> list[str]:
        time.sleep(0.005 * (tickets[0].row % 5))
        return [row["prompt"] for row in self._queue.read(tickets)]


def start(queue: pf.PromptQueue) -> Any:
    return Worker.remote(queue)  # type: ignore[attr-defined]


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_actors_are_killed(tmp_path):
    queue = queue_of(
        write(tmp_path, "math"), columns=["prompt"], epochs=1, max_in_flight=40
    )
    workers = [start(queue) for _ in range(3)]
    flying: dict[Any, tuple[int, Any]] = {}
    kills, num_died = [150, 350], 0
    trained: list[str] = []
    while not queue.done:
        busy = {number for number, _ in flying.values()}
        for number, worker in enumerate(workers):
            if number not in busy and (tickets := queue.take(8)):
                flying[worker.answer.remote(tickets)] = number, tickets
        if kills and len(trained) >= kills[0]:
            kills.pop(0)
            number = next(iter(flying.values()))[0]
            os.kill(ray.get(workers[number].pid.remote()), signal.SIGKILL)
        [done], _ = ray.wait([*flying], num_returns=1, timeout=120)
        number, tickets = flying.pop(done)
        try:
            answers = ray.get(done)
        except ray.exceptions.RayActorError:
            num_died += 1
            queue.release(tickets)
            workers[number] = start(queue)
            continue
        queue.commit(tickets)
        trained += answers
    assert sorted(trained) == sorted(f"math {row}" for row in range(ROWS))
    assert not kills
    assert queue.counts[""] == {"taken": ROWS, "committed": ROWS, "dropped": 0}
    assert num_died <= 2
