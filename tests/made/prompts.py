"""Queues of prompts, on small files."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.run import Ticket

ROWS = 500


def write(folder: Path, name: str, rows: int = ROWS) -> pf.dataset.ParquetDataset:
    table = pa.table(
        {
            "prompt": [f"{name} {row}" for row in range(rows)],
            "level": [row % 5 for row in range(rows)],
            "turns": [[{"role": "user", "content": str(row)}] for row in range(rows)],
        }
    )
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=64)
    return pf.parquet(path, column="prompt")


def queue_of(data, **settings: Any) -> pf.PromptQueue:
    return pf.PromptQueue(data, **{"seed": 1, "max_in_flight": 64, **settings})


def taken(queue: pf.PromptQueue, count: int) -> list[Ticket]:
    """Take tickets one after another, each committed at once."""
    tickets: list[Ticket] = []
    while len(tickets) < count and (some := queue.take(7)):
        queue.commit(some)
        tickets += some
    return tickets[:count]


def saved(queue: pf.PromptQueue) -> Any:
    return json.loads(json.dumps(queue.state_dict()))


def answer_tickets(pipe: Any, queue: pf.PromptQueue) -> None:
    """Answer tickets; some answers take longer than the worker lives.

    It stands here since a spawned process imports no module of tests.
    """
    while True:
        tickets = pipe.recv()
        rows = queue.read(tickets)
        time.sleep(0.001 * (tickets[0].row % 7))
        pipe.send([row["prompt"] for row in rows])
