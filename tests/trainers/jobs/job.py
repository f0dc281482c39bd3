"""What the jobs share: where they run, what data they see, what they report.

A job is one rank of a training run in a framework, a process of its own. It trains a
tiny model on numbered tokens and writes what that model saw, step by step.
"""

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import torch

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
        torch.set_num_threads(1)

    def loader(self, **options: Any) -> pf.Loader:
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
        data = pf.parquet(self.folder / "data", column="input_ids")
        return pf.Loader(data, **settings | options)

    def report(self, name: str, value: Any) -> None:
        """Add to what the test reads; on the disk at once."""
        self._found[name] = value
        self._report.parent.mkdir(parents=True, exist_ok=True)
        self._report.write_text(json.dumps(self._found))

    def die(self) -> None:
        """End as if the machine had: no handler runs."""
        os.kill(os.getpid(), signal.SIGKILL)


class Seen:
    """First tokens of the rows that a model saw while training, step by step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.steps: list[list[int]] = []
        self._hook = model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if model.training:
            ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
            self.steps.append(ids.reshape(-1, LENGTH)[:, 0].tolist())

    def take(self) -> list[list[int]]:
        """The steps so far; the model is not watched any longer."""
        self._hook.remove()
        return self.steps


class Model(torch.nn.Module):
    """The smallest language model: its loss tells what it saw, and in what order."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.head = torch.nn.Linear(8, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.embedding(input_ids))[:, :-1]
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, 1:].flatten()
        )
