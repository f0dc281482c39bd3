"""Megatron: the external dataloader, as far as megatron-core has a say in it."""

from typing import Any

import pytest

pytest.importorskip("megatron.core", reason="make test-trainers ARGS=megatron")

from pagefeed.integrations.megatron import MicroBatches, dataset_provider
from trainers.running import make_loader, refuses_all, run_job


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("megatron", folder, world_size=2)


def test_a_saved_state_goes_on(runs):
    for one in runs:
        assert one["saved"]["seen"] == one["last"]["seen"]


def test_tensor_parallel_ranks_share_batches(runs):
    assert [one["tensor ranks"] for one in runs] == [[0, 1], [0, 1]]
    assert runs[0]["peers"] == runs[1]["peers"]
    assert runs[0]["silent"] != runs[1]["silent"]
    for one in runs:
        assert "processes 0 and 1 need the same batches" in one["by RANK"]


def test_what_does_not_fit_is_refused(runs):
    assert "epochs=None" in runs[0]["finite"]
    assert "format='torch'" in runs[0]["numpy"]


def test_wrong_arguments_are_refused(folder):
    loader = make_loader(folder)
    provider: Any = dataset_provider
    batches: Any = MicroBatches
    wrong = {
        "train=": lambda: provider(loader),
        "valid='same'": lambda: provider(make_loader, "same"),
        "consumed_samples=64": lambda: provider(make_loader, consumed_samples=64),
        "no pagefeed Loader": lambda: batches("tokens/"),
        "needs loss_mask, position_ids": lambda: batches(loader),
    }
    refuses_all(wrong)
