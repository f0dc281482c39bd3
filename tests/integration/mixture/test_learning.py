"""Learners: losses add up by dataset, and weights that follow them are in the state."""

import itertools
import json
import logging
import math
import pickle
from typing import Any

import numpy as np
import pytest
from policies.ado import ADO
from policies.excess_loss import ExcessLoss
from policies.fixed_schedule import FixedSchedule

import pagefeed as pf
from made.optional import torch
from made.pairs import pairs
from models.mixing import write_datasets
from pagefeed.errors import InvalidArgumentError, LossWarning, StateMismatchError
from pagefeed.reports import forecast, mixture_weights

FIELDS = ("input_ids", "labels", "dataset_ids")
EVERY = 7


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("learning"))


def make(datasets, *, max_epochs=None, max_steps=400, **options):
    parts = {name: (data, 1.0) for name, data in datasets.items()}
    settings: dict[str, Any] = {
        "batch_size": 4,
        "fields": FIELDS,
        "num_threads": 1,
        "seed": 2,
    }
    return pf.Loader(
        pf.mix(parts, unit="sequences", max_steps=max_steps, max_epochs=max_epochs),
        sequences=pf.Windows(16),
        **settings | options,
    )


class Random:
    """A policy that remembers what it drew."""

    def __init__(self):
        self.draws = 0

    def update(self, step, losses):
        del losses
        self.draws += 1
        weights = np.random.default_rng([step, self.draws]).random(3)
        return dict(zip(("code", "math", "web"), weights.tolist(), strict=True))

    def state_dict(self):
        return {"draws": self.draws}

    def load_state_dict(self, state):
        self.draws = state["draws"]


def train(loader, steps, policy):
    """Some steps, with losses that the step and the dataset say."""
    learner, seen = pf.mixing.Learner(loader, policy, every=EVERY), []
    batches = iter(loader)
    for _ in range(steps):
        batch = next(batches)
        seen += batch["input_ids"][:, 0].tolist()
        rng = np.random.default_rng(loader.step)
        losses = rng.random(batch["labels"].shape) + batch["dataset_ids"][:, None]
        losses += 3 / np.sqrt(loader.step)
        learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
        learner.step()
    return seen, json.loads(json.dumps(loader.state_dict()))


POLICIES: dict[str, Any] = {
    "ado": lambda: ADO({"code": 1, "math": 1, "web": 1}, warmup=10),
    "random": Random,
}


@pytest.mark.parametrize(
    ("kind", "stop"), [*zip(POLICIES, itertools.cycle([7, 103, 133]), strict=False)]
)
def test_killed_and_resumed_it_decides_as_before(datasets, kind, stop):
    whole, end = train(make(datasets), 180, POLICIES[kind]())
    first, saved = train(make(datasets), stop, POLICIES[kind]())
    resumed = make(datasets)
    resumed.load_state_dict(saved)
    rest, state = train(resumed, 180 - stop, POLICIES[kind]())
    assert first + rest == whole
    assert state == end
    if kind == "random":  # A change every 7 steps.
        mixture = end["mixture"]
        assert len(mixture["stages"]) == 1 + 180 // EVERY


@pytest.mark.parametrize("is_pickled", [False, True])
def test_another_learner_goes_on_where_the_one_before_was(datasets, is_pickled):
    whole, end = train(make(datasets), 40, Random())
    loader = make(datasets)
    first, _ = train(loader, 17, Random())
    if is_pickled:
        loader = pickle.loads(pickle.dumps(loader))
    else:
        loader.load_state_dict(loader.state_dict())
    rest, state = train(loader, 23, Random())
    assert first + rest == whole
    assert state == end


@pytest.mark.filterwarnings("ignore::pagefeed.errors.LossWarning")
@pytest.mark.parametrize(
    ("bad", "kind", "as_tensors"),
    pairs(
        [math.nan, math.inf, -math.inf, 1e300],
        ["ado", "excess", "fixed"],
        [False, True],
    ),
)
def test_a_loss_that_is_not_finite_is_left_out_by_name(datasets, bad, kind, as_tensors):
    """Whether the run is resumed meanwhile or not; later losses count again."""
    equal = {"code": 1.0, "math": 1.0, "web": 1.0}
    policies: dict[str, Any] = {
        "ado": lambda: ADO(equal, warmup=5),
        "excess": lambda: ExcessLoss(equal),
        "fixed": lambda: FixedSchedule({5: equal, 21: {"web": 1.0}}),
    }

    def run(loader, steps, seen):
        learner = pf.mixing.Learner(loader, policies[kind](), every=EVERY)
        batches = iter(loader)
        for _ in range(steps):
            batch = next(batches)
            losses = np.full(batch["labels"].shape, 3.0 + 1 / loader.step)
            if loader.step == 17:
                losses[batch["dataset_ids"] == 2] = bad
            ids = batch["dataset_ids"].copy()
            given = [ids, batch["labels"].copy(), losses]
            if as_tensors:
                given = [torch.from_numpy(each) for each in given]
            learner.add(*given[:2], losses=given[2])
            learner.step()
            seen.append(ids.tolist())
        state = json.dumps(loader.state_dict(), allow_nan=False)
        return learner, json.loads(state)

    whole, parts = list[Any](), list[Any]()
    with pytest.warns(LossWarning, match="step 21: the loss of 'web' is") as told:
        learner, end = run(make(datasets), 60, whole)
    assert 2 in whole[16]
    assert len([each for each in told if each.category is LossWarning]) == 1
    assert not abs(learner.means()["loss/web"]) < 10  # As it was.
    _, saved = run(make(datasets), 18, parts)
    resumed = make(datasets)
    resumed.load_state_dict(saved)
    _, state = run(resumed, 42, parts)
    assert parts == whole
    assert state == end


def test_a_policy_that_remembers_no_json_is_refused(datasets):
    class Nan(Random):
        def state_dict(self):
            return {"mean": math.nan}

    with pytest.raises(InvalidArgumentError, match=r"state_dict.* of Nan .*plain JSON"):
        train(make(datasets), EVERY, Nan())


def test_another_iteration_is_asked_at_the_same_steps(datasets):
    loader, steps = make(datasets, max_steps=10), list[int]()

    class Watching:
        def update(self, step, losses):
            assert losses
            steps.append(step)

    learner = pf.mixing.Learner(loader, Watching(), every=4)
    for _ in range(2):
        for batch in loader:
            losses = np.ones(batch["labels"].shape)
            learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
            learner.step()
    assert steps == [4, 8, 4, 8]


@pytest.mark.parametrize(("batch_size", "world_size"), [(10, 1), (2, 3), (1, 4)])
def test_it_is_replayed_at_any_size_without_losses(datasets, batch_size, world_size):
    whole, state = train(make(datasets), 150, Random())
    rows = []
    for rank in range(world_size):
        options = {"batch_size": batch_size, "rank": rank, "world_size": world_size}
        loader = make(datasets, **options)
        loader.load_state_dict(state, replay=True)
        batches = iter(loader)
        steps = 600 // (batch_size * world_size)
        rows.append([next(batches)["input_ids"][:, 0].tolist() for _ in range(steps)])
    dealt = [
        row
        for step in zip(*rows, strict=True)
        for pair in zip(*step, strict=True)
        for row in pair
    ]
    assert dealt == whole


def test_losses_are_means_by_dataset(datasets):
    """From logits, tensors of losses and arrays; ignored labels do not count."""
    loader = make(datasets, format="torch")
    sums: dict[str, list[float]] = {}
    learners = [pf.mixing.Learner(loader) for _ in range(4)]
    rng = torch.Generator().manual_seed(1)
    batches = iter(loader)
    for _ in range(5):
        batch = next(batches)
        logits = torch.randn(4, 16, 50, generator=rng)
        labels = torch.randint(0, 50, (4, 16), generator=rng)
        labels[torch.rand(4, 16, generator=rng) < 0.3] = -100
        losses = torch.zeros(4, 16)
        losses[:, 1:] = torch.nn.functional.cross_entropy(
            logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none"
        )
        ids = batch["dataset_ids"]
        for row, number in enumerate(ids.tolist()):
            counted = labels[row, 1:] != -100
            total = sums.setdefault(f"loss/{loader.dataset_names[number]}", [0, 0])
            total[0] += float(losses[row, 1:][counted].sum())
            total[1] += int(counted.sum())
        flat, rest = labels.clone(), losses.clone()
        flat[:, 0] = -100  # As the first token of a document is, in a joined row.
        learners[0].add(ids, labels, logits=logits)
        learners[1].add(ids, labels, losses=losses)
        learners[2].add(ids.numpy(), labels.numpy(), losses=losses.numpy())
        learners[3].add(ids, flat.reshape(1, -1), losses=rest.reshape(1, -1))
        for learner in learners:
            learner.step()
    expected = {name: total / count for name, (total, count) in sums.items()}
    for learner in learners:
        assert learner.means() == pytest.approx(expected, rel=1e-5)
        assert learner.means() == {}


def test_two_ranks_decide_alike_whatever_their_policies_return(datasets):
    """The weights are the first rank's; the sums are of both."""
    loaders = [make(datasets, rank=rank, world_size=2) for rank in range(2)]
    told: list = []

    def gather(values):  # One rank after the other: what the first told is known.
        told.append(values)
        return [told[-1], np.zeros_like(values)]

    ours = {"code": 1.0, "math": 0.0, "web": 3.0}
    learner = pf.mixing.Learner(
        loaders[0], FixedSchedule({0: ours}), every=1, group=gather
    )
    next(iter(loaders[0]))
    assert learner.step()
    theirs = {"code": 0.0, "math": 1.0, "web": 0.0}
    other = pf.mixing.Learner(
        loaders[1],
        FixedSchedule({0: theirs}),
        every=1,
        group=lambda values: [told[1] if values.ndim == 1 else values * 0, values],
    )
    next(iter(loaders[1]))
    assert other.step()
    states = [loader.state_dict()["mixture"] for loader in loaders]
    assert states[0] == states[1]
    assert mixture_weights(loaders[1])[-1][1] == pytest.approx(
        {"code": 0.25, "math": 0.0, "web": 0.75}, rel=1e-3
    )


def test_weights_that_hold_already_are_not_recorded(datasets):
    loader = make(datasets)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
        loader.set_weights({"code": 2, "math": 2, "web": 2})
    assert len(loader.state_dict()["mixture"]["stages"]) == 1


def test_another_policy_is_refused_unless_it_replaces_the_first(datasets):
    _, state = train(make(datasets), 20, Random())
    loader = make(datasets)
    loader.load_state_dict(state)
    assert loader.state_dict() == state  # Also before there is a learner.
    with pytest.raises(StateMismatchError, match=r"policy Random.*policy=\.\.\."):
        next(iter(loader))  # The weights would stay as they are.
    for policy, words in ((POLICIES["ado"](), "has ADO"), (None, "has none")):
        for _ in range(2):
            with pytest.raises(StateMismatchError, match=f"Random, .*{words}"):
                pf.mixing.Learner(loader, policy, every=EVERY)
        learned = make(datasets)
        pf.mixing.Learner(learned, policy, every=EVERY)
        with pytest.raises(StateMismatchError, match=f"Random, .*{words}"):
            learned.load_state_dict(state)
        assert learned.step == 0
        pf.mixing.Learner(loader, pf.mixing.Replacing(policy), every=EVERY)
        loader.load_state_dict(state)
        assert loader.step == 20
        next(iter(loader))
        loader = make(datasets)
        loader.load_state_dict(state)
    pf.mixing.Learner(loader, Random(), every=EVERY)
    with pytest.raises(StateMismatchError, match="Learner"):
        loader.load_state_dict(state | {"learning": {"version": 1}})


def test_weights_are_told_after_the_end_of_a_loop(datasets):
    loader = make(datasets, max_steps=30)
    train(loader, 29, Random())
    told = mixture_weights(loader)
    assert [step for step, _ in told] == [0, 7, 14, 21, 28]
    for _ in loader:
        pass
    again = make(datasets, max_steps=30)
    assert len(mixture_weights(again)) == 1
    learner = pf.mixing.Learner(again, Random(), every=EVERY)
    for batch in again:
        losses = np.ones(batch["labels"].shape)
        learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
        learner.step()
    assert [step for step, _ in mixture_weights(again)] == [0, 7, 14, 21, 28]
    next(iter(again))
    assert len(mixture_weights(again)) == 1


def test_the_log_says_what_a_run_comes_to(datasets, caplog):
    loader = make(datasets, max_epochs={"math": 2}, max_steps=100)
    with caplog.at_level(logging.INFO, "pagefeed"):
        next(iter(loader))
        next(iter(loader))
    [text] = [r.getMessage() for r in caplog.records if "the run of" in r.getMessage()]
    plan = forecast(loader).datasets
    math = plan["math"]
    assert math.epochs == 2
    assert math.out_at_step is not None
    assert f"left out from step {math.out_at_step:,} on (max_epochs=2)" in text
    assert plan["web"].out_at_step is None
    for name, one in plan.items():
        assert f"{name}: {one.delivered_tokens:,} tokens, {one.share:.2%}" in text
    assert sum(one.share for one in plan.values()) == pytest.approx(1)
    # It is really gone from there on, and comes before.
    number = loader.dataset_names.index("math")
    steps = [number in batch["dataset_ids"] for batch in loader]
    assert not any(steps[math.out_at_step + 1 :])
    assert any(steps[max(0, math.out_at_step - 40) : math.out_at_step + 1])


class Fixed:
    """A policy that gives what it was made of."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def update(self, step, losses):
        del step, losses
        return self.weights


@pytest.mark.parametrize(
    "weights",
    [
        *({"web": -1}, {"web": float("nan")}, {"web": "a"}, {"web": None}),
        *({}, {"wep": 1}, {"web": 0}, [1, 2], 3, {"web": 10**400}),
    ],
)
def test_wrong_weights_of_a_policy_are_refused(datasets, weights):
    loader = make(datasets)
    learner = pf.mixing.Learner(loader, Fixed(weights), every=1)
    next(iter(loader))
    before = loader.state_dict()["mixture"]
    with pytest.raises(InvalidArgumentError, match=r"weight|dataset"):
        learner.step()
    assert loader.state_dict()["mixture"] == before


@pytest.mark.parametrize(
    "policy",
    [
        ADO({"wep": 1, "code": 1}),
        ExcessLoss({"wep": 1}),
        FixedSchedule({5: {"wep": 1}}),
        ADO,
    ],
)
def test_a_policy_of_other_datasets_is_refused_at_once(datasets, policy):
    with pytest.raises(InvalidArgumentError, match=r"wep|object with update"):
        pf.mixing.Learner(make(datasets), policy)


@pytest.mark.parametrize("shifted", [False, True])
def test_a_shifted_label_counts_where_a_row_begins(datasets, shifted):
    learner = pf.mixing.Learner(make(datasets))
    losses = np.ones((4, 16))
    losses[:, 0] = 17
    ids, labels = np.zeros(4, dtype=np.int32), np.zeros((4, 16), dtype=np.int64)
    learner.add(ids, labels, losses=losses, shifted=shifted)
    learner.step()
    assert [*learner.means().values()] == [2 if shifted else 1]


@pytest.mark.parametrize("xp", [np, pytest.param(torch, id="torch")])
def test_arrays_of_other_shapes_are_refused(datasets, xp):
    learner = pf.mixing.Learner(make(datasets))
    ids, labels = xp.zeros(4, dtype=xp.int32), xp.zeros((4, 16), dtype=xp.int64)
    losses = xp.ones((4, 16))
    learner.add(ids, labels, losses=losses)
    wrong: list[tuple[Any, Any, dict[str, Any]]] = [
        (None, labels, {"losses": losses}),
        (ids, None, {"losses": losses}),
        (ids, labels.tolist(), {"losses": losses}),
        (ids, labels, {"losses": 2.5}),
        (ids[:2], labels, {"losses": losses}),
        (ids[:0], labels[:0], {"losses": losses[:0]}),
        (ids, labels, {"losses": losses[:3]}),
        (ids, labels, {"logits": xp.ones((3, 16, 5))}),
        (ids + 7, labels, {"losses": losses}),
        (ids * 1.0, labels, {"losses": losses}),
        (ids, labels, {"losses": losses, "shifted": "no"}),
    ]
    for each, those, more in wrong:
        with pytest.raises(InvalidArgumentError):
            learner.add(each, those, **more)


def test_wrong_arguments_are_refused(datasets):
    loader = make(datasets)
    one = pf.Loader(datasets["web"], sequences=pf.Windows(16), batch_size=2)
    three: Any = 3
    weights: Any = {"web": 1}  # It has an update, too.
    kind: Any = ADO

    class Uncounted:
        def update(self, losses: Any) -> Any:
            return dict.fromkeys(losses, 1)

    uncounted: Any = Uncounted()
    wrong = {
        "the Loader of a mixture": lambda: pf.mixing.Learner(one),
        "needs dataset_ids": lambda: pf.mixing.Learner(
            make(datasets, fields=("input_ids", "labels"))
        ),
        "policy=3 must be": lambda: pf.mixing.Learner(loader, policy=three),
        "policy={'web': 1} must be": lambda: pf.mixing.Learner(loader, weights),
        r"update\(step, losses\), such as": lambda: pf.mixing.Learner(
            loader, uncounted
        ),
        "or None": lambda: pf.mixing.Replacing(kind),
        "every": lambda: pf.mixing.Learner(loader, every=0),
        "group='x'": lambda: pf.mixing.Learner(loader, group="x"),
        "either logits or losses": lambda: pf.mixing.Learner(loader).add(
            np.zeros(1), np.zeros((1, 4))
        ),
        "exclude each other": lambda: loader.load_state_dict(
            loader.state_dict(), replay=True, grown="next-epoch"
        ),
    }
    for words, call in wrong.items():
        with pytest.raises(InvalidArgumentError, match=words):
            call()
