"""transformers' Trainer: what the model sees, and what a resume goes on with."""

import pytest

pytest.importorskip("transformers", reason="make test-trainers ARGS=transformers")

from trainers.running import EPOCH, all_rows, flat, run_job

STEPS = 14
UPDATES = 5
"""Per epoch, of three steps each, the last of two."""


@pytest.fixture(scope="module")
def runs(folder):
    """Two epochs at once, killed in the second, and from three checkpoints."""
    run_job(
        "transformers",
        folder,
        world_size=2,
        expect=-9,
        runs={"killed": None},
        die_at=7,
    )
    return run_job(
        "transformers",
        folder,
        world_size=2,
        runs={
            "whole": None,
            "middle": "whole/checkpoint-3",
            "end": "whole/checkpoint-5",
            "after": "killed/checkpoint-7",
            "twice": "middle/checkpoint-4",
        },
        trap=True,
    )


def test_every_epoch_is_seen_exactly_once(runs):
    for one in runs:
        assert len(one["whole"]["seen"]) == 2 * STEPS
        assert one["whole"]["steps"] == 2 * UPDATES
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH
    first, second = (runs[0]["whole"]["seen"][n * STEPS :][:STEPS] for n in (0, 1))
    assert flat(first) != flat(second)


@pytest.mark.parametrize(
    ("run", "step"), [("middle", 9), ("end", 14), ("after", 20), ("twice", 12)]
)
def test_a_resume_goes_on_with_the_same_samples_and_losses(runs, run, step):
    for one in runs:
        whole, resumed = one["whole"], one[run]
        assert resumed["seen"] == whole["seen"][step:]
        assert resumed["losses"] == pytest.approx(whole["losses"], rel=1e-5)
        assert resumed["epochs"] == pytest.approx(whole["epochs"])
        assert resumed["steps"] == whole["steps"]
        assert resumed["state"] == whole["state"]
        assert resumed["tokens"] == whole["tokens"] == 2 * len(EPOCH) * 32


def test_the_numbers_of_the_run_are_logged(runs):
    logged = runs[0]["whole"]["logged"]
    assert "loss" in logged


def test_a_dataset_of_batches_is_refused(runs):
    assert "pagefeed.integrations" in runs[0]["refused"]


def test_another_world_size_sees_what_is_left(runs, folder):
    [alone] = run_job(
        "transformers",
        folder,
        world_size=1,
        runs={"alone": "whole/checkpoint-3"},
        settings={"max_steps": 3 + 7},
    )
    before = all_rows(runs, "whole", 0, 9)
    rest = flat(alone["alone"]["seen"])[: len(EPOCH) - len(before)]
    assert sorted(before + rest) == EPOCH
