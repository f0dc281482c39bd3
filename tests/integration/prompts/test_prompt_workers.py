"""Workers read tickets in processes of their own, and are killed in the middle."""

import multiprocessing
import os
import signal
from multiprocessing.connection import wait
from typing import Any

import pytest

import pagefeed as pf
from made.prompts import ROWS, answer_tickets, queue_of

CONTEXT = multiprocessing.get_context("spawn")


class Worker:
    """A process, its pipe, and the tickets it has."""

    def __init__(self, queue: pf.PromptQueue) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(
            target=answer_tickets, args=(theirs, queue), daemon=True
        )
        self.process.start()
        theirs.close()
        self.tickets: list[Any] = []

    def kill(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


@pytest.mark.slow
def test_workers_on_pipes_are_killed(math):
    queue = queue_of(math, columns=["prompt"], epochs=1, max_in_flight=24)
    workers = [Worker(queue) for _ in range(3)]
    trained: list[str] = []
    kills = [100, 250, 400]
    while not queue.done:
        for worker in workers:
            if not worker.tickets and (tickets := queue.take(8)):
                worker.tickets = tickets
                worker.pipe.send(tickets)
        if kills and len(trained) >= kills[0]:
            kills.pop(0)
            next(worker for worker in workers if worker.tickets).kill()
        ready = wait([worker.pipe for worker in workers if worker.tickets], timeout=60)
        assert ready
        for number, worker in enumerate(workers):
            if worker.pipe not in ready:
                continue
            try:
                answers = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                queue.release(worker.tickets)
                workers[number] = Worker(queue)
                continue
            assert answers == [f"math {ticket.row}" for ticket in worker.tickets]
            queue.commit(worker.tickets)
            trained += answers
            worker.tickets = []
    for worker in workers:
        worker.kill()
    assert not kills
    assert sorted(trained) == sorted(f"math {row}" for row in range(ROWS))
