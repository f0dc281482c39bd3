"""Megatron: the external dataloader, as far as megatron-core has a say in it."""

from typing import Any

import pytest

pytest.importorskip("megatron.core", reason="make test-trainers ARGS=megatron")

from pagefeed.integrations.megatron import MicroBatches, dataset_provider
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job

STEPS = 14


CONSUMED = [0, 6 * 8, STEPS * 8, 20 * 8]
"""In the middle of an epoch, at its end, and in the next."""


@pytest.fixture(scope="module")
def runs(folder):
    """From each place to the end of two epochs; what is saved there lies behind."""
    runs = [(consumed, 2 * STEPS - consumed // 8) for consumed in CONSUMED]
    return run_job("megatron", folder, world_size=2, runs=runs)


@pytest.fixture(scope="module")
def alone(folder):
    runs = [(consumed, 2 * (2 * STEPS - consumed // 8)) for consumed in CONSUMED]
    return run_job("megatron", folder, world_size=1, runs=runs)


def test_epochs_follow_each_other_without_end(runs):
    assert [one["ranks"] for one in runs] == [[0, 2], [1, 2]]
    for epoch in range(2):
        rows = all_rows(runs, "from 0", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH


@pytest.mark.parametrize("consumed", CONSUMED)
def test_consumed_samples_are_the_position_at_any_degree(runs, alone, consumed):
    for one in runs:
        seen = one[f"from {consumed}"]["seen"]
        assert seen == one["from 0"]["seen"][consumed // 8 :]
    before = all_rows(runs, "from 0", 0, consumed // 8)
    rest = flat(alone[0][f"from {consumed}"]["seen"])
    assert sorted(before + rest) == sorted(2 * EPOCH)


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


def test_what_was_killed_goes_on_from_its_checkpoint(folder):
    """Of a checkpoint's parts only tensors need a GPU; the samples lie in another."""
    options = {"stop": len(EPOCH), "die_at": 9}
    killed = run_job("megatron", folder, world_size=2, expect=-9, train=options)
    assert all(len(one["killed"]["seen"]) == 9 for one in killed)
    before = all_rows(killed, "killed", 0, 6)
    resumed = run_job("megatron", folder, world_size=2, train={"stop": len(EPOCH)})
    assert sorted(before + all_rows(resumed, "resumed", 0, STEPS)) == EPOCH


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
