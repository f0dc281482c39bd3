"""Jobs started as a launcher would: a process for each rank, their reports read."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError

TESTS = Path(__file__).resolve().parent.parent
JOBS = TESTS / "trainers" / "jobs"
LENGTH = 32
NUM_SEQUENCES = 112
"""Of one epoch: 14 steps of 2 ranks, 28 of one."""


def write_data(folder: Path) -> None:
    """Numbered tokens, rows of many lengths: exactly so many sequences."""
    rng = np.random.default_rng(3)
    cuts = np.sort(rng.choice(NUM_SEQUENCES * LENGTH - 1, 150, replace=False)) + 1
    tokens = np.arange(1, NUM_SEQUENCES * LENGTH + 1)
    rows = [part.tolist() for part in np.split(tokens, cuts)]
    (folder / "data").mkdir(parents=True)
    for number, part in enumerate((rows[:70], rows[70:])):
        table = pa.table({"input_ids": pa.array(part, pa.list_(pa.int32()))})
        path = folder / "data" / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=20)


def make_loader(folder: Path, **options: Any) -> pf.Loader:
    """A loader of the numbered tokens, for a test that needs no ranks."""
    settings: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH, tail="drop"),
        "batch_size": 4,
        "seed": 5,
        "format": "torch",
        "fields": ("input_ids", "labels"),
        "rank": 0,
        "world_size": 1,
        "num_threads": 1,
    }
    data = pf.parquet(folder / "data", column="input_ids")
    return pf.Loader(data, **settings | options)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def run_job(
    name: str, folder: Path, *, world_size: int, expect: int = 0, **options: Any
) -> list[dict[str, Any]]:
    """Run a job on all ranks; returns the report of each."""
    report = folder / f"report-{len(list(folder.glob('report-*')))}"
    shared = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join((str(JOBS), os.environ.get("PYTHONPATH", ""))),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, str(JOBS / f"run_{name}.py"), str(folder), str(report)]
    command += ["--options", json.dumps(options)]
    processes = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world_size)
    ]
    try:
        printed = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, printed, strict=True):
        assert process.returncode == expect, text
    return [
        json.loads(path.read_text()) if path.exists() else {}
        for path in (report / f"rank-{rank}.json" for rank in range(world_size))
    ]


def refuses_all(wrong: dict[str, Callable[[], Any]]) -> None:
    """Every call is refused in words that hold those it goes by."""
    for words, call in wrong.items():
        with pytest.raises(InvalidArgumentError, match=re.escape(words)):
            call()


def flat(steps: list[list[int]]) -> list[int]:
    """The rows of steps, one after the other."""
    return [row for step in steps for row in step]


def all_rows(
    reports: list[dict[str, Any]], run: str, first: int, stop: int
) -> list[int]:
    """Rows that all ranks together saw in some steps of a run, sorted."""
    return sorted(row for one in reports for row in flat(one[run]["seen"][first:stop]))


EPOCH = [1 + LENGTH * number for number in range(NUM_SEQUENCES)]
"""First tokens of all sequences."""
