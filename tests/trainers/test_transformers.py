"""transformers' Trainer: what the model sees, and what a resume goes on with."""

from typing import Any

import pytest

pytest.importorskip("transformers", reason="make test-trainers ARGS=transformers")

import torch
from transformers import Trainer, TrainingArguments

import pagefeed as pf
from pagefeed.errors import LossWarning
from pagefeed.integrations.transformers import attach
from trainers.running import (
    EPOCH,
    LENGTH,
    all_rows,
    flat,
    make_loader,
    refuses_all,
    run_job,
)

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


class Model(torch.nn.Module):
    """Keeps the first tokens of what it sees."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.seen: list[list[int]] = []

    def forward(self, input_ids, labels):
        del labels
        self.seen.append(input_ids[:, 0].tolist())
        return {"loss": self.weight.sum()}


def trainer_of(folder, **options):
    settings = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": 12,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    data = options.pop("data", None)
    model = options.pop("model", None) or Model()
    arguments = TrainingArguments(**settings | options)
    return Trainer(model=model, args=arguments, train_dataset=data)


def test_a_checkpoint_made_without_pagefeed_is_placed_by_its_step(folder, tmp_path):
    ids = list(range(LENGTH))
    data = [{"input_ids": ids, "labels": ids}] * 64
    trainer_of(tmp_path, data=data, max_steps=5, save_steps=5).train()
    trainer, plain = trainer_of(tmp_path), make_loader(folder)
    attach(trainer, make_loader(folder))
    with pytest.warns(UserWarning, match=r"no position of a loader.*epoch 0, step 5"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    expected = [batch["input_ids"][:, 0].tolist() for batch in plain]
    assert trainer.model.seen == expected[5:12]


def test_wrong_arguments_are_refused(folder, tmp_path):
    trainer, loader = trainer_of(tmp_path), make_loader(folder)
    other = make_loader(folder, batch_size=2)
    cut = make_loader(
        folder,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
        context_parallel=pf.ContextParallel(0, 2),
    )
    call: Any = attach
    wrong = {
        "a transformers.Trainer": lambda: call(loader, trainer),
        "not a pagefeed Loader": lambda: call(trainer, "tokens/"),
        "format='torch'": lambda: call(trainer, make_loader(folder, format="numpy")),
        "per_device_train_batch_size is 4": lambda: call(trainer, other),
        "batch_tokens=64 counts as batch_size=2": lambda: call(
            trainer, make_loader(folder, batch_size=None, batch_tokens=64)
        ),
        "takes whole sequences": lambda: call(trainer, cut),
        "grown='later'": lambda: call(trainer, loader, grown="later"),
        "needs labels": lambda: call(
            trainer, make_loader(folder, fields=("input_ids",))
        ),
        "start='now'": lambda: call(trainer, loader, start="now"),
        "flatten=1": lambda: call(trainer, loader, flatten=1),
        "is the loader of the training": lambda: call(
            trainer, loader, evaluation=loader
        ),
        "must be a Loader, or several by name": lambda: call(
            trainer, loader, evaluation=[loader]
        ),
        "evaluation={} must": lambda: call(trainer, loader, evaluation={}),
        "evaluation={1: ": lambda: call(trainer, loader, evaluation={1: loader}),
        "every=0": lambda: call(trainer, loader, every=0),
        "evaluation='held' was given": lambda: call(
            trainer, loader, evaluation={"held": "out/"}
        ),
        "drop_last=False": lambda: call(
            trainer, loader, evaluation=make_loader(folder, batch_size=3)
        ),
    }
    refuses_all(wrong)


def test_a_model_that_hides_its_labels_is_told(folder, tmp_path):
    class Hiding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def forward(self, **batch):
            return self.model(**batch)

    for labels in (None, ["labels"]):
        trainer = trainer_of(tmp_path, label_names=labels, model=Hiding())
        held = make_loader(folder, drop_last=False)
        attach(trainer, make_loader(folder), evaluation=held)
        if labels is None:
            with pytest.warns(LossWarning, match=r"no eval_loss.*label_names="):
                assert "eval_loss" not in trainer.evaluate()
        else:
            assert "eval_loss" in trainer.evaluate()
