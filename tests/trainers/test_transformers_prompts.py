"""GRPOTrainer on a queue of prompts: killed between checkpoints, none lost or twice."""

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip("trl", reason="make test-trainers ARGS=transformers")

from made.shared_data import ROOT
from trainers.running import run_job

ROWS, SAVED, KILLED = 64, 3, 5


def steps_of(folder, rank):
    lines = (folder / f"steps-{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("world_size", [1, 2])
def test_killed_between_checkpoints(tmp_path, world_size):
    script = ROOT / "examples" / "conversations.py"
    subprocess.run([sys.executable, script, tmp_path / "rows"], check=True)
    steps = ROWS // (4 * world_size)
    options = {"world_size": world_size, "steps": steps}
    run_job(
        "prompts",
        tmp_path,
        **options,
        resume=False,
        kill=KILLED,
        expect=-signal.SIGKILL,
    )
    reports = run_job("prompts", tmp_path, **options, resume=True)
    seen: list[int] = []
    for rank in range(world_size):
        lines = steps_of(tmp_path, rank)
        killed = [step for step, _ in lines].index(SAVED + 1, KILLED)
        assert [step for step, _ in lines[killed:]] == [*range(SAVED + 1, steps + 1)]
        for _, rows in [*lines[:SAVED], *lines[killed:]]:
            seen += rows
    assert sorted(seen) == [*range(ROWS)]
    for report in reports:
        assert report["done"]
        assert report["counts"][""] == {
            "taken": ROWS,
            "committed": ROWS,
            "dropped": 0,
        }
        assert report["tiers"][""] == [0, ROWS // 2, ROWS // 2]


def test_asynchronous_answers_are_killed(tmp_path):
    script = ROOT / "examples" / "conversations.py"
    subprocess.run([sys.executable, script, tmp_path / "rows"], check=True)
    # The last step's batch is collated ahead: its prompts are still in flight.
    steps = ROWS // 4 - 2
    options = {"world_size": 1, "steps": steps}
    killed = {"kill": KILLED, "expect": -signal.SIGKILL}
    run_job("async_prompts", tmp_path, **options, resume=False, **killed)
    [report] = run_job("async_prompts", tmp_path, **options, resume=True)
    text = (tmp_path / "steps.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    again = [step for step, _ in lines].index(SAVED + 1, KILLED)
    kept = [row for _, rows in [*lines[:SAVED], *lines[again:]] for row in rows]
    assert len(kept) == len(set(kept)) == report["counts"][""]["committed"]
    assert len(kept) >= 4 * steps - 4
