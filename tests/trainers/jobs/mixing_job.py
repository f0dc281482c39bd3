"""What the loops of a training under a policy share: data, model, what is kept."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import pagefeed as pf
from job import LENGTH, Job

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples"))

from policies.excess_loss import ExcessLoss

job = Job()
STEPS = job.options.get("steps", 12)
DIE_AT, RESUME = job.options.get("die_at", 0), job.options.get("resume", 0)
FOLDER = job.folder / f"mixing-{job.options['run']}"
NAMES, APART = ("code", "web"), 2000
EVERY, SAVED_EVERY = 3, 4
seen: list[list[int]] = []
exact: list[list[list[float]]] = []
logs: list[dict[str, Any]] = []


def policy() -> pf.mixing.Policy:
    return ExcessLoss(dict.fromkeys(NAMES, 8.0), rate=3.0, smoothing=0.05)


def loader(
    *fields: str, shifted: bool = False, max_steps: int | None = None, **options: Any
) -> pf.Loader:
    parts = {
        name: pf.parquet(job.folder / "mixed" / name, column="input_ids")
        for name in NAMES
    }
    names = ("input_ids", "labels", "dataset_ids", *fields)
    types = {"loss_mask": "float32"} if shifted and "loss_mask" in fields else {}
    chosen = pf.Fields(names=names, shifted=shifted, dtypes=types)
    weighted = {name: (part, 1.0) for name, part in parts.items()}
    return job.loader(
        pf.mix(weighted, max_steps=max_steps),
        epochs=None if max_steps is None else 1,
        fields=chosen,
        **options,
    )


def look(ids: Any, losses: Any, counted: Any) -> None:
    """Keep first tokens, and sums of losses by the ids that tell datasets apart."""
    ids = np.asarray(ids).reshape(-1, LENGTH)
    seen.append(ids[:, 0].tolist())
    is_web = np.repeat(ids[:, 0] >= APART, LENGTH)
    losses = np.asarray(losses, np.float64).reshape(-1)
    kept = [which & np.asarray(counted).reshape(-1) for which in (~is_web, is_web)]
    exact.append([[losses[each].sum(), int(each.sum())] for each in kept])
    if len(seen) == DIE_AT:
        job.report("killed", seen)
        job.die()


def saves(number: int) -> bool:
    return number % SAVED_EVERY == 0
