"""Loaders do what a plain model of a run does, whatever is asked of them in turn."""

import itertools
import os

import pytest
from hypothesis import Phase, settings

from models.balanced_mixture_runs import BalancedMixtureMachine
from models.fleet_budget_runs import FleetBudgetMachine
from models.fleet_runs import FleetMachine
from models.growing_runs import GrowingMachine
from models.learning_runs import LearningMachine, PackedLearningMachine
from models.mixture_runs import MixtureMachine
from models.planned import SEEDS, PlannedRun, setting_of
from models.runs import BalancedMachine, BudgetMachine, EpochMachine, InfilledMachine

# The machine runs long with, say, PAGEFEED_LONGER_TESTS=100.
TIMES = int(os.environ.get("PAGEFEED_LONGER_TESTS", "1"))
TestEpochs = pytest.mark.timeout(120 * TIMES)(EpochMachine.TestCase)
TestInfilled = pytest.mark.timeout(120 * TIMES)(InfilledMachine.TestCase)
TestBalanced = pytest.mark.timeout(120 * TIMES)(BalancedMachine.TestCase)
TestFleets = pytest.mark.timeout(120 * TIMES)(FleetMachine.TestCase)
TestFleetBudgets = pytest.mark.timeout(120 * TIMES)(FleetBudgetMachine.TestCase)
TestBudgets = pytest.mark.timeout(120 * TIMES)(BudgetMachine.TestCase)
TestGrowing = pytest.mark.timeout(120 * TIMES)(GrowingMachine.TestCase)
TestMixtures = pytest.mark.timeout(120 * TIMES)(MixtureMachine.TestCase)
TestBalancedMixtures = pytest.mark.timeout(120 * TIMES)(BalancedMixtureMachine.TestCase)
TestLearning = pytest.mark.timeout(120 * TIMES)(LearningMachine.TestCase)
TestPacked = pytest.mark.timeout(120 * TIMES)(PackedLearningMachine.TestCase)
TestEpochs.settings = settings(
    phases=[Phase.generate],
    derandomize=TIMES == 1,
    max_examples=60 * TIMES,
    stateful_step_count=25,
)
TestInfilled.settings = settings(
    phases=[Phase.generate],
    derandomize=TIMES == 1,
    max_examples=30 * TIMES,
    stateful_step_count=25,
)
TestBalanced.settings = settings(
    phases=[Phase.generate],
    derandomize=TIMES == 1,
    max_examples=30 * TIMES,
    stateful_step_count=25,
)
TestFleets.settings = TestBudgets.settings = TestGrowing.settings = (
    TestBalanced.settings
)
TestFleetBudgets.settings = settings(TestBalanced.settings, max_examples=15 * TIMES)
TestMixtures.settings = TestBalancedMixtures.settings = settings(
    phases=[Phase.generate],
    derandomize=TIMES == 1,
    max_examples=12 * TIMES,
    stateful_step_count=20,
)
TestLearning.settings = TestPacked.settings = settings(
    phases=[Phase.generate],
    derandomize=TIMES == 1,
    max_examples=20 * TIMES,
    stateful_step_count=20,
)

PLANNED = range(0, 168 * TIMES * SEEDS, SEEDS)


@pytest.mark.timeout(240 * TIMES)
def test_what_ranks_are_given_is_what_a_plain_model_gives_them():
    for number in PLANNED:
        PlannedRun(number).live()


def test_each_setting_meets_each_other_in_these_runs():
    settings = [setting_of(number) for number in PLANNED]
    for one, other in itertools.combinations(zip(*settings, strict=True), 2):
        missing = {*itertools.product(one, other)} - {*zip(one, other, strict=True)}
        assert missing <= {("infilled", "padded"), ("infilled", "joined")}
