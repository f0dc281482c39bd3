"""What the jobs share: where they run, what data they see, what they report.

A job is one rank of a training run in a framework, a process of its own, on numbered
tokens; it writes what its model saw, step by step.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pagefeed as pf

LENGTH = 32
BATCH_SIZE = 4
VOCABULARY = 4096
SEED = 5


class Job:
    """The arguments of a job, and its report."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("folder", type=Path)
        parser.add_argument("report", type=Path)
        parser.add_argument("--options", type=json.loads, default={})
        arguments = parser.parse_args()
        self.folder: Path = arguments.folder
        self.options: dict[str, Any] = arguments.options
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self._report = arguments.report / f"rank-{self.rank}.json"
        self._found: dict[str, Any] = {}

    def loader(self, data: Any = None, **options: Any) -> pf.Loader:
        """A loader of the numbered tokens for this rank."""
        settings: dict[str, Any] = {
            "sequences": pf.Windows(LENGTH, tail="drop"),
            "batch_size": BATCH_SIZE,
            "seed": SEED,
            "memory": "8MiB",
            "num_threads": 1,
            "format": "torch",
            "fields": ("input_ids", "labels"),
            "rank": self.rank,
            "world_size": self.world_size,
        }
        if data is None:
            data = pf.parquet(self.folder / "data", column="input_ids")
        return pf.Loader(data, **settings | options)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Let frameworks read a dataset as they do where nothing refuses that."""
        module: Any = import_module("pagefeed.torch")
        guard = module.check_readers
        module.check_readers = lambda _: None
        try:
            yield
        finally:
            module.check_readers = guard

    def report(self, name: str, value: Any) -> None:
        """Add to what the test reads; on the disk at once."""
        self._found[name] = value
        self._report.parent.mkdir(parents=True, exist_ok=True)
        self._report.write_text(json.dumps(self._found))

    def leave_group(self) -> None:
        """End the group of the ranks, which no trainer does that began it.

        Its threads would end a process that exits before them.
        """
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()

    def die(self, *, behind_others: bool = False) -> None:
        """End as if the machine had: no handler runs.

        Args:
            behind_others: If rank 0, which would take them along, end after those that
                have reported; all must have, or will.
        """
        while behind_others and self.rank == 0:
            if len(list(self._report.parent.glob("rank-*"))) == self.world_size:
                time.sleep(1)
                break
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
