"""A storm of replica groups of torchft: no sequence is lost, none comes twice.

``FLEET_SECONDS`` says how long members are killed; more than in CI by hand.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pagefeed.errors import InvalidArgumentError
from trainers.running import JOBS, TESTS, make_loader, refuses_all, write_data

torch = pytest.importorskip("torch", reason="make test-trainers ARGS=torchft")
torchft = pytest.importorskip("torchft", reason="make test-trainers ARGS=torchft")
from torchft.coordination import LighthouseServer  # noqa: E402

from pagefeed.integrations.torchft import QuorumFeed  # noqa: E402
from trainers import fleet  # noqa: E402

SECONDS = float(os.environ.get("FLEET_SECONDS", "20"))
STEPS = int(os.environ.get("FLEET_STEPS", "300"))
REPLICAS = 3


class Replicas:
    """Processes, a replica group each, that are started again when they die."""

    def __init__(self, folder: Path, lighthouse: str) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "TORCHFT_LIGHTHOUSE": lighthouse,
            "PYTHONPATH": os.pathsep.join(
                [str(TESTS), os.environ.get("PYTHONPATH", "")]
            ),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "localhost",
            "RANK": "0",
            "WORLD_SIZE": "1",
        }
        self.output = (folder / "output.txt").open("a")
        self.running = [self.start(number) for number in range(REPLICAS)]

    def start(self, number: int) -> subprocess.Popen[bytes]:
        store = torch.distributed.TCPStore("localhost", 0, is_master=True)
        stores.append(store)
        argv = [sys.executable, str(JOBS / "run_torchft.py"), str(self.folder)]
        return subprocess.Popen(
            [*argv, f"replica{number}", str(STEPS)],
            env=self.environment | {"MASTER_PORT": str(store.port)},
            stdout=self.output,
            stderr=self.output,
        )

    def has_trained(self, number: int) -> bool:
        """Whether a member, as it was started last, has committed a step."""
        path = self.folder / f"replica{number}-{self.running[number].pid}.jsonl"
        return path.exists() and "committed" in path.read_text()

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        self.output.close()


stores: list[Any] = []


def storm(replicas: Replicas, draw: random.Random) -> int:
    """Kill members and start others, until one has seen all steps committed."""
    kills, end, last = 0, time.monotonic() + SECONDS, time.monotonic() + SECONDS + 200
    while not list(replicas.folder.glob("*.weights.json")):
        assert time.monotonic() < last, tail(replicas.folder)
        time.sleep(draw.uniform(0.2, 1.0))
        for number, process in enumerate(replicas.running):
            if process.poll() is not None:
                replicas.running[number] = replicas.start(number)
        # One at a time: the weights live in the others.
        if time.monotonic() < end and all(map(replicas.has_trained, range(REPLICAS))):
            replicas.running[draw.randrange(REPLICAS)].send_signal(signal.SIGKILL)
            kills += 1
    return kills


def tail(folder: Path) -> str:
    return (folder / "output.txt").read_text()[-4000:]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
        if line.endswith("}")
    ]


def test_a_storm_loses_no_sequence_and_repeats_none(tmp_path):
    write_data(tmp_path)
    lighthouse = LighthouseServer(
        bind="[::]:0", min_replicas=2, join_timeout_ms=500, heartbeat_timeout_ms=1500
    )
    replicas = Replicas(tmp_path, lighthouse.address())
    try:
        kills = storm(replicas, random.Random(1))
    finally:
        replicas.end()
        lighthouse.shutdown()
    lines = lines_of(tmp_path)
    given: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    committed: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        if "committed" in line:
            committed[line["step"]].add(line["quorum"])
        elif line["place"][0] is not None:
            given[line["step"], line["quorum"]][line["place"][0]] = line["ids"]
    alone = fleet.make_loader(tmp_path)
    weights = torch.zeros(fleet.LENGTH, dtype=torch.float64)
    assert sorted(committed) == [*range(STEPS)], tail(tmp_path)
    for step in range(STEPS):
        batch = alone.at(step, rank=0, world_size=1)
        assert batch is not None
        wanted = sorted(batch["input_ids"][:, 0].tolist())
        [quorum] = committed[step]
        parts = given[step, quorum].values()
        assert sorted(itertools.chain(*parts)) == wanted, f"step {step}"
        weights -= 0.1 * fleet.gradient(weights, batch["input_ids"])
    reports = list(tmp_path.glob("*.weights.json"))
    assert reports, tail(tmp_path)
    for path in reports:
        found = torch.tensor(json.loads(path.read_text()), dtype=torch.float64)
        assert torch.allclose(found, weights, rtol=0, atol=1e-12)
    assert kills > 0
    print(f"{kills} kills, {len(lines)} lines")


class Quorum:
    """What a manager says of one."""

    def __init__(self) -> None:
        self.place: tuple[int | None, int] = (0, 1)
        self.step, self.healthy = 0, True
        self.fns: dict[str, Any] = {}

    def current_step(self) -> int:
        return self.step

    def participating_rank(self) -> int | None:
        return self.place[0]

    def num_participants(self) -> int:
        return self.place[1]

    def is_participating(self) -> bool:
        return self.place[0] is not None and self.healthy

    def register_state_dict_fn(self, key: str, load: Any, save: Any) -> None:
        self.fns[key] = (load, save)


def test_the_feed_asks_for_the_step_at_the_place_of_the_quorum(tmp_path):
    write_data(tmp_path)
    options: dict[str, Any] = {"batch_size": None, "global_batch_size": 8}
    quorum, loader = Quorum(), make_loader(tmp_path, **options)
    feed, plain = (
        QuorumFeed(quorum, loader, rank=1, world_size=2),
        make_loader(tmp_path, **options),
    )
    for step, place in [(0, (0, 1)), (0, (1, 3)), (1, (2, 3)), (5, (0, 2))]:
        quorum.step, quorum.place = step, place
        batch = feed.batch()
        assert batch is not None
        assert place[0] is not None
        wanted = plain.at(step, rank=2 * place[0] + 1, world_size=2 * place[1])
        assert wanted is not None
        assert torch.equal(batch["input_ids"], wanted["input_ids"])
        assert feed.weight == plain.weight
    quorum.place = (None, 2)
    assert feed.batch() is None
    assert feed.weight == 0
    quorum.place, quorum.healthy = (0, 2), False
    with pytest.raises(InvalidArgumentError, match="init_sync=False"):
        feed.batch()
    load, save = quorum.fns["pagefeed"]
    load(save())
    assert loader.step == 5


def test_a_loader_of_one_number_of_ranks_is_refused(tmp_path):
    write_data(tmp_path)
    with pytest.raises(InvalidArgumentError, match="global_batch_size"):
        QuorumFeed(Quorum(), make_loader(tmp_path))
    options: dict[str, Any] = {"batch_size": None, "global_batch_size": 8}
    loader: Any = make_loader(tmp_path, **options)
    refuses_all(
        {
            "which is not a pagefeed Loader": lambda: QuorumFeed(loader, Quorum()),  # type: ignore[arg-type]
            "found None, expected QuorumFeed(manager, loader)": lambda: QuorumFeed(
                None,  # type: ignore[arg-type]
                loader,
            ),
            "rank=1 must be a whole number": lambda: QuorumFeed(
                Quorum(), loader, rank=1
            ),
            "world_size=0 must be": lambda: QuorumFeed(Quorum(), loader, world_size=0),
        }
    )
