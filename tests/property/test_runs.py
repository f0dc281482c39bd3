"""Loaders do what a plain model of a run does, whatever is asked of them in turn."""

import itertools

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine

from models.balanced_mixture_runs import BalancedMixtureMachine
from models.fleet_budget_runs import FleetBudgetMachine
from models.fleet_runs import FleetMachine
from models.growing_runs import GrowingMachine
from models.learning_runs import LearningMachine, PackedLearningMachine
from models.mixture_runs import MixtureMachine
from models.planned import SEEDS, PlannedRun, setting_of
from models.runs import BalancedMachine, BudgetMachine, EpochMachine, InfilledMachine
from scaled import EXAMPLES, scaled

# Limits of seconds are for machines that hang.
TIMES = max(1, EXAMPLES // 100)


def runs(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> type:
    """The test of a machine, with so many runs of so many steps."""
    case = machine.TestCase
    case.settings = settings(
        phases=[Phase.generate],
        derandomize=EXAMPLES <= 100,
        max_examples=scaled(examples),
        stateful_step_count=steps,
    )
    return pytest.mark.timeout(120 * TIMES)(case)


TestEpochs = runs(EpochMachine, 60, 25)
TestInfilled = runs(InfilledMachine, 30, 25)
TestBalanced = runs(BalancedMachine, 30, 25)
TestFleets = runs(FleetMachine, 30, 25)
TestFleetBudgets = runs(FleetBudgetMachine, 15, 25)
TestBudgets = runs(BudgetMachine, 30, 25)
TestGrowing = runs(GrowingMachine, 30, 25)
TestMixtures = runs(MixtureMachine, 30, 20)
TestBalancedMixtures = runs(BalancedMixtureMachine, 12, 20)
TestLearning = runs(LearningMachine, 20, 20)
TestPacked = runs(PackedLearningMachine, 20, 20)


@pytest.mark.timeout(240 * TIMES)
def test_what_ranks_are_given_is_what_a_plain_model_gives_them():
    for number in range(0, scaled(168) * SEEDS, SEEDS):
        PlannedRun(number).live()


def test_each_setting_meets_each_other_in_these_runs():
    settings = [setting_of(number) for number in range(0, 168 * SEEDS, SEEDS)]
    for one, other in itertools.combinations(zip(*settings, strict=True), 2):
        missing = {*itertools.product(one, other)} - {*zip(one, other, strict=True)}
        assert missing <= {("infilled", "padded"), ("infilled", "joined")}
