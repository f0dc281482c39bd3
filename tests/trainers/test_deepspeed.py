"""DeepSpeed: its own loaders and adapters; an engine's loop runs in the matrix."""

from typing import Any

import pytest

pytest.importorskip("deepspeed", reason="make test-trainers ARGS=deepspeed")

from pagefeed.integrations.deepspeed import attach
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("deepspeed", folder, world_size=2)


def test_repeating_loaders_go_through_the_epochs(runs):
    for epoch in range(2):
        assert all_rows(runs, "endless", 14 * epoch, 14 * (epoch + 1)) == EPOCH


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


class Engine:
    """Has what attach looks at."""

    training_dataloader = None

    def __init__(self):
        import torch

        self.module = torch.nn.Identity()

    def train_micro_batch_size_per_gpu(self):
        return 4


def test_wrong_arguments_are_refused(folder):
    engine, loader = Engine(), make_loader(folder)
    call: Any = attach
    wrong = {
        "engine, *_ = deepspeed.initialize": lambda: call((engine, None), loader),
        "a DeepSpeed engine": lambda: call(loader, engine),
        "not a pagefeed Loader": lambda: call(engine, "tokens/"),
        "format='torch'": lambda: call(engine, make_loader(folder, format="numpy")),
        "endless=1": lambda: call(engine, loader, endless=1),
        "ulysses_adapter='on'": lambda: call(engine, loader, ulysses_adapter="on"),
        "batch_size=2": lambda: call(engine, make_loader(folder, batch_size=2)),
    }
    refuses_all(wrong)
