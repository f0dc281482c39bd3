"""One of two processes of a gloo group, whose policies fail on one rank or on both."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

import pagefeed as pf
from made.numbered import LENGTH
from pagefeed.launch import from_group

folder = Path(sys.argv[1])
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()


class Failing:
    """Fails at a step on some ranks, or returns what are no weights."""

    def __init__(self, ranks, weights=None):
        self.ranks, self.weights = ranks, weights

    def update(self, step, losses):
        if rank not in self.ranks:
            return dict.fromkeys(("web", "code"), 1.0)
        if self.weights is None:
            raise ZeroDivisionError(f"{len(losses)} losses at step {step}")
        return self.weights


def tried(policy):
    data = pf.parquet(folder / "data", column="input_ids")
    with pf.Loader(
        pf.mix({"web": (data, 0.5), "code": (data, 0.5)}, max_steps=9),
        sequences=pf.Windows(LENGTH),
        batch_size=2,
        fields=("input_ids", "labels", "dataset_ids"),
        **from_group()._asdict(),
    ) as loader:
        learner = pf.mixing.Learner(loader, policy, every=2)
        steps = 0
        try:
            for _ in loader:
                learner.step()
                steps += 1
        except (ArithmeticError, pf.errors.PagefeedError) as error:
            return [type(error).__name__, str(error), steps]
    return ["", "", steps]


found = {
    "first": tried(Failing({0})),
    "second": tried(Failing({1})),
    "both": tried(Failing({0, 1})),
    "weights": tried(Failing({1}, {"web": -1.0})),
    "none": tried(Failing(())),
}
(folder / f"failing-{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
# As in `runs/groups.py`: gloo's threads outlive the group.
os._exit(0)
