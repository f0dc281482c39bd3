"""torchrun's elastic restarts: a node dies, another joins, and no step changes.

The environment of torchft has all that it takes. The program is the one of the recipe.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from made.launched import free_port
from trainers.running import TESTS, Told, write_data

pytest.importorskip("torchft", reason="make test-trainers ARGS=torchft")

import torch

import pagefeed as pf

PAGE = TESTS.parent / "docs/recipes/ranks-that-come-and-go-with-torchrun.md"
STEPS = 120
TOLD = """
    with open(f"ids-{os.getpid()}.jsonl", "a") as file:
        told = [loader.step - 1, loader.rank, loader.world_size, time.time()]
        print(json.dumps([*told, batch["input_ids"][:, 0].tolist()]), file=file)
    while loader.step > int(Path("limit").read_text()):
        time.sleep(0.02)
"""
"""A step waits until it may be taken: machines are slow, and nodes come late."""


def program() -> str:
    """The program of the page, which also writes down what it trains on."""
    block = r'```python title="train.py"\n(.*?)```'
    [code] = re.findall(block, PAGE.read_text(), re.DOTALL)
    code = code.replace("STEPS, CHECKPOINT = 60", f"STEPS, CHECKPOINT = {STEPS}")
    code = code.replace("corpus/web", "data")
    loop = "for batch in loader:\n"
    assert loop in code
    return "import json\nimport time\n" + code.replace(loop, loop + TOLD.lstrip("\n"))


class Node:
    """A node: an agent of torchrun, and its worker."""

    def __init__(self, folder: Path, port: int) -> None:
        self.output = (folder / "output.txt").open("a")
        conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "9"),
                *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"),
                *("--rdzv-conf", conf, "--monitor-interval", "0.2", "train.py"),
            ],
            cwd=folder,
            stdout=self.output,
            stderr=self.output,
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
            start_new_session=True,
        )

    def kill(self) -> None:
        """As when the machine is gone: agent and worker at once."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        try:
            workers = [int(each) for each in children.read_text().split()]
        except OSError:
            workers = []
        for pid in (self.process.pid, *workers):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self.output.close()


def wait(folder: Path, num_ranks: int, since: float) -> None:
    """Wait until so many ranks train."""
    end = time.monotonic() + 240
    while num_ranks not in Told(folder).world_sizes(since):
        assert time.monotonic() < end, (folder / "output.txt").read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.timeout(900)
def test_nodes_of_torchrun_die_and_join_and_no_step_changes(tmp_path):
    write_data(tmp_path)
    (tmp_path / "train.py").write_text(program())
    limit, port = tmp_path / "limit", free_port()

    def may_go_on(steps: int) -> None:
        (tmp_path / "next").write_text(str(steps))
        (tmp_path / "next").rename(limit)

    may_go_on(10)
    nodes = [Node(tmp_path, port)]
    try:
        wait(tmp_path, 1, 0.0)  # The first one has the store.
        nodes.append(Node(tmp_path, port))
        wait(tmp_path, 2, 0.0)
        may_go_on(40)
        time.sleep(1)
        nodes[1].kill()
        may_go_on(70)  # The other one hears of it where gradients are added up.
        wait(tmp_path, 1, time.time())
        nodes[1] = Node(tmp_path, port)
        wait(tmp_path, 2, time.time())
        may_go_on(STEPS)
        assert nodes[0].process.wait(120) == 0
    finally:
        for node in nodes:
            node.kill()
    told = Told(tmp_path)
    loader = pf.Loader(
        pf.parquet(tmp_path / "data", column="input_ids"),
        sequences=pf.Windows(32, tail="drop"),
        global_batch_size=12,
        seed=1,
        epochs=None,
        format="torch",
    )
    weights = torch.zeros(32, dtype=torch.float64)
    for step in range(STEPS):
        batch = loader.at(step, rank=0, world_size=1)
        assert batch is not None
        ids = sorted(batch["input_ids"][:, 0].tolist())
        assert told.ids(step) == ids, f"step {step}"
        rows = batch["input_ids"].double() / 1000
        weights -= 0.1 * (torch.sin(rows + weights) * rows).mean(dim=0)
    saved = torch.load(tmp_path / "checkpoint.pt")
    assert saved["loader"]["step"] == STEPS
    assert torch.allclose(saved["weights"], weights, rtol=0, atol=1e-12)
    assert told.world_sizes() == {1, 2}
