"""torchtitan: its contracts before and after August 2026, and DCP at any degree."""

import pytest

pytest.importorskip("torchtitan", reason="make test-trainers ARGS=torchtitan")

from trainers.running import EPOCH, all_rows, flat, run_job

STEPS = 14


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("torchtitan", folder, world_size=2)


def test_epochs_follow_each_other_without_end(runs):
    assert [one["ranks"] for one in runs] == [[0, 2], [1, 2]]
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH


def test_newer_releases_get_tokens_in_one_row(runs):
    assert runs[0]["joined"] == [[128], [128]]


def test_labels_that_are_not_shifted_are_refused(runs):
    assert "shifted=True" in runs[0]["not shifted"]


def test_a_distributed_checkpoint_resumes_at_both_degrees(runs, folder):
    same = run_job("torchtitan", folder, world_size=2, resume=22)
    for whole, one in zip(runs, same, strict=True):
        assert one["resumed"]["seen"] == whole["whole"]["seen"][6:]
    [alone] = run_job("torchtitan", folder, world_size=1, resume=16)
    before = all_rows(runs, "whole", 0, 6)
    assert sorted(before + flat(alone["resumed"]["seen"])) == EPOCH


def test_what_was_killed_goes_on_from_the_last_checkpoint(folder):
    """torchtitan's manager saves model, optimizer and data together."""
    options = {"name": "killed", "stop": STEPS, "die_at": 9}
    killed = run_job("torchtitan", folder, world_size=2, expect=-9, train=options)
    assert all(len(one["killed"]["seen"]) == 9 for one in killed)
    options = {"name": "resumed", "stop": STEPS}
    resumed = run_job("torchtitan", folder, world_size=2, train=options)
    assert all(one["resumed"]["resumed"] for one in resumed)
    before = all_rows(killed, "killed", 0, 6)
    assert sorted(before + all_rows(resumed, "resumed", 0, STEPS)) == EPOCH
