"""Accelerate: batches as they are, checkpoints, and what would shard them again."""

import warnings
from typing import Any

import pytest

pytest.importorskip("accelerate", reason="make test-trainers ARGS=accelerate")

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from pagefeed.integrations.accelerate import evaluate, prepare
from pagefeed.torch import as_dataset
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job

STEPS = 14


@pytest.fixture(scope="module")
def runs(folder):
    """Two epochs at once, killed in the second, and from checkpoints."""
    run_job(
        "accelerate",
        folder,
        world_size=2,
        expect=-9,
        runs={"killed": {}},
        save=["1-3"],
        die_at="1-5",
    )
    resumes = {
        "middle": {"resume": "whole/0-6"},
        "skipping": {"resume": "whole/0-6", "skip": True},
        "end": {"resume": "whole/1-14"},
        "after": {"resume": "killed/1-3"},
    }
    return run_job(
        "accelerate",
        folder,
        world_size=2,
        runs={"whole": {}, **resumes},
        save=["0-6", "1-14"],  # The second is at the very end of epoch 0.
        trap=True,
    )


def test_every_epoch_is_seen_exactly_once(runs):
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH
    assert all(len(one["whole"]["seen"]) == 2 * STEPS for one in runs)


def test_gradients_are_synchronised_at_the_end_of_an_epoch(runs):
    assert all(one["whole"]["updates"] == 2 * 5 for one in runs)


@pytest.mark.parametrize(
    ("run", "step"), [("middle", 6), ("skipping", 6), ("end", 14), ("after", 17)]
)
def test_a_resume_goes_on_with_the_same_samples(runs, run, step):
    for one in runs:
        assert one[run]["seen"] == one["whole"]["seen"][step:]
        assert one[run]["state"] == one["whole"]["state"]


@pytest.mark.parametrize(("run", "step"), [("middle", 6), ("end", 14)])
def test_a_resume_between_updates_has_the_same_losses(runs, run, step):
    for one in runs:
        assert one[run]["losses"] == pytest.approx(one["whole"]["losses"][step:])


def test_another_world_size_sees_what_is_left(runs, folder):
    [alone] = run_job(
        "accelerate", folder, world_size=1, runs={"alone": {"resume": "whole/0-6"}}
    )
    rows = flat(alone["alone"]["seen"])
    before = all_rows(runs, "whole", 0, 6)
    rest = len(EPOCH) - len(before)
    assert sorted(before + rows[:rest]) == EPOCH
    assert sorted(rows[rest:]) == EPOCH


def test_a_prepared_dataloader_would_feed_rank_0_alone(runs):
    silent = [sorted(flat(one["silent"])) for one in runs]
    mine = sorted(row for step in runs[0]["whole"]["seen"][:STEPS] for row in step)
    assert sorted(silent[0] + silent[1]) == mine, "nothing of rank 1"
    assert "DataLoaderDispatcher would shard that again" in runs[0]["refused"]
    assert "integrations.accelerate.prepare" in runs[0]["refused"]


def test_skipping_after_a_restored_position_would_skip_twice(runs):
    for one in runs:
        assert one["skipped twice"]["seen"] == one["whole"]["seen"][12:STEPS]
        assert one["skipping"]["seen"] == one["whole"]["seen"][6:]


def test_another_rank_is_refused(runs):
    assert "trains as data-parallel rank 1 of 2" in runs[1]["wrong rank"]


def test_wrong_arguments_are_refused(folder):
    accelerator, loader = Accelerator(cpu=True), make_loader(folder)
    wrapped = DataLoader(as_dataset(loader), batch_size=None)
    call: Any = prepare
    wrong = {
        "an accelerate.Accelerator": lambda: call(loader, accelerator),
        "not a pagefeed Loader": lambda: call(accelerator, wrapped),
        "format='torch'": lambda: call(
            accelerator, make_loader(folder, format="numpy")
        ),
        "rank 0 of 1": lambda: call(
            accelerator, make_loader(folder, rank=1, world_size=2)
        ),
    }
    model, held = torch.nn.Linear(1, 1), make_loader(folder)
    judge: Any = evaluate
    wrong |= {
        "start='hre' is unknown": lambda: call(accelerator, loader, start="hre"),
        "an accelerate.Accelerator as": lambda: judge(model, accelerator, held),
        "a torch.nn.Module as": lambda: judge(accelerator, held, model),
        "loss='mean'": lambda: judge(accelerator, model, held, loss="mean"),
        "mean loss of the batch and the logits": lambda: judge(
            accelerator, model, held, loss=lambda *_: 1.0
        ),
        "evaluation must end": lambda: judge(
            accelerator, model, make_loader(folder, epochs=None)
        ),
    }
    refuses_all(wrong)


def test_a_loader_that_no_adapter_knows_says_so(folder):
    """`accelerator.prepare` passes it through; its first batch warns."""
    accelerator, loader = Accelerator(cpu=True), make_loader(folder)
    passed = accelerator.prepare(loader)
    assert passed is loader
    with pytest.warns(UserWarning, match=r"accelerate\.prepare"):
        next(iter(passed))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(iter(passed))
        next(iter(prepare(accelerator, make_loader(folder))))
