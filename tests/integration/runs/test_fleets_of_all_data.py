"""Any step of a fleet, of mixtures, growing and erased data, parts and workers."""

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.growing import add_file, folder_loader
from made.numbered import first_tokens, numbered_loader
from models.mixing import make as make_mixed
from models.mixing import mixture, write_datasets
from pagefeed.errors import InvalidArgumentError

SIZE = 20
FLEET: dict[str, Any] = {"batch_size": None, "global_batch_size": SIZE}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("mixed"))


def asked(members, step, world_size=None):
    """The first tokens of a step, as some members get it, sorted."""
    world_size = world_size or len(members)
    parts = [
        first_tokens(
            members[rank % len(members)].at(step, rank=rank, world_size=world_size)
        )
        for rank in range(world_size)
    ]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    return sorted(token for part in parts for token in part)


def steps_of(loader):
    """The first tokens of each step of an iteration, sorted."""
    return [sorted(first_tokens(batch)) for batch in loader]


def resumed(make, state):
    loader = make()
    loader.load_state_dict(json.loads(json.dumps(state)))
    return loader


MIXTURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sequences": ({"unit": "sequences", "max_steps": 40}, {}),
    "tokens": ({"stop": "first_exhausted"}, {"sequences": pf.Packed(64)}),
    "stages": (
        {
            "unit": "sequences",
            "max_steps": 30,
            "stages": [pf.Stage(start_step=9, weights={"code": 1.0, "web": 1.0})],
        },
        {},
    ),
    "documents": (
        {"unit": "sequences", "max_steps": 20},
        {"sequences": pf.Documents([], max_length=40)},
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_steps_of_mixtures_are_those_of_one_rank(datasets, name):
    mixed, options = MIXTURES[name]

    def make(**sizes):
        return make_mixed(mixture(datasets, **mixed), **options | sizes)

    whole = steps_of(make(batch_size=SIZE))
    assert steps_of(make(**FLEET)) == whole
    draw, members = random.Random(name), [make(**FLEET) for _ in range(3)]
    for step in draw.sample(range(len(whole)), 12):
        assert asked(members, step, draw.randint(1, 7)) == whole[step]
    later = resumed(lambda: make(**FLEET), members[0].state_dict())
    assert asked([later], 5, 3) == whole[5]


def test_weights_that_are_set_hold_from_the_step_behind_the_one_that_is_held(datasets):
    def make(**sizes):
        return make_mixed(
            mixture(datasets, unit="sequences", max_steps=30), **FLEET | sizes
        )

    alone, changes = (
        make(global_batch_size=None, batch_size=SIZE),
        {4: "code", 11: "web"},
    )
    whole = []
    for step, batch in enumerate(alone):
        whole.append(sorted(first_tokens(batch)))
        if step in changes:
            alone.set_weights({changes[step]: 1.0})
    assert {token // 10**6 for token in whole[6]} == {0}
    members = [make(), make()]
    for step in range(20):
        assert asked(members, step) == whole[step]
        if step in changes:
            for member in members:
                member.set_weights({changes[step]: 1.0})
            # Not committed: the same step comes again, for others.
            members = [*members, resumed(make, members[0].state_dict())][-3:]
            assert asked(members, step) == whole[step]
        states = [member.state_dict() for member in members]
        assert states.count(states[0]) == len(states)
    for step in (3, 12, 5, 19, 0):
        assert asked(members, step) == whole[step]
    with pytest.raises(InvalidArgumentError, match="mixture"):
        refuse_differing(members[0], make(), 12)


@pytest.mark.parametrize("changes", [{4: "code"}, {4: "code", 5: "web", 8: "math"}])
def test_weights_set_between_two_steps_hold_from_the_next_one(datasets, changes):
    def make(**sizes):
        return make_mixed(
            mixture(datasets, unit="sequences", max_steps=14), **FLEET | sizes
        )

    alone, member = make(global_batch_size=None, batch_size=SIZE), make()
    for step, batch in enumerate(alone):
        assert asked([member], step) == sorted(first_tokens(batch))
        for loader in (alone, member) if step in changes else ():
            loader.set_weights({changes[step]: 1.0})


def refuse_differing(one, other, step):
    """Two members look whether they agree."""
    told = []
    for rank, member in enumerate((one, other)):
        member.at(step, rank=rank, world_size=2)

        def gather(facts):
            told.append(facts)
            raise InterruptedError

        with pytest.raises(InterruptedError):
            member.check_ranks(gather)
    one.check_ranks(lambda _: told)


class Steps:
    """A policy that tells at which steps it was asked."""

    def __init__(self):
        self.asked: list[int] = []

    def update(self, step, losses):
        self.asked.append(step)
        return {name: 1.0 + losses[name] for name in losses}

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = list(state["asked"])


def test_learned_weights_are_those_of_a_loop(datasets):
    def make(**sizes):
        fields = ("input_ids", "labels", "dataset_ids")
        mixed = mixture(datasets, unit="sequences", max_steps=40)
        return make_mixed(mixed, fields=fields, **FLEET | sizes)

    def learn(learner, batches):
        for batch in batches:
            losses = 1.0 + batch["dataset_ids"][:, None] + 0.0 * batch["labels"]
            learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
        learner.step()

    alone, policy, whole = make(global_batch_size=None, batch_size=SIZE), Steps(), []
    learner = pf.mixing.Learner(alone, policy, every=5)
    for batch in alone:
        whole.append(sorted(first_tokens(batch)))
        learn(learner, [batch])
    member, own = make(), Steps()
    learner = pf.mixing.Learner(member, own, every=5)
    for step in range(40):
        if step % 7 == 3:  # One that joins goes on with the state of another.
            member, own = resumed(make, member.state_dict()), Steps()
            learner = pf.mixing.Learner(member, own, every=5)
        batch = member.at(step, rank=0, world_size=1)
        assert sorted(first_tokens(batch)) == whole[step]
        learn(learner, [batch])
    assert own.asked == policy.asked == [5, 10, 15, 20, 25, 30, 35, 40]


def test_a_group_of_context_parallelism_is_one_rank(folder):
    whole = numbered_loader(folder, sequences=pf.Packed(64), batch_size=SIZE)
    rows = {row[0]: row for batch in whole for row in batch["input_ids"].tolist()}
    group: list[Any] = [
        numbered_loader(
            folder,
            sequences=pf.Packed(64),
            context_parallel=pf.ContextParallel(rank, 2, "contiguous"),
            **FLEET,
        )
        for rank in range(2)
    ]
    for step, rank, world_size in [(3, 0, 2), (3, 1, 3), (7, 4, 5), (2, 0, 1)]:
        place = {"rank": rank, "world_size": world_size}
        parts = [member.at(step, **place)["input_ids"] for member in group]
        for row in np.concatenate(parts, axis=1).tolist():
            assert row == rows[row[0]]


def test_what_is_erased_moves_nothing_else(folder):
    data = pf.parquet(folder, column="input_ids")
    less = data.erase(rows={data.files[0]: range(20, 45)})
    options = {"sequences": pf.Packed(64), "padding": -1, **FLEET}
    whole = [batch["input_ids"] for batch in numbered_loader(data, **options)]
    wanted = [batch["input_ids"] for batch in numbered_loader(less, **options)]
    before = numbered_loader(data, **options)
    before.at(4, rank=0, world_size=3)

    def make():
        return numbered_loader(less, **options)

    members: list[Any] = [resumed(make, before.state_dict()), make()]
    changed = 0
    for step in (4, 9, 6, 2):
        for world_size in (1, 3):
            parts = [
                members[rank % 2].at(step, rank=rank, world_size=world_size)
                for rank in range(world_size)
            ]
            rows = np.concatenate([part["input_ids"] for part in parts]).tolist()
            assert sorted(rows) == sorted(wanted[step].tolist())
        changed += (whole[step] != wanted[step]).any()
    assert changed


def test_data_that_grew_are_the_same_steps_for_any_rank(tmp_path):
    for number, name in enumerate(["a.parquet", "b.parquet", "c.parquet"]):
        add_file(tmp_path, name, 100 * number)
    options = {"batch_size": None, "global_batch_size": 6, "epochs": None}
    before = folder_loader(tmp_path, **options)
    before.at(4, rank=1, world_size=2)
    state = before.state_dict()
    add_file(tmp_path, "d.parquet", 900, rows=80)

    def make():
        loader = folder_loader(tmp_path, **options)
        loader.load_state_dict(state, grown="next-epoch")
        return loader

    alone, wanted = make(), []
    for _, batch in zip(range(30), alone, strict=False):
        wanted.append(sorted(batch["input_ids"].tolist()))
    going_on: Any = before.at(5, rank=0, world_size=1)
    assert sorted(going_on["input_ids"].tolist()) == wanted[1]
    assert any(row[0] >= 900 for rows in wanted for row in rows)
    members: list[Any] = [make() for _ in range(3)]
    for step in [4, 5, 5, 6, 9, 12, 12, 13, 20, 33]:
        for world_size in (3, 2, 1):
            parts = [
                member.at(step, rank=rank, world_size=world_size)
                for rank, member in enumerate(members[:world_size])
            ]
            rows = np.concatenate([part["input_ids"] for part in parts]).tolist()
            assert sorted(rows) == wanted[step - 4], (step, world_size)
    with pytest.raises(InvalidArgumentError, match="step=6 is not in this iteration"):
        members[0].at(6, rank=0, world_size=1)


def test_a_fleet_of_infilled_and_of_selected_documents(folder):
    infill = pf.Infill(prefix=10**8, middle=10**8 + 1, suffix=10**8 + 2)
    data = pf.parquet(folder, column="input_ids")
    for each in (data.infill(infill), data.split(some=0.6, rest=0.4, seed=1)["some"]):
        whole = [
            sorted(batch["input_ids"].tolist())
            for batch in numbered_loader(each, batch_size=SIZE)
        ]
        members: list[Any] = [numbered_loader(each, **FLEET) for _ in range(3)]
        for step in (5, 2, len(whole) - 1):
            parts = [
                member.at(step, rank=rank, world_size=3)["input_ids"].tolist()
                for rank, member in enumerate(members)
            ]
            assert sorted(itertools.chain(*parts)) == whole[step]


def test_workers_of_torch_take_the_steps_of_a_place(folder):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from torch.utils.data import DataLoader

    from pagefeed.torch import as_dataset

    def make():
        place = {"rank": 1, "world_size": 3, "format": "torch"}
        return numbered_loader(folder, **FLEET | place)

    plain, loader = make(), make()
    loader.seek(2)
    batches = DataLoader(
        as_dataset(loader),
        batch_size=None,
        num_workers=2,
        multiprocessing_context="forkserver",
    )
    for step, batch in enumerate(batches, 2):
        wanted = plain.at(step, rank=1, world_size=3)
        assert torch.equal(batch["input_ids"], wanted["input_ids"])
        if step == 3:
            with pytest.raises(InvalidArgumentError, match="worker processes"):
                loader.state_dict()
            with pytest.raises(InvalidArgumentError, match="worker processes"):
                loader.at(3, rank=0, world_size=1)
    assert step == len(plain) - 1
