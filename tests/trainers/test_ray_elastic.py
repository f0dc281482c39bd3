"""Ray Train: workers die, and others of another number go on with the same steps."""

import itertools
import json
import os
import re
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

from ray import train as ray_train  # noqa: E402 - likewise
from ray.train.torch import TorchTrainer  # noqa: E402 - likewise

import pagefeed as pf  # noqa: E402
from trainers.running import TESTS  # noqa: E402

PAGE = TESTS.parent / "docs/recipes/ranks-that-come-and-go-in-ray-train.md"
PATHS = os.pathsep.join((str(TESTS.parent / "python"), str(TESTS)))


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


def lines(folder: Path) -> list[list[Any]]:
    """What was written down: step, rank, workers, time and ids."""
    return [
        json.loads(line)
        for path in folder.glob("ids-*.jsonl")
        for line in path.read_text().splitlines()
        if line.endswith("]]")
    ]


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
def test_workers_of_another_number_go_on_with_the_same_steps(folder, monkeypatch):
    # Else they wait for all that other processes of a busy machine do.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    ray.shutdown()
    environment = {"PYTHONPATH": PATHS, "TOLD": str(folder)}
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": environment},
    )
    try:
        fit(folder, 2, 5)
        fit(folder, 1, 9)
        fit(folder, 3, -1)
    finally:
        ray.shutdown()
    given: dict[int, dict[float, Any]] = defaultdict(dict)
    for step, rank, world_size, at, ids in lines(folder):
        given[step][at] = rank, world_size, ids
    loader = pf.Loader(
        pf.parquet(folder / "data", column="input_ids"),
        sequences=pf.Windows(32, tail="drop"),
        global_batch_size=6,
        seed=1,
    )
    assert sorted(given) == [*range(len(loader))]
    for step in range(len(loader)):
        batch = loader.at(step, rank=0, world_size=1)
        assert batch is not None
        last = [given[step][at] for at in sorted(given[step])]
        world_size = last[-1][1]
        parts = {rank: ids for rank, workers, ids in last if workers == world_size}
        found = sorted(itertools.chain(*parts.values()))
        assert found == sorted(batch["input_ids"][:, 0].tolist()), f"step {step}"
    assert {each[2] for each in lines(folder)} == {1, 2, 3}
