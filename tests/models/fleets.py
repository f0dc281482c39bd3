"""Fleets without their data: members die, join, wait and ask again.

A seed decides the data, the steps and the members. What the members of every committed
step were given is together the next part of the order, as one rank alone goes through
it. Nothing is decoded, so that a fleet takes some milliseconds.
"""

import functools
import random
from typing import Any

import numpy as np

import pagefeed as pf
from made.numbered import numbered_loader
from models.mixture_runs import mixture_loader
from models.runs import numbered
from pagefeed.core._base import finished
from pagefeed.core.run import Run, Step, gathered
from pagefeed.run import LoaderState

CUTS = [
    pf.Windows(32),
    pf.Packed(64),
    pf.Documents([], max_length=50),
    pf.Documents([], max_length=50, pad=None),
]
BUDGETS = {3: 150}
"""Tokens of the batches that a step has some of, by the number of the cut."""
SHUFFLES = ["page", "row", None, pf.Shuffle(window=20, passes=2)]
MOST_STEPS = 12


@functools.lru_cache(maxsize=64)
def run_of(data: str, cut: int, shuffle: int, size: int, epochs: int | None) -> Run:
    """The run of a fleet."""
    options: dict[str, Any] = {
        "sequences": CUTS[cut],
        "shuffle": SHUFFLES[shuffle],
        "batch_size": None,
        "batch_tokens": BUDGETS.get(cut),
        "global_batch_size": [(0, size), (4, 7), (6, size + 3)] if size % 2 else size,
    }
    if data == "mixture":
        return mixture_loader(MOST_STEPS, **options).view().run
    return numbered_loader(numbered(), epochs=epochs, **options).view().run


def drawn(draw: random.Random) -> Run:
    """Any run."""
    size = draw.choice([5, 8, 16, 33, 48])
    data = "mixture" if size % 2 == 0 and draw.random() < 0.3 else "numbered"
    epochs = 1 if data == "mixture" else draw.choice([1, 2, None])
    # Loaders of the mixture tell datasets, and of budgets that ranks share nobody does.
    cut = draw.randrange(len(CUTS) - (data == "mixture"))
    return run_of(data, cut, draw.randrange(4), size, epochs)


@functools.lru_cache(maxsize=64)
def order_of(run: Run, epoch: int) -> list[int]:
    """The order itself, from the beginning of an epoch on."""
    cursor = run.at(run.beginning(epoch))
    end = cursor.start + (MOST_STEPS + 2) * 51
    positions = range(cursor.start, min(end, cursor.end or end))
    order: list[int] = finished(gathered(cursor.at(positions))).numbers.tolist()
    return order


def planned_fleet(seed: int) -> None:
    """Let a fleet live: members die before a commit, others join, wait and ask again.

    A member knows the number of the step alone, or loads a state of any member.
    """
    draw = random.Random(seed)
    run = drawn(draw)
    epoch = draw.randrange(3)
    begin, order = run.beginning(epoch), order_of(run, epoch)
    num_steps = run.at(begin).route.num_steps
    last = MOST_STEPS if num_steps is None else min(MOST_STEPS, num_steps)
    if draw.random() < 0.5 and last > 3:
        ahead = draw.sample(range(last), 2)
        begin = begin.skipping(run.at(begin).route, ahead)
        last -= 2
    start = run.at(begin).start
    skipped = {at for span in begin.skipped for at in range(*span)}
    left = [each for at, each in enumerate(order, start) if at not in skipped]
    route, step = run.at(begin).route, 0
    while step < last:
        size = route.fleet.size_of(step)  # type: ignore[attr-defined]
        world_size = draw.randint(1, min(size, 64))
        parts = []
        for rank in draw.sample(range(world_size), world_size):
            state = run.at(begin).state_after(draw.randint(0, step))
            known = draw.choice([begin, LoaderState.from_dict(state.to_dict())])
            cursor = run.at(known, rank=rank, world_size=world_size)
            parts.append(cursor.sequences(cursor.route.checked_index(Step(step)), 1))
        rows = [len(part) for part in parts]
        assert max(rows) - min(rows) <= 1, f"seed {seed}"
        if draw.random() < 0.3:  # One died before the commit: all ask again.
            continue
        given = np.concatenate(parts).tolist()
        assert sorted(given) == sorted(left[:size]), f"seed {seed}"
        left = left[size:]
        step += 1
