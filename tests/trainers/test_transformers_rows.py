"""TRL's trainers whose batches are rows of columns: every row once, and resumed."""

import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("trl", reason="make test-trainers ARGS=transformers")

from made.shared_data import ROOT
from trainers.running import flat, run_job

ROWS = 64
UPDATES = {"dpo": 8, "reward": 8, "grpo": 16}
FORWARDS = {"dpo": 1, "reward": 1, "grpo": 2}
"""Of a model in an update."""
TIMES = {"dpo": 2, "reward": 2, "grpo": 4}
"""How often a model sees a prompt: with two answers, or with four."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    command = [sys.executable, ROOT / "examples" / "conversations.py", folder / "rows"]
    subprocess.run(command, check=True)
    return folder


@pytest.mark.parametrize("kind", ["dpo", "reward", "grpo"])
def test_every_row_once_on_two_ranks_and_after_a_resume(rows, kind):
    reports = run_job("trl", rows, world_size=2, kind=kind)
    counts: Counter[int] = Counter()
    for one in reports:
        whole, resumed = one["whole"], one["resumed"]
        if kind == "dpo":
            assert "takes rows with chosen_ids, rejected_ids" in one["refused"]
        assert whole["steps"] == resumed["steps"] == UPDATES[kind]
        assert len(set(flat(whole["seen"]))) == ROWS / 2
        counts.update(flat(whole["seen"]))
        behind = 3 * FORWARDS[kind]
        # Answers to prompts are shuffled inside of an update.
        assert in_updates(resumed, kind) == in_updates(whole, kind)[3:]
        assert len(whole["seen"]) - len(resumed["seen"]) == behind
    assert counts == dict.fromkeys(range(ROWS), TIMES[kind])


def in_updates(run, kind):
    seen, step = run["seen"], FORWARDS[kind]
    return [sorted(flat(seen[n : n + step])) for n in range(0, len(seen), step)]
