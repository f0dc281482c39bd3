"""A replica group of one process that trains in a quorum of torchft.

It writes down which sequences it is about to train on, before their gradients are
added up, and what was committed. Weights are float64.
"""

import argparse
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from torchft import Manager, ProcessGroupGloo

from pagefeed.integrations.torchft import QuorumFeed
from trainers.fleet import LENGTH, gradient, make_loader

PAUSE = 0.05
"""Seconds of a step, so that members die within one."""


def train(folder: Path, name: str, num_steps: int) -> None:
    """Train until the quorum has committed so many steps."""
    weights = torch.zeros(LENGTH, dtype=torch.float64)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=4)),
        min_replica_size=2,
        init_sync=False,
        load_state_dict=lambda state: weights.copy_(state["weights"]),
        state_dict=lambda: {"weights": weights.clone()},
        replica_id=name,
        timeout=timedelta(seconds=4),
        quorum_timeout=timedelta(seconds=20),
    )
    feed = QuorumFeed(manager, make_loader(folder))
    log = (folder / f"{name}-{os.getpid()}.jsonl").open("a")
    while manager.current_step() < num_steps:
        manager.start_quorum()
        batch = feed.batch()
        step = manager.current_step()
        total = torch.zeros_like(weights)
        ids: list[int] = []
        if batch is not None:
            ids = batch["input_ids"][:, 0].tolist()
            total = gradient(weights, batch["input_ids"]) * feed.weight
        place = manager.participating_rank(), manager.num_participants()
        quorum = manager._quorum_id
        line = {"step": step, "ids": ids, "place": place, "quorum": quorum}
        print(json.dumps(line), file=log, flush=True)
        time.sleep(PAUSE)
        manager.allreduce(total).wait()
        if manager.should_commit():
            weights -= 0.1 * total
            line = {"step": step, "committed": place, "quorum": quorum}
            print(json.dumps(line), file=log, flush=True)
    (folder / f"{name}.weights.json").write_text(json.dumps(weights.tolist()))
    manager.shutdown(wait=False)
    sys.stdout.flush()
    os._exit(0)  # The lighthouse may be gone.


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("steps", type=int)
    asked = parser.parse_args()
    train(asked.folder, asked.name, asked.steps)
