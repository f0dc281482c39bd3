"""Ray Train: workers die, and others of another number go on with the same steps."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

from ray import train as ray_train  # noqa: E402 - likewise
from ray.train.torch import TorchTrainer  # noqa: E402 - likewise

import pagefeed as pf  # noqa: E402
from trainers.running import TESTS, Told  # noqa: E402

PAGE = TESTS.parent / "docs/recipes/ranks-that-come-and-go-in-ray-train.md"


def loop() -> str:
    """The loop of the page."""
    [code] = re.findall(r"\n(def train_loop.*?)\n\n\n", PAGE.read_text(), re.DOTALL)
    imports = re.findall(r"^(?:import|from) .*$", PAGE.read_text(), re.MULTILINE)
    return "\n".join([*imports, code])


def train_step(batch: Any, loader: pf.Loader) -> None:
    """Write down what is trained on; the last worker dies at the end of a fit."""
    folder = Path(os.environ["TOLD"])
    with (folder / f"ids-{os.getpid()}.jsonl").open("a") as file:
        told = [loader.step - 1, loader.rank, loader.world_size, time.time()]
        print(json.dumps([*told, batch["input_ids"][:, 0].tolist()]), file=file)
    is_last = loader.rank == loader.world_size - 1
    if is_last and loader.step == int((folder / "dies").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def work(config: dict[str, Any]) -> None:
    """In a worker: the loop of the page."""
    names: dict[str, Any] = {}
    exec(config["loop"], names)
    names["train_loop"](config | {"train_step": train_step})


def fit(folder: Path, workers: int, dies_at: int) -> None:
    """Go on with the run on so many workers, until one dies or the epoch ends."""
    (folder / "dies").write_text(str(dies_at))
    trainer = TorchTrainer(
        work,
        train_loop_config={"data": str(folder / "data"), "loop": loop()},
        scaling_config=ray_train.ScalingConfig(
            num_workers=workers, resources_per_worker={"CPU": 0.5}
        ),
        run_config=ray_train.RunConfig(storage_path=str(folder / "ray"), name="run"),
    )
    if dies_at < 0:
        trainer.fit()
        return
    with pytest.raises(ray_train.TrainingFailedError):
        trainer.fit()


@pytest.mark.timeout(900)
def test_workers_of_another_number_go_on_with_the_same_steps(folder, ray_nodes):
    ray_nodes.connect(TOLD=str(folder))
    try:
        fit(folder, 2, 5)
        fit(folder, 1, 9)
        fit(folder, 3, -1)
    finally:
        ray.shutdown()
    told = Told(folder)
    loader = pf.Loader(
        pf.parquet(folder / "data", column="input_ids"),
        sequences=pf.Windows(32, tail="drop"),
        global_batch_size=6,
        seed=1,
    )
    assert told.steps == [*range(len(loader))]
    for step in range(len(loader)):
        batch = loader.at(step, rank=0, world_size=1)
        assert batch is not None
        ids = sorted(batch["input_ids"][:, 0].tolist())
        assert told.ids(step) == ids, f"step {step}"
    assert told.world_sizes() == {1, 2, 3}
