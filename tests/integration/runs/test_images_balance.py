"""Ranks that are balanced by what their images cost an encoder."""

from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made import images
from order_statistics import order_statistics
from pagefeed.core._base import finished
from pagefeed.core.run import gathered
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.reports import step_costs

LENGTH = 256
ROWS = images.rows(900, seed=5)


def cost(width: int, height: int) -> float:
    """What attention inside an image costs."""
    return images.tokens(width, height) ** 2 / 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("balanced images")
    images.write(place, ROWS, files=4)
    return place


@pytest.fixture(scope="module")
def data(folder):
    return images.dataset(folder, folder / "index", cost=cost)


def loader(data: Any, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH, eos=0, split="never"),
        "batch_size": 1,
        "seed": 2,
        "rank": 0,
        "world_size": 1,
        "drop_last": False,
        "memory": "64MiB",
    }
    return pf.Loader(data, **settings | options)


def costs_of(one: pf.Loader) -> np.ndarray:
    """What the sequences of an epoch cost, in their order, as the run has it."""
    run = one.view().run
    positions = range(one.num_sequences)
    found = finished(gathered(run.at(run.initial).at(positions)))
    return run.costs(found.numbers)


CUTS: dict[str, Any] = {
    "packed": {},
    "documents": {"sequences": pf.Documents([], max_length=300)},
    "budgets": {
        "sequences": pf.Documents([], max_length=300),
        "batch_size": None,
        "batch_tokens": 1200,
    },
}


@pytest.mark.parametrize("cut", CUTS)
def test_sequences_cost_what_their_images_do(data, cut):
    one = loader(data, balance=pf.Balance(images=3), **CUTS[cut])
    found = [
        sum(cost(*size) for size in batch["images"]["size"].tolist()) for batch in one
    ]
    np.testing.assert_allclose(costs_of(one), found, rtol=1e-6)
    assert len({*found}) > 20


def test_images_are_added_to_tokens_and_attention(data):
    both = pf.Balance(attention=1 / 4, images=2)
    one = loader(data, balance=both, fields=("input_ids", "document_ids"))
    found = []
    for batch in one:
        of_images = sum(cost(*size) for size in batch["images"]["size"].tolist())
        lengths = np.unique(batch["document_ids"], return_counts=True)
        documents = lengths[1][lengths[0] >= 0].astype(float)
        found.append(of_images + np.square(documents).sum() / 8)
    np.testing.assert_allclose(costs_of(one), found, rtol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
def test_ranks_see_images_of_like_cost(data, exact):
    balance = pf.Balance(images=1, exact=exact)
    one = loader(data, balance=balance, world_size=4, batch_size=4)
    told = step_costs(one)
    assert told.slowest - 1 < 0.5 * (told.slowest_unbalanced - 1)


def test_orders_are_random_but_for_the_balance(data):
    one = loader(data, balance=pf.Balance(images=1), world_size=4, batch_size=2)
    told = order_statistics(one, seeds=24)
    assert told.ok, [each for each in told.findings if not each.ok]
    assert any("images" in str(each) for each in told.findings)


def test_datasets_without_images_cost_nothing_for_them(data, folder, tmp_path):
    texts = [row._replace(text="no image at all", images=[]) for row in ROWS[:300]]
    images.write(tmp_path, texts)
    text = pf.parquet(tmp_path, column="text").tokenize(images.tokenizer())
    mixture = pf.mix({"images": (data, 0.5), "text": (text, 0.5)}, max_steps=30)
    one = loader(mixture, balance=pf.Balance(images=1), world_size=2, batch_size=2)
    costs = one.view().run.costs(np.arange(one.view().run.num_sequences))
    of_text = one.view().run.index.parts[1].num_sequences
    assert (costs[-of_text:] == 0).all()
    assert (costs[:-of_text] > 0).mean() > 0.9
    with pytest.raises(InvalidArgumentError, match="no dataset has images"):
        loader(text, balance=pf.Balance(images=1))
    plain = pf.parquet(folder, column="text").tokenize(images.tokenizer())
    with pytest.raises(InvalidArgumentError, match="no dataset has images"):
        loader(plain, balance=pf.Balance(tokens=1, images=1))


def test_states_know_what_an_image_costs(data, folder):
    balance = pf.Balance(images=1)
    state = loader(data, balance=balance).state_dict()
    other = images.dataset(folder, folder / "index")
    with pytest.raises(StateMismatchError):
        loader(other, balance=balance).load_state_dict(state)
    same = images.dataset(folder, cost=cost)
    loader(same, balance=balance).load_state_dict(state)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cost": 7}, "cost=7 must be a function"),
        ({"decoded_bytes": "3"}, "decoded_bytes='3' must be a function"),
        ({"cost": lambda *_: -1}, r"cost\(\d+, \d+\) returned -1"),
        ({"cost": lambda *_: float("nan")}, "returned nan"),
        ({"decoded_bytes": lambda *_: None}, "returned None"),
    ],
)
def test_figures_of_images_are_checked(folder, wrong, told):
    with pytest.raises(InvalidArgumentError, match=told):
        loader(images.dataset(folder, **wrong))
    with pytest.raises(InvalidArgumentError, match="images"):
        pf.Balance(images=-1)
