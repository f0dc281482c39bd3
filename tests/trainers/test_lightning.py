"""Lightning: the data module resumes where the framework alone would not."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("lightning", reason="make test-trainers ARGS=lightning")

import lightning
import torch

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.lightning import LoaderDataModule, setup_loader
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


@pytest.fixture(scope="module")
def runs(folder):
    """Epochs in one go, killed, resumed, and without the data module."""
    run_job(
        "lightning", folder, world_size=2, expect=-9, runs={"killed": {}}, die_at=17
    )
    return run_job(
        "lightning",
        folder,
        world_size=2,
        runs={
            "whole": {"validate": True},
            "middle": {"resume": "whole/step=6.ckpt"},
            "end": {"resume": "whole/end-epoch=0.ckpt"},
            "after": {"resume": "killed/step=15.ckpt"},
            "twice": {"resume": "middle/step=9.ckpt"},
            "estimated": {"resume": "whole/step=6.ckpt", "estimated": True},
            "bare estimated": {
                "resume": "whole/step=6.ckpt",
                "estimated": True,
                "bare": True,
            },
            "bare end": {"resume": "whole/end-epoch=0.ckpt", "bare": True},
            "limited": {"limit_train_batches": 4, "max_epochs": 5},
            "limited on": {
                "limit_train_batches": 4,
                "max_epochs": 5,
                "resume": "limited/step=6.ckpt",
            },
            "bare limited": {"limit_train_batches": 4, "max_epochs": 2, "bare": True},
            "steps": {"max_steps": 20, "max_epochs": -1, "loader": {"epochs": None}},
            "bare steps": {
                "max_steps": 20,
                "max_epochs": -1,
                "loader": {"epochs": None},
                "bare": True,
            },
            "bare steps on": {
                "max_steps": 20,
                "max_epochs": -1,
                "loader": {"epochs": None},
                "resume": "bare steps/step=15.ckpt",
                "bare": True,
            },
            "steps on": {
                "max_steps": 20,
                "max_epochs": -1,
                "loader": {"epochs": None},
                "resume": "steps/step=15.ckpt",
            },
        },
        fabric=True,
        refused=True,
    )


def test_every_epoch_is_seen_exactly_once(runs):
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH
    assert all(len(one["whole"]["seen"]) == 2 * STEPS for one in runs)


@pytest.mark.parametrize(
    ("run", "step"),
    [("middle", 6), ("estimated", 6), ("end", 14), ("after", 15), ("twice", 9)],
)
def test_a_resume_goes_on_with_the_same_samples_and_losses(runs, run, step):
    for one in runs:
        assert one[run]["seen"] == one["whole"]["seen"][step:]
        assert one[run]["losses"] == pytest.approx(one["whole"]["losses"][step:])
        assert one[run]["state"] == one["whole"]["state"]


def test_without_the_data_module_an_epoch_is_replayed_after_its_end(runs):
    for one in runs:
        assert one["bare end"]["seen"] == one["whole"]["seen"][:STEPS]


def test_without_the_data_module_an_estimate_of_the_steps_loses_the_position(runs):
    for one in runs:
        assert one["bare estimated"]["seen"][:8] == one["whole"]["seen"][:8]


def test_a_limited_epoch_is_the_next_batches(runs):
    for one in runs:
        assert one["limited"]["seen"] == one["whole"]["seen"][:20]
        assert one["limited on"]["seen"] == one["whole"]["seen"][6:20]
        replayed = one["bare limited"]["seen"]
        assert replayed[4:] == replayed[:4] == one["whole"]["seen"][:4]


def test_endless_loaders_are_driven_by_steps(runs):
    for one in runs:
        assert one["steps"]["seen"] == one["whole"]["seen"][:20]
        assert one["steps on"]["seen"] == one["whole"]["seen"][15:20]


def test_without_the_data_module_an_endless_loader_is_saved_a_batch_too_far(runs):
    for one in runs:
        assert one["bare steps"]["seen"] == one["whole"]["seen"][:20]
        assert one["bare steps on"]["seen"] == one["whole"]["seen"][16:21]


def test_validation_sees_the_same_batches_every_time(runs):
    for one in runs:
        validated = one["whole"]["validated"]
        assert validated[:STEPS] == validated[STEPS:] == one["whole"]["seen"][:STEPS]


def test_fabric_saves_and_restores_the_position(runs):
    for one in runs:
        assert one["fabric"]["seen"] == one["whole"]["seen"][:STEPS]
        resumed = one["fabric resumed"]
        assert resumed["seen"] == one["fabric"]["seen"][6:]
        assert resumed["losses"] == pytest.approx(one["fabric"]["losses"][6:])


def test_another_rank_is_refused(runs):
    assert "trains as data-parallel rank 1 of 2" in runs[1]["wrong rank"]


def test_another_world_size_sees_what_is_left(runs, folder):
    [alone] = run_job(
        "lightning",
        folder,
        world_size=1,
        runs={
            "alone": {
                "resume": "whole/step=6.ckpt",
                "max_steps": 6 + 16,
                "max_epochs": -1,
            }
        },
    )
    before = all_rows(runs, "whole", 0, 6)
    assert sorted(before + flat(alone["alone"]["seen"])) == EPOCH


def test_wrong_arguments_are_refused(folder):
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    loader, other = make_loader(folder), make_loader(folder, rank=1, world_size=2)
    module: Any = LoaderDataModule
    setup: Any = setup_loader

    def make_never(rank: int, world_size: int) -> pf.Loader:
        raise AssertionError((rank, world_size))

    wrong = {
        "train='tokens/' must be a function": lambda: module(train="tokens/"),
        "evaluation=4 must be a function": lambda: module(train=loader, evaluation=4),
        "evaluation=[4] must be a Loader": lambda: module(train=loader, evaluation=[4]),
        "evaluation={} must be a Loader": lambda: module(train=loader, evaluation={}),
        "evaluation['a']=3 must be a function": lambda: module(
            train=loader, evaluation={"a": 3}
        ),
        "every=0 must be": lambda: module(train=loader, every=0),
        "policy={'web': 1}": lambda: module(train=make_never, policy={"web": 1}),
        "grown='later' is unknown": lambda: module(train=loader, grown="later"),
        "start='hre' is unknown": lambda: module(train=loader, start="hre"),
        "a lightning.Fabric": lambda: setup(loader, fabric),
        "not a pagefeed Loader": lambda: setup(fabric, [loader]),
        "rank 0 of 1": lambda: setup(fabric, other),
        "format='torch'": lambda: setup(fabric, make_loader(folder, format="numpy")),
    }
    refuses_all(wrong)


class Module(lightning.LightningModule):
    """Keeps the first tokens of what it sees."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.seen: list[list[int]] = []

    def training_step(self, batch, _):
        self.seen.append(batch["input_ids"][:, 0].tolist())
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer_of(folder, **options):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **options,
    )


def test_a_checkpoint_made_without_pagefeed_is_placed_by_its_step(folder, tmp_path):
    first = trainer_of(tmp_path, max_steps=5)
    rows: Any = [{"input_ids": torch.zeros(LENGTH)}] * 112
    first.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=4))
    first.save_checkpoint(tmp_path / "theirs.ckpt")
    module, plain = Module(), make_loader(folder)
    data = LoaderDataModule(train=make_loader(folder))
    with pytest.warns(UserWarning, match=r"no position of a loader.*epoch 0, step 5"):
        trainer_of(tmp_path, max_steps=12).fit(
            module, datamodule=data, ckpt_path=tmp_path / "theirs.ckpt"
        )
    expected = [batch["input_ids"][:, 0].tolist() for batch in plain]
    assert module.seen == expected[5:12]


def test_batches_that_are_resumed_are_not_said_to_be_unreliable(folder, tmp_path):
    def fit(max_steps, resume=None):
        module, trainer = Module(), trainer_of(tmp_path, max_steps=max_steps)
        data = LoaderDataModule(train=make_loader(folder))
        trainer.fit(module, datamodule=data, ckpt_path=resume)
        trainer.save_checkpoint(tmp_path / "ours.ckpt")
        return module.seen

    whole = fit(5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        whole += fit(12, resume=tmp_path / "ours.ckpt")
    assert not [each for each in told if "not resumable" in str(each.message)]
    plain = [batch["input_ids"][:, 0].tolist() for batch in make_loader(folder)]
    assert whole == plain[:12]


def test_layers_with_a_state_are_refused(folder, tmp_path):
    module = Module()
    module.model = torch.nn.Linear(1, 1)
    module.model.config = SimpleNamespace(layer_types=["linear_attention"])
    loader = make_loader(folder, fields=("input_ids", "position_ids"))
    for leak in ("refused", "allowed"):
        data = LoaderDataModule(train=loader, leak=leak)
        trainer = trainer_of(tmp_path, max_steps=1)
        if leak == "allowed":
            trainer.fit(module, datamodule=data)
            continue
        with pytest.raises(InvalidArgumentError, match=r"linear_attention.*Lightning"):
            trainer.fit(module, datamodule=data)


def test_losses_of_a_mixture_ask_for_the_logits(folder):
    part = pf.parquet(folder / "data", column="input_ids")
    mixed = make_loader(
        folder, data=pf.mix({"all": part}, max_epochs={"all": 1}), drop_last=False
    )
    data = LoaderDataModule(train=make_loader(folder), evaluation=mixed)
    with pytest.raises(InvalidArgumentError, match="logits=logits"):
        data.log_losses(Module(), next(iter(mixed)), torch.zeros(()))
