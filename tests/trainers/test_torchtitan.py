"""torchtitan: its contracts before and after August 2026, and DCP at any degree."""

import pytest

pytest.importorskip("torchtitan", reason="make test-trainers ARGS=torchtitan")

import pagefeed as pf
from pagefeed.integrations.torchtitan import PagefeedDataLoader
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job

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
    places = {6: 22, 14: 14}  # In the middle of an epoch, and at its end.
    resume = list(places.items())
    same = run_job("torchtitan", folder, world_size=2, resume=resume)
    for whole, one in zip(runs, same, strict=True):
        for step in places:
            assert one[f"from {step}"]["seen"] == whole["whole"]["seen"][step:]
    resume = [(step, 2 * count) for step, count in resume]
    [alone] = run_job("torchtitan", folder, world_size=1, resume=resume)
    for step in places:
        before = all_rows(runs, "whole", 0, step)
        rest = flat(alone[f"from {step}"]["seen"])
        assert sorted(before + rest) == sorted(2 * EPOCH)


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


def test_wrong_arguments_are_refused(folder):
    fields = pf.Fields(names=("input_ids", "labels"), shifted=True)

    def build(made=None, *, make=None, **options):
        config = PagefeedDataLoader.Config(make=make or (lambda *_: made))
        sizes = {"local_batch_size": 4, "seq_len": 32}
        return config.build(dp_rank=0, dp_world_size=1, **sizes | options)

    fits = make_loader(folder, fields=fields)
    assert build(fits).loader is fits
    wrong = {
        "make=": lambda: build(make=fits),
        "no pagefeed Loader": lambda: build("tokens/"),
        "shifted=True": lambda: build(make_loader(folder)),
        "needs labels": lambda: build(make_loader(folder, fields=("input_ids",))),
        "batch_size=4": lambda: build(fits, local_batch_size=8),
        "make both alike": lambda: build(fits, seq_len=64),
        "rank 0 of 1": lambda: build(
            make_loader(folder, fields=fields, rank=1, world_size=2)
        ),
        "needs make=": lambda: PagefeedDataLoader.Config().build(
            dp_rank=0, dp_world_size=1
        ),
    }
    refuses_all(wrong)
