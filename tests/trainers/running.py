"""Jobs started as a launcher would: a process for each rank, their reports read."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import launched
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
    """Run a script on all ranks, forked from a process that has the framework."""
    options: dict[str, Any] = {"world_size": world_size, "expect": expect}
    return launched.launch(argv, folder, imports=IMPORTS, **options)


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
