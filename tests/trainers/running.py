"""Jobs started as a launcher would: a process for each rank, their reports read."""

import json
import multiprocessing
import os
import re
import runpy
import socket
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import mkstemp
from typing import Any
from unittest.mock import patch

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
ADAPTERS = (
    *("accelerate", "deepspeed", "jax", "lightning", "megatron", "olmo"),
    *("torchtitan", "transformers"),
)
"""Those that have a job of their own for features and policies."""
IMPORTS = (
    *(
        "accelerate",
        "deepspeed",
        "jax",
        "lightning",
        "megatron.core",
        "olmo_core.train",
    ),
    *("torchtitan.trainer", "transformers.trainer", "trl.trainer.sft_trainer"),
)
"""What the jobs of all environments import; each has some of them."""
BEFORE_IMPORTS = {
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    "PYTHONWARNINGS": "ignore",
}


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


def make_loader(folder: Path, data: Any = None, **options: Any) -> pf.Loader:
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
    if data is None:
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
    argv = [str(JOBS / f"run_{name}.py"), str(folder), str(report)]
    argv += ["--options", json.dumps(options)]
    launch(argv, folder, world_size=world_size, expect=expect)
    return [
        json.loads(path.read_text()) if path.exists() else {}
        for path in (report / f"rank-{rank}.json" for rank in range(world_size))
    ]


def launch(argv: list[str], folder: Path, *, world_size: int, expect: int = 0) -> str:
    """Run a script on all ranks as torchrun does; returns what they print.

    Ranks are forked from a process that has imported the framework: some take longer
    to be imported than their tests do.
    """
    shared = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(free_port()),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["trainers.running", *IMPORTS])
    with patch.dict(os.environ, BEFORE_IMPORTS):
        forkserver.ensure_running()
    outputs = [Path(mkstemp(dir=folder, suffix=".txt")[1]) for _ in range(world_size)]
    processes = [
        forks.Process(
            target=run_rank,
            args=(argv, folder, output),
            kwargs=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, output in enumerate(outputs)
    ]
    try:
        for process in processes:
            process.start()
        while running := [each for each in processes if each.exitcode is None]:
            assert wait([each.sentinel for each in running], 600), "timed out"
            if any(each.exitcode not in (None, expect) for each in running):
                break  # The others might wait for it.
    finally:
        for process in processes:
            process.kill()
            process.join()
    printed = "".join(output.read_text() for output in outputs)
    codes = [process.exitcode for process in processes]
    assert codes == [expect] * world_size, f"{codes}\n{printed}"
    return printed


def run_rank(argv: list[str], folder: Path, output: Path, **environment: str) -> None:
    """Run a script in this process, which is one rank."""
    multiprocessing.set_start_method("fork", force=True)  # Not as this one started.
    os.environ.update(environment)
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    runpy.run_path(argv[0], run_name="__main__")


def shown_block(title: str, every: int) -> str:
    """The code under a heading of the guide to mixtures that learn; it runs here."""
    page = TESTS.parent / "docs" / "explanation" / "learning-mixtures.md"
    code = page.read_text().split(f"### {title}\n")[1].split("```py\n")[1]
    return code.split("```")[0].replace("every=100", f"every={every}")


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


class Told:
    """What ranks that come and go wrote down: step, rank, ranks, time and ids."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[list[Any]] = [
            json.loads(line)
            for path in folder.glob("ids-*.jsonl")
            for line in path.read_text().splitlines()
            if line.endswith("]]")
        ]

    @property
    def steps(self) -> list[int]:
        """All steps, rising."""
        return sorted({step for step, *_ in self.lines})

    def world_sizes(self, since: float = 0.0) -> set[int]:
        """Numbers of ranks that trained since a time."""
        return {size for _, _, size, at, _ in self.lines if at > since}

    def ids(self, step: int) -> list[int]:
        """The ids of a step, of the ranks that took it last, sorted."""
        last = sorted(line[3:] + line[1:3] for line in self.lines if line[0] == step)
        parts = {rank: ids for _, ids, rank, size in last if size == last[-1][-1]}
        return sorted(each for ids in parts.values() for each in ids)
