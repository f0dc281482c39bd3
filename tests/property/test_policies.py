"""Policies: what they remember is in their state, and weights are as they should be."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.ado import ADO
from policies.excess_loss import ExcessLoss
from policies.fixed_schedule import FixedSchedule

import pagefeed as pf
from pagefeed.errors import StateMismatchError
from pagefeed.mixing.memory import Memory
from scaled import scaled

NAMES = ("code", "math", "web")
PRIOR = {"code": 0.3, "math": 0.1, "web": 0.6}
loss = st.floats(0.01, 20)
losses = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, loss))


def policies() -> dict[str, Any]:
    """New ones, the same each time."""
    return {
        "ado": ADO(PRIOR, warmup=3),
        "excess": ExcessLoss(dict.fromkeys(NAMES, 2.0), prior=PRIOR),
        "fixed": FixedSchedule({5: PRIOR, 20: {"web": 1}}),
    }


@settings(max_examples=scaled(60))
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


@given(st.lists(losses, min_size=30, max_size=200), st.floats(0, 1 / 3))
def test_ado_gives_each_dataset_its_least(seen, least):
    policy = ADO(PRIOR, warmup=0, least=least)
    for step, each in enumerate(seen, 1):
        weights = policy.update(step, each)
        if weights is not None:
            assert min(weights.values()) >= least * (1 - 1e-5)


@pytest.mark.parametrize("exponent", [0.05, 0.3, 0.6])
def test_ado_finds_the_speed_of_a_law(exponent):
    """Of two datasets, the weights are as the derivatives of their laws."""
    policy = ADO({"a": 1, "b": 1}, warmup=0, credit=0, smoothing=0, memory=0, least=0)
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
    policy: Any = ExcessLoss({"a": 1.0, "b": 1.0}, rate=2.0, smoothing=0.0)
    weights = policy.update(1, {"a": 1.5, "b": 0.2})
    assert weights["a"] / weights["b"] == pytest.approx(math.exp(2 * 0.5))
    weights = policy.update(2, {"a": 1e6, "b": 1.0})  # Beyond all numbers.
    assert weights["a"] == pytest.approx(1)
    assert policy.mean["a"] == pytest.approx((1 / (1 + math.exp(-1)) + 1) / 2)


def test_wrong_arguments_are_refused():
    wrong = {
        "prior": lambda: ADO({"a": 0.0, "b": 1.0}),
        "credit": lambda: ADO(PRIOR, credit=2),
        "least": lambda: ADO(PRIOR, least=0.5),
        "the same datasets": lambda: ExcessLoss({"a": 1}, prior={"b": 1}),
        "rate": lambda: ExcessLoss({"a": 1}, rate=-1),
    }
    for words, call in wrong.items():
        with pytest.raises(ValueError, match=words):
            call()


def test_what_ado_remembers_of_32_datasets_is_small():
    names = [f"dataset-{number:02}" for number in range(32)]
    policy = ADO(dict.fromkeys(names, 1.0), warmup=0)
    rng = np.random.default_rng(0)
    for step in range(1, 401):
        found = rng.random(32) + 2 + 3 / np.sqrt(step)
        policy.update(100 * step, dict(zip(names, found.tolist(), strict=True)))
    assert len(json.dumps(policy.state_dict())) < 64 << 10


def test_a_state_of_something_else_is_refused():
    memory: Any = Memory(policies()["ado"], 10, NAMES)
    state = memory.state_dict()
    for broken in (
        state | {"version": 1},
        state | {"at": "now"},
        state | {"sums": [1, 2]},
        {"version": 1},
        7,
    ):
        with pytest.raises(StateMismatchError, match="Learner"):
            memory.load_state_dict(broken, 0)


OTHERS: dict[str, Any] = {
    "ado": lambda: ADO(PRIOR, warmup=4),
    "excess": lambda: ExcessLoss(PRIOR, prior=PRIOR),
    "fixed": lambda: FixedSchedule({5: PRIOR, 20: {"web": 2}}),
}


def asked(memory: Memory) -> list[Any]:
    """What its policy makes of some losses."""
    return [
        memory.policy.update(step, {"web": 3 - step / 50, "code": 2, "math": 4})
        for step in range(0, 90, 10)
    ]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_state_goes_on_with_its_own_policy_alone(kind):
    memory = Memory(policies()[kind], 10, NAMES)
    asked(memory)
    state = json.loads(json.dumps(memory.state_dict()))
    wrong: dict[str, tuple[Any, int]] = {
        "every=10, and now it is 20": (policies()[kind], 20),
        "the loader has none": (None, 10),
        "and now it is": (OTHERS[kind](), 10),
    }
    wrong |= {
        f"the loader has {type(other).__name__}": (other, 10)
        for name, other in policies().items()
        if name != kind
    }
    for words, (policy, every) in wrong.items():
        others: list[Any] = [policy, pf.mixing.Replacing(policy)]
        for other in others:
            again = Memory(other, every, NAMES)
            if other is not policy:  # Asked for: it begins as a new one.
                again.load_state_dict(state, 90)
                if policy is not None:
                    new = Memory(OTHERS[kind]() if "now it" in words else policy, 1, ())
                    assert again.state_dict()["at"] == memory.at
                    assert again.policy.state_dict() == new.policy.state_dict()
                continue
            with pytest.raises(StateMismatchError, match=words):
                again.load_state_dict(state, 90)
    for same in (policies()[kind], pf.mixing.Replacing(policies()[kind])):
        again = Memory(same, 10, NAMES)
        again.load_state_dict(state, 90)
        assert again.state_dict() == state


@pytest.mark.parametrize("kind", OTHERS)
def test_what_begins_anew_has_the_first_memory(kind):
    memory = Memory(policies()[kind], 10, NAMES)
    first = asked(memory)
    memory.load_state_dict(None, 0)
    assert asked(memory) == first


def test_a_dataset_that_was_added_is_another_setting_of_nobody():
    few = {name: PRIOR[name] for name in NAMES[:2]}
    state = Memory(ADO(few), 10, NAMES[:2]).state_dict()
    again = Memory(ADO(PRIOR), 10, NAMES)
    again.load_state_dict(state, 0)
    state = again.state_dict()
    other = Memory(ADO(PRIOR | {"math": 0.2}), 10, NAMES)
    with pytest.raises(StateMismatchError, match=r"prior\[math\]=0.1, and now it is 0"):
        other.load_state_dict(state, 0)


def test_nothing_is_learned_in_the_warm_up():
    policy = ADO(PRIOR, warmup=3)
    points = []
    for step in range(1, 6):
        policy.update(step, dict.fromkeys(NAMES, 2.0))
        points.append(len(policy.state_dict()["datasets"]["web"][-1]))
    assert points == [0, 0, 0, 1, 2]


def test_ado_counts_what_was_delivered_and_the_weights_so_far():
    policy = ADO(PRIOR, warmup=0, memory=0.25)
    shares = np.array([*PRIOR.values()])
    weights, recent, delivered, last = [shares], shares, np.zeros(3), 0
    # Once a run goes back.
    for step in [*range(10, 130, 10), 95, *range(130, 180, 10)]:
        delivered = delivered + max(0, step - last) * weights[-1]
        last = step
        loss = {name: 2 + (1 + n) / step for n, name in enumerate(NAMES)}
        new = policy.update(step, loss)
        if new is not None:
            weights.append(np.array([new[name] for name in PRIOR]))
            recent = 0.75 * recent + 0.25 * weights[-1]
        saved = policy.state_dict()["datasets"]
        found = np.array([saved[name][:4] for name in PRIOR])
        expected = [weights[-1], recent, np.mean(weights, axis=0), delivered]
        assert found == pytest.approx(np.transpose(expected), rel=1e-4)
    assert len(weights) > 8


def test_points_that_become_one_keep_their_mean():
    policy, total = ADO({"web": 1.0}, warmup=0), 0.0
    for step in range(1, 300):
        loss = 2 + (step % 7) / 7 + 10 / step
        policy.update(step, {"web": loss})
        total += loss
        points = np.array(policy.state_dict()["datasets"]["web"][-1])
        assert points[:, 2].sum() == step
        assert points[:, 1] @ points[:, 2] == pytest.approx(total, rel=1e-4)
