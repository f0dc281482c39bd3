"""A step of a fleet may be a budget of tokens: some batches, each dealt to one rank."""

import itertools
import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from pagefeed.elastic.dealing import share_size
from pagefeed.errors import InvalidArgumentError, StateMismatchError

BUDGET, SIZE, MOST = 300, 6, 50
Batch = list[list[int]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("budgets")
    for number, name in enumerate(("web", "code")):
        (root / name).mkdir()
        write_numbered(root / name, first_token=10**6 * number)
    return root / "web", root / "code"


def loader(data, pad=None, **options):
    settings: dict[str, Any] = {
        "sequences": pf.Documents([], max_length=MOST, pad=pad),
        "batch_size": None,
        "batch_tokens": BUDGET,
        "global_batch_size": SIZE,
        "memory": "32MiB",
    }
    return numbered_loader(data, **settings | options)


def mixed(folders, max_steps=20):
    web, code = (pf.parquet(folder, column="input_ids") for folder in folders)
    return pf.mix({"web": (web, 0.7), "code": (code, 0.3)}, max_steps=max_steps)


def documents(batch):
    """The tokens of the documents of a batch that have some."""
    tokens, found = batch["input_ids"], []
    begins = np.cumsum(batch["lengths"]) - batch["lengths"]
    for row, (begin, length) in enumerate(zip(begins, batch["lengths"], strict=True)):
        own = tokens[0, begin:] if len(tokens) == 1 < len(begins) else tokens[row]
        found.append(own[:length].tolist())
    return [document for document in found if document]


def plain_steps(data, **options) -> list[list[Batch]]:
    """Batches of each step, by a loader of one rank that knows of no fleet."""
    batches = [documents(b) for b in loader(data, global_batch_size=None, **options)]
    return [batches[at : at + SIZE] for at in range(0, len(batches), SIZE)]


KINDS: dict[str, dict[str, Any]] = {
    "joined": {},
    "padded": {"pad": "max_length"},
    "row": {"shuffle": "row"},
    "window": {"shuffle": pf.Shuffle(window=40)},
    "two epochs": {"epochs": 2},
    "the rest": {"drop_last": False},
    "both": {"epochs": 2, "drop_last": False, "pad": "max_length"},
}


@pytest.mark.parametrize("kind", [*KINDS, "mixture"])
def test_a_step_is_the_next_batches_whoever_asks(folders, kind):
    options = KINDS.get(kind, {})
    data = mixed(folders) if kind == "mixture" else folders[0]
    # A step of one rank alone is one of these batches.
    alone = mixed(folders, 20 * SIZE) if kind == "mixture" else data
    steps = plain_steps(alone, **options)
    if len(steps[-1]) < SIZE and options.get("drop_last", True):
        steps.pop()
    fleet, draw = loader(data, **options), random.Random(kind)
    assert len(fleet) == len(steps)
    for _ in range(30):
        step, world_size = draw.randrange(len(steps)), draw.randint(1, SIZE)
        batches = steps[step]
        given, sizes = Counter[str](), []
        for rank in draw.sample(range(world_size), world_size):
            batch = fleet.at(step, rank=rank, world_size=world_size)
            mine = documents(batch)
            # It is some whole batches, one after another.
            places = sorted(mine.index(b[0]) for b in batches if b[0] in mine)
            firsts = [mine[place] for place in places]
            own = [b for first in firsts for b in batches if b[0] == first]
            assert mine == [document for batch in own for document in batch]
            given.update(map(str, mine))
            sizes.append(len(own))
            assert fleet.weight == len(own) * world_size / len(batches)
            assert batch["lengths"].sum() <= len(own) * BUDGET
        assert given == Counter(str(d) for batch in batches for d in batch)
        assert max(sizes) - min(sizes) <= 1
        if len(batches) == SIZE:
            wanted = [share_size(SIZE, rank, world_size) for rank in range(world_size)]
            assert sorted(sizes, reverse=True) == wanted


def test_every_document_is_found_both_ways(folders):
    fleet, draw = loader(folders[0]), random.Random(1)
    for _ in range(12):
        step, world_size = draw.randrange(len(fleet)), draw.randint(1, SIZE)
        rank = draw.randrange(world_size)
        batch = fleet.at(step, rank=rank, world_size=world_size)
        traced = pf.reports.trace(fleet, step)
        assert [row.row for row in traced] == list(range(len(batch["lengths"])))
        for row in {0, len(traced) // 2, len(traced) - 1}:
            [origin] = fleet.locate(step, row)
            assert traced[row].segments[0].origin == origin
            assert origin.num_tokens == batch["lengths"][row]
            [slot] = fleet.steps_of(origin.file, origin.row)
            assert slot == (step, fleet.view().rank_and_size[0], row)
        with pytest.raises(InvalidArgumentError, match=f"must lie below {len(traced)}"):
            fleet.locate(step, len(traced))


def test_documents_of_other_ranks_are_found(folders):
    fleet = loader(folders[0])
    for world_size in (2, 3):
        origins = []
        for rank in range(world_size):
            batch = fleet.at(1, rank=rank, world_size=world_size)
            last = len(batch["lengths"]) - 1
            origins.append((*fleet.locate(1, last), (1, rank, last)))
        for origin, slot in origins:
            assert fleet.steps_of(origin.file, origin.row) == [slot]


def test_a_state_is_a_number_that_any_fleet_goes_on_from(folders):
    steps = plain_steps(folders[0])
    one = loader(folders[0])
    one.at(4, rank=2, world_size=5)
    state = json.loads(json.dumps(one.state_dict()))
    assert (state["step"], state["position"]) == (4, 4 * SIZE)
    members = [loader(folders[0], rank=rank, world_size=2) for rank in range(2)]
    for member in members:
        member.load_state_dict(state)
    for step, parts in enumerate(zip(*members, strict=True), 4):
        given = [document for part in parts for document in documents(part)]
        assert sorted(given) == sorted(itertools.chain(*steps[step]))
    with pytest.raises(StateMismatchError, match=f"batch_tokens={BUDGET}"):
        loader(folders[0], batch_tokens=BUDGET + 1).load_state_dict(state)


def test_steps_that_grow_and_steps_that_are_skipped(folders):
    whole = [documents(b) for b in loader(folders[0], global_batch_size=None)]
    fleet = loader(folders[0], global_batch_size=[(0, 2), (3, 5)])
    fleet.skip([1])
    # The k-th step is the k-th that is not skipped: its batches are of the order.
    borders = [0, 2, 4, 6, 11, 16]
    order = [whole[a:b] for a, b in itertools.pairwise(borders)]
    order.pop(1)
    for step, batches in enumerate(order[:2]):
        given = fleet.at(step, rank=0, world_size=1)
        assert documents(given) == list(itertools.chain(*batches))


def test_what_does_not_compose_is_refused_by_name(folders):
    with pytest.raises(InvalidArgumentError, match="pad=None, which fills nothing"):
        loader(folders[0], pad="longest")
    with pytest.raises(
        InvalidArgumentError, match=f"only global_batch_size={SIZE * 9}"
    ):
        loader(folders[0], sequences=pf.Windows(32))
    with pytest.raises(InvalidArgumentError, match="Documents need a max_length"):
        loader(folders[0], sequences=pf.Documents(["input_ids"]))
    with pytest.raises(InvalidArgumentError, match="batch_tokens without global"):
        loader(mixed(folders), fields=("dataset_ids",))
    with pytest.raises(InvalidArgumentError, match="leave balance out"):
        loader(folders[0], balance="attention")
    one = loader(folders[0], fields=("input_ids", "dataset_ids"), pad="max_length")
    batch = one.at(0, rank=0, world_size=2)
    assert batch["dataset_ids"].tolist() == [0] * len(batch["lengths"])


def test_losses_of_datasets_are_told_apart_by_rows_alone(folders):
    """Of sequences with a budget each row is one; of batches that ranks join, none."""
    torch = pytest.importorskip("torch")
    evaluation = pytest.importorskip("pagefeed.integrations.evaluation")

    def counted(**options):
        one = loader(mixed(folders), fields=("labels",), format="torch", **options)
        means = evaluation.TokenMeans(one)
        labels = next(iter(one))["labels"].clamp(max=9)
        means.add(labels, 1.0, torch.zeros(*labels.shape, 10))
        return means.sums()

    sums = counted(sequences=pf.Windows(32), batch_tokens=128, global_batch_size=None)
    numbers = {name: count for name, (_, count) in sums.items()}
    assert numbers["loss"] == numbers["loss/web"] + numbers["loss/code"] > 0
    with pytest.raises(InvalidArgumentError, match="evaluate with batch_tokens= alone"):
        counted(pad="max_length")
