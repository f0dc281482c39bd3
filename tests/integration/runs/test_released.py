"""A change of the data that a resumed run delivers fails here: see released.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from models import released

PINNED: dict[str, Any] = json.loads(released.PINNED.read_text())


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> released.Released:
    folder: Path = tmp_path_factory.mktemp("released")
    return released.Released(folder)


def test_everything_is_pinned(now):
    assert set(PINNED["orders"]) == {*released.SHUFFLES, *released.BALANCES}
    assert set(PINNED["batches"]) == {*released.SEQUENCES, *released.BUDGETS}
    assert set(PINNED["states"]) == set(now.runs())


@pytest.mark.parametrize("kind", ["orders", "batches", "packings", "splits", "blocks"])
def test_it_is_as_released(now, kind):
    assert getattr(now, kind)() == PINNED[kind]


@pytest.mark.parametrize("name", list(PINNED["states"]))
def test_a_released_state_goes_on_with_the_same_batches(now, name):
    pinned = PINNED["states"][name]
    assert now.rest(name, pinned["state"]) == pinned["rest"]
    assert now.saved(name) == pinned
