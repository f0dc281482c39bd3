"""Whole runs beside a plain model: a seed decides what is asked of the loaders.

    .venv/bin/python tests/simulate_runs.py --seed 7
    .venv/bin/python tests/simulate_runs.py --first 0 --count 200
    .venv/bin/python tests/simulate_runs.py --planned --first 0 --count 10000
    .venv/bin/python tests/simulate_runs.py --fleets --first 0 --count 50000
    .venv/bin/python tests/simulate_runs.py --prompts --first 0 --count 1000

Ranks iterate, break off, seek, skip, save, are killed and go on from a state at other
sizes; weights change, files are added, documents are erased. A seed is some runs of one
kind. With ``--planned`` nothing is decoded, and a seed is one run: what its ranks would
be given, see :mod:`models.planned`. With ``--prompts`` a seed is one run of a queue of
prompts, over datasets of any size and weights.
"""

import argparse
import itertools
import time
import warnings
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from models import machines
from models.balanced_mixture_runs import BalancedMixtureMachine
from models.fleet_budget_runs import FleetBudgetMachine
from models.fleet_runs import FleetMachine
from models.growing_runs import GrowingMachine
from models.learning_runs import LearningMachine, PackedLearningMachine
from models.mixture_runs import MixtureMachine
from models.order_fleets import SimulatedFleet
from models.planned import PlannedRun
from models.prompt_schedules import SimulatedPrompts
from models.runs import BalancedMachine, BudgetMachine, EpochMachine, InfilledMachine

KINDS = [
    *([EpochMachine] * 4),
    *(FleetMachine, FleetMachine, FleetBudgetMachine),
    *(MixtureMachine, InfilledMachine, GrowingMachine, GrowingMachine),
    *(BalancedMachine, BudgetMachine),
    *(LearningMachine, PackedLearningMachine, BalancedMixtureMachine),
]
"""The quick ones come more often."""
RUNS = 20
"""Of a seed: what is made once is made for all of them."""


def settings_of(phases: list[Phase], **options: Any) -> settings:
    return settings(
        phases=phases,
        max_examples=RUNS,
        stateful_step_count=25,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )


def live(number: int, *, shrink: bool) -> None:
    """The runs of a seed."""
    kind = KINDS[number % len(KINDS)]
    machine = seed(number)(type(kind.__name__, (kind,), {}))
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    run_state_machine_as_test(machine, settings=settings_of(phases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, shown in its shortest form")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, help="endless without")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--planned", action="store_true", help="decode nothing")
    parser.add_argument("--fleets", action="store_true", help="nor open a file")
    parser.add_argument("--prompts", action="store_true", help="queues of prompts")
    options = parser.parse_args()
    pure: Any = None
    """What lives without data, by its seed."""
    if options.planned or options.fleets:
        pure = SimulatedFleet if options.fleets else PlannedRun
    if options.prompts:
        pure = SimulatedPrompts
    warnings.simplefilter("ignore")  # Of padding, in data as small as these.
    if options.seed is not None:
        if pure is not None:
            pure(options.seed).live()
        else:
            live(options.seed, shrink=True)
        return
    begin = said = time.monotonic()
    end = None if options.count is None else options.first + options.count
    for done, number in enumerate(itertools.count(options.first)):
        spent = time.monotonic() - begin
        if number == end or spent > options.seconds:
            break
        try:
            if pure is not None:
                machines.RunMachine.num_epochs += pure(number).live()
            else:
                live(number, shrink=False)
        except BaseException:
            print(f"seed {number} goes wrong", flush=True)
            raise
        if time.monotonic() - said > 60:
            said = time.monotonic()
            runs = (done + 1) * (1 if pure else RUNS)
            parts = machines.RunMachine.num_epochs
            print(f"{runs} runs of {parts} loops, {spent:.0f} s", flush=True)
    parts = machines.RunMachine.num_epochs
    print(f"seeds {options.first} to {number}: {parts} loops, {spent:.0f} s")


if __name__ == "__main__":
    main()
