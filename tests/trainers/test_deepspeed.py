"""DeepSpeed: an engine's loop, and its checkpoints."""

from typing import Any

import pytest

pytest.importorskip("deepspeed", reason="make test-trainers ARGS=deepspeed")

from pagefeed.integrations.deepspeed import attach
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job

STEPS = 14


@pytest.fixture(scope="module")
def runs(folder):
    run_job(
        "deepspeed", folder, world_size=2, expect=-9, runs={"killed": {}}, die_at=23
    )
    resumes = {
        "middle": {"resume": "whole-6"},
        "end": {"resume": "whole-14"},
        "after": {"resume": "killed-20"},
    }
    runs = {"whole": {}, **resumes}
    return run_job("deepspeed", folder, world_size=2, runs=runs, more=True)


def test_every_epoch_is_seen_exactly_once(runs):
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH


@pytest.mark.parametrize(("run", "step"), [("middle", 6), ("end", 14), ("after", 20)])
def test_a_resume_goes_on_with_the_same_samples_and_losses(runs, run, step):
    for one in runs:
        assert one[run]["seen"] == one["whole"]["seen"][step:]
        assert one[run]["losses"] == pytest.approx(one["whole"]["losses"][step:])


def test_repeating_loaders_go_through_the_epochs(runs):
    for one in runs:
        assert one["endless"]["seen"] == one["whole"]["seen"]


def test_another_batch_size_is_refused(runs):
    assert "train_micro_batch_size_per_gpu is 2" in runs[0]["batch size"]


def test_a_dataset_of_deepspeeds_own_loader_would_begin_anew(runs):
    for one in runs:
        assert one["silent"]["after"] == one["silent"]["before"][0]
        assert "leave training_data out" in one["refused"]


def test_ulysses_would_train_on_equal_batches_twice(runs):
    """Its adapter gathers a batch of each rank, and needs different ones."""
    assert [one["ulysses silent"]["ranks"] for one in runs] == [[0, 1]] * 2
    assert [one["ulysses gathered"]["ranks"] for one in runs] == [[0, 2], [1, 2]]
    for name, times in (("silent", 2), ("gathered", 1)):
        # A rank has its half of each sequence; the first has the first token.
        assert sorted(flat(runs[0][f"ulysses {name}"]["seen"])) == sorted(times * EPOCH)


def test_another_world_size_sees_what_is_left(runs, folder):
    resume = {"alone": {"resume": "whole-6", "epochs": 1}}
    [alone] = run_job("deepspeed", folder, world_size=1, runs=resume)
    before = all_rows(runs, "whole", 0, 6)
    assert sorted(before + flat(alone["alone"]["seen"])) == EPOCH


class Engine:
    """Has what attach looks at."""

    training_dataloader = None

    def train_micro_batch_size_per_gpu(self):
        return 4


def test_wrong_arguments_are_refused(folder):
    engine, loader = Engine(), make_loader(folder)
    call: Any = attach
    wrong = {
        "engine, *_ = deepspeed.initialize": lambda: call((engine, None), loader),
        "a DeepSpeed engine": lambda: call(loader, engine),
        "no pagefeed Loader": lambda: call(engine, "tokens/"),
        "format='torch'": lambda: call(engine, make_loader(folder, format="numpy")),
        "endless=1": lambda: call(engine, loader, endless=1),
        "ulysses_adapter='on'": lambda: call(engine, loader, ulysses_adapter="on"),
        "batch_size=2": lambda: call(engine, make_loader(folder, batch_size=2)),
    }
    refuses_all(wrong)
