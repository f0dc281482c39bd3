"""Megatron: the external dataloader, as far as megatron-core has a say in it."""

import pytest

pytest.importorskip("megatron.core", reason="make test-trainers ARGS=megatron")

from trainers.running import EPOCH, all_rows, flat, run_job

STEPS = 14


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("megatron", folder, world_size=2, steps=31)


def test_epochs_follow_each_other_without_end(runs):
    assert [one["ranks"] for one in runs] == [[0, 2], [1, 2]]
    for epoch in range(2):
        rows = all_rows(runs, "run", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH


@pytest.mark.parametrize("step", [6, 14, 20])
def test_consumed_samples_are_the_position_at_any_degree(runs, folder, step):
    [alone] = run_job(
        "megatron", folder, world_size=1, consumed=step * 8, steps=2 * (28 - step)
    )
    before = all_rows(runs, "run", 0, step)
    assert sorted(before + flat(alone["run"]["seen"])) == sorted(2 * EPOCH)


def test_a_saved_state_goes_on(runs):
    for one in runs:
        assert len(one["saved"]["seen"]) == 3
        assert one["saved"]["seen"] != one["run"]["seen"][:3]


def test_tensor_parallel_ranks_share_batches(runs):
    assert [one["tensor ranks"] for one in runs] == [[0, 1], [0, 1]]
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
