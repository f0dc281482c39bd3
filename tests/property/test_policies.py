"""Policies: what they remember is in their state, and weights are as they should be."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixing.learner import Memory

NAMES = ("code", "math", "web")
PRIOR = {"code": 0.3, "math": 0.1, "web": 0.6}
BAD = [math.nan, math.inf, -math.inf, 1e308, -1e300]
loss = st.floats(0.01, 20) | st.sampled_from(BAD)
losses = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, loss))


def policies() -> dict[str, Any]:
    """New ones, the same each time."""
    return {
        "ado": pf.mixing.ADO(PRIOR, warmup=3),
        "excess": pf.mixing.ExcessLoss(dict.fromkeys(NAMES, 2.0), prior=PRIOR),
        "fixed": pf.mixing.FixedSchedule({5: PRIOR, 20: {"web": 1}}),
    }


@settings(max_examples=60)
@given(
    st.sampled_from([*policies()]),
    st.lists(losses, min_size=1, max_size=120),
    st.integers(0, 120),
)
def test_a_policy_goes_on_from_its_state(name, seen, stop):
    """Whatever it saw before, and whenever it is saved."""
    whole, first = policies()[name], policies()[name]
    expected = [whole.update(step, each) for step, each in enumerate(seen, 1)]
    found = [first.update(step, each) for step, each in enumerate(seen[:stop], 1)]
    second = policies()[name]
    second.load_state_dict(json.loads(json.dumps(first.state_dict(), allow_nan=False)))
    rest = enumerate(seen[stop:], stop + 1)
    found += [second.update(step, each) for step, each in rest]
    assert found == expected
    assert second.state_dict() == whole.state_dict()
    for weights in expected:
        if weights is not None:
            assert all(0 <= weight < math.inf for weight in weights.values())
            assert sum(weights.values()) == pytest.approx(1, rel=1e-4)


@settings(max_examples=40)
@given(st.sampled_from([*policies()]), st.lists(losses, min_size=1, max_size=40))
def test_losses_that_are_not_finite_are_left_out(name, seen):
    """It decides as if they were not there."""
    one, other = policies()[name], policies()[name]
    for step, each in enumerate(seen, 1):
        good = {key: value for key, value in each.items() if abs(value) <= 20}
        assert one.update(step, each) == other.update(step, good)
    assert one.state_dict() == other.state_dict()


@given(st.lists(losses, min_size=30, max_size=200), st.floats(0, 1 / 3))
def test_ado_gives_each_dataset_its_least(seen, least):
    policy = pf.mixing.ADO(PRIOR, warmup=0, least=least)
    for step, each in enumerate(seen, 1):
        weights = policy.update(step, each)
        if weights is not None:
            assert min(weights.values()) >= least * (1 - 1e-5)


@pytest.mark.parametrize("exponent", [0.05, 0.3, 0.6])
def test_ado_finds_the_speed_of_a_law(exponent):
    """Of two datasets, the weights are as the derivatives of their laws."""
    policy = pf.mixing.ADO(
        {"a": 1, "b": 1}, warmup=0, credit=0, smoothing=0, memory=0, least=0
    )
    delivered = {"a": 0.0, "b": 0.0}
    weights: Mapping[str, float] = {"a": 0.5, "b": 0.5}
    for step in range(1, 400):
        for name in delivered:
            delivered[name] += weights[name]
        laws = {"a": (1.0, 2.0, exponent), "b": (2.0, 1.0, 0.2)}
        found = {
            name: floor + scale * delivered[name] ** -alpha
            for name, (floor, scale, alpha) in laws.items()
        }
        weights = policy.update(step, found) or weights
        speeds = {
            name: alpha * scale * delivered[name] ** (-alpha - 1)
            for name, (_, scale, alpha) in laws.items()
        }
    share = speeds["a"] / sum(speeds.values())
    assert weights["a"] == pytest.approx(share, abs=0.08)


def test_excess_losses_multiply_weights():
    policy: Any = pf.mixing.ExcessLoss({"a": 1.0, "b": 1.0}, rate=2.0, smoothing=0.0)
    weights = policy.update(1, {"a": 1.5, "b": 0.2})
    assert weights["a"] / weights["b"] == pytest.approx(math.exp(2 * 0.5))
    weights = policy.update(2, {"a": 1e6, "b": 1.0})  # Beyond all numbers.
    assert weights["a"] == pytest.approx(1)
    assert policy.mean["a"] == pytest.approx((1 / (1 + math.exp(-1)) + 1) / 2)


def test_wrong_arguments_are_refused():
    wrong = {
        "prior": lambda: pf.mixing.ADO({"a": 0.0, "b": 1.0}),
        "to 1e": lambda: pf.mixing.ADO({"a": 1e308, "b": 1e308}),
        "weight of 'a'=1000": lambda: pf.mixing.ADO({"a": 10**400}),
        "rate": lambda: pf.mixing.ExcessLoss({"a": 1}, rate=10**400),
        "weight of": lambda: pf.mixing.FixedSchedule({1: {"a": 10**400}}),
        "warmup": lambda: pf.mixing.ADO(PRIOR, warmup=-1),
        "credit": lambda: pf.mixing.ADO(PRIOR, credit=2),
        "least": lambda: pf.mixing.ADO(PRIOR, least=0.5),
        "reference": lambda: pf.mixing.ExcessLoss({}),
        "the same datasets": lambda: pf.mixing.ExcessLoss({"a": 1}, prior={"b": 1}),
        "by step": lambda: pf.mixing.FixedSchedule({}),
    }
    for words, call in wrong.items():
        with pytest.raises(InvalidArgumentError, match=words):
            call()


def test_what_ado_remembers_of_32_datasets_is_small():
    names = [f"dataset-{number:02}" for number in range(32)]
    policy = pf.mixing.ADO(dict.fromkeys(names, 1.0), warmup=0)
    rng = np.random.default_rng(0)
    for step in range(1, 2001):
        found = rng.random(32) + 2 + 3 / np.sqrt(step)
        policy.update(100 * step, dict(zip(names, found.tolist(), strict=True)))
    assert len(json.dumps(policy.state_dict())) < 64 << 10


def test_a_state_of_something_else_is_refused():
    memory: Any = Memory(policies()["ado"], NAMES)
    state = memory.state_dict()
    for broken in (
        state | {"version": 2},
        state | {"at": "now"},
        state | {"sums": [1, 2]},
        {"version": 1},
        7,
    ):
        with pytest.raises(StateMismatchError, match="Learner"):
            memory.load_state_dict(broken, 0)
