"""Ray: workers of Ray Train on any number, and sequences in Ray Data."""

import json
import os
import signal
import tempfile
from importlib import import_module
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

import torch  # noqa: E402 - it comes with it
from ray import train as ray_train  # noqa: E402 - likewise
from ray.train.torch import TorchTrainer, prepare_data_loader  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import pagefeed as pf  # noqa: E402
from trainers.running import (  # noqa: E402
    EPOCH,
    LENGTH,
    flat,
    refuses_all,
    shown_block,
)

STEPS = 14


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_nodes):
    """Two nodes, and this process their driver."""
    ray_nodes.connect()
    yield
    ray.shutdown()


def make_loader(config):
    from pagefeed.integrations.ray import ranks

    return pf.Loader(
        pf.parquet(config["data"], column="input_ids"),
        sequences=pf.Windows(LENGTH),
        batch_size=4,
        seed=5,
        format="torch",
        num_threads=1,
        **ranks()._asdict(),
    )


def work(config):
    """In a worker: an epoch, a checkpoint on the way, what was seen beside it."""
    from pagefeed.integrations.ray import ranks, restore

    loader, rank = make_loader(config), ranks().rank
    resumed = restore(loader, config["resume"])
    loader.check_ranks()
    seen = []
    for batch in loader:
        seen.append(batch["input_ids"][:, 0].tolist())
        if loader.step == config["die_at"] and not resumed:
            write(config, rank, seen, "-killed")
            ray_train.get_all_reported_checkpoints()  # Waits until they are kept.
            torch.distributed.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
        if loader.step == config["stop"]:
            break
        if loader.step == config["save_at"]:
            report(loader, rank)
    write(config, rank, seen)
    if config["then"] is not None:
        after = make_loader(config)
        assert restore(after, config["then"])
        rows = [batch["input_ids"][:, 0].tolist() for batch in after]
        write(config, rank, rows, "-after")
    report(loader, rank, resumed=resumed)


def work_prepared(config):
    """In a worker: what a state says behind Ray's own wrapper, and that it is refused.

    Three batches are trained on, then the position is resumed.
    """
    from pagefeed.errors import InvalidArgumentError
    from pagefeed.torch import as_dataset

    loader, again = make_loader(config), make_loader(config)
    dataset = DataLoader(as_dataset(loader), batch_size=None)
    prepared = prepare_data_loader(dataset)
    refused = ""
    try:
        next(iter(prepared))
    except InvalidArgumentError as error:
        refused = str(error)
    module: Any = import_module("pagefeed.torch")
    module.check_readers = lambda _: None
    seen = [batch["input_ids"][:, 0].tolist() for batch in islice(prepared, 3)]
    again.load_state_dict(loader.state_dict())
    after = [batch["input_ids"][:, 0].tolist() for batch in again]
    rank = ray_train.get_context().get_world_rank()
    write(config, rank, {"seen": seen, "after": after, "refused": refused})


def work_learning(config):
    """In a worker: the loop that the guide shows, under a policy."""
    from pagefeed.integrations.ray import ranks

    whole = pf.parquet(config["data"], column="input_ids")
    parts = whole.split(a=0.5, b=0.5, seed=1)
    loader = pf.Loader(
        pf.mix({name: (part, 1.0) for name, part in parts.items()}, max_steps=6),
        sequences=pf.Windows(LENGTH),
        batch_size=4,
        seed=5,
        format="torch",
        num_threads=1,
        fields=("input_ids", "labels", "dataset_ids"),
        **ranks()._asdict(),
    )
    steps = []

    def train_step(batch):
        draw = torch.Generator().manual_seed(100 * loader.step + loader.rank)
        logits = torch.randn(4, LENGTH, 4096, generator=draw)
        losses = torch.nn.functional.cross_entropy(
            logits[:, :-1].transpose(1, 2), batch["labels"][:, 1:], reduction="none"
        )
        kept = batch["labels"][:, 1:] != -100
        own = [kept & (batch["dataset_ids"] == number)[:, None] for number in (0, 1)]
        steps.append([[float(losses[each].sum()), int(each.sum())] for each in own])
        return logits

    class Larger:
        """Weights as the losses are."""

        def update(self, step, losses):
            del step
            return dict(losses)

    policy = Larger()
    names = {"pf": pf, "loader": loader, "policy": policy, "train_step": train_step}
    with patch("ray.train.report", wraps=ray_train.report) as report:
        exec(shown_block("Ray", every=3), names)
    logged = [call.args[0] for call in report.call_args_list]
    weights = pf.reports.mixture_weights(loader)
    found = {"steps": steps, "logged": logged, "weights": weights}
    write(config, loader.rank, found)


def write(config, rank, seen, kind=""):
    with open(f"{config['seen']}-{rank}{kind}.json", "w", encoding="utf-8") as file:
        json.dump(seen, file)


def report(loader, rank, **metrics):
    from pagefeed.integrations.ray import save

    with tempfile.TemporaryDirectory() as folder:
        save(loader, folder)
        checkpoint = ray_train.Checkpoint.from_directory(folder) if rank == 0 else None
        ray_train.report({"step": loader.step, **metrics}, checkpoint=checkpoint)


def train(folder, name, workers, resume=None, then=None, work=work, **steps):
    config = {
        "data": str(folder / "data"),
        "seen": str(folder / name),
        "resume": resume,
        "then": then,
        "stop": None,
        "save_at": None,
        "die_at": None,
    }
    result = TorchTrainer(
        work,
        train_loop_config=config | steps,
        scaling_config=ray_train.ScalingConfig(num_workers=workers),
        run_config=ray_train.RunConfig(
            storage_path=str(folder / "ray"),
            name=name,
            failure_config=ray_train.FailureConfig(max_failures=int("die_at" in steps)),
        ),
    ).fit()
    return result, written(folder, name, workers)


def written(folder, name, workers, kind=""):
    return [
        json.loads((folder / f"{name}-{rank}{kind}.json").read_text())
        for rank in range(workers)
    ]


def test_workers_resume_on_another_number_of_them(folder):
    whole, all_seen = train(folder, "whole", 2)
    assert not whole.metrics["resumed"]
    assert sorted(row for seen in all_seen for row in flat(seen)) == EPOCH
    stopped, begun = train(folder, "stopped", 2, stop=6)
    assert begun == [seen[:6] for seen in all_seen]
    ends = {"resume": stopped.checkpoint, "then": whole.checkpoint}
    resumed, [rest] = train(folder, "alone", 1, **ends)
    assert resumed.metrics["resumed"]
    assert sorted(flat([flat(seen) for seen in begun] + rest)) == EPOCH
    [after] = written(folder, "alone", 1, "-after")
    assert sorted(flat(after)) == EPOCH, "the state of an epoch's end begins the next"
    assert flat(after) != sorted(flat(after))
    assert after[0] not in (all_seen[0][0], all_seen[1][0])


def test_workers_that_were_killed_go_on_from_the_last_checkpoint(folder):
    """Ray starts others in their place."""
    result, rest = train(folder, "failed", 2, save_at=6, die_at=9)
    killed = written(folder, "failed", 2, "-killed")
    assert result.metrics["resumed"]
    assert [len(seen) for seen in (*killed, *rest)] == [9, 9, 8, 8]
    before = [row for seen in killed for row in flat(seen[:6])]
    assert sorted(before + [row for seen in rest for row in flat(seen)]) == EPOCH


def test_losses_of_datasets_are_means_over_all_workers(folder):
    _, found = train(folder, "learning", 2, work=work_learning)
    assert found[0]["weights"] == found[1]["weights"]
    assert [step for step, _ in found[0]["weights"]] == [0, 3, 6]
    assert found[0]["logged"] == found[1]["logged"]
    assert len(found[0]["logged"]) == 6
    for step, logged in enumerate(found[0]["logged"]):
        for number, name in enumerate("ab"):
            sums = [one["steps"][step][number] for one in found]
            total, count = map(sum, zip(*sums, strict=True))
            expected = pytest.approx(total / count) if count else None
            assert logged.get(f"loss/{name}") == expected


def test_a_prepared_loader_would_be_saved_a_batch_too_far(folder):
    """Of an epoch a batch of each worker would be lost at every resume."""
    _, found = train(folder, "prepared", 2, work=work_prepared)
    for one in found:
        assert len(one["seen"]) + len(one["after"]) == STEPS - 1
        assert "fetches a batch ahead" in one["refused"]


def test_wrong_arguments_are_refused(folder):
    calls: Any = import_module("pagefeed.integrations.ray")
    wrong = {
        "save was given": lambda: calls.save("tokens/", folder),
        "restore was given": lambda: calls.restore([]),
    }
    refuses_all(wrong)
