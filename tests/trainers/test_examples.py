"""The examples of the framework that is tested here run, as docs/ prints them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data
from trainers.running import launch

TRL = ("sft", "dpo", "grpo", "async_grpo")
NAMES = (
    *("accelerate", "deepspeed", "jax", "lightning", "megatron", "olmo", "ray"),
    *("torchtitan", "transformers", *TRL),
)
"""That of torch alone runs with the other tests."""
ENVIRONMENTS = dict.fromkeys(TRL, "transformers")
"""Where an example runs, if not in the environment of its own name."""

TWO_RANKS = (
    *("accelerate", "deepspeed", "megatron", "olmo", "transformers"),
    *("sft", "grpo"),
)
"""As torchrun starts them; others start processes themselves, or need one."""
LAST_STEP = {"jax": 10, "torchtitan": 10} | dict.fromkeys(TRL, 6) | {"async_grpo": 12}


def run(command, folder):
    # DeepSpeed builds operators by a tool that lies beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    settings = {
        "OMP_NUM_THREADS": "1",
        "PATH": path,
        "PYTHONWARNINGS": "ignore",
        "RAY_ADDRESS": "local",  # Another cluster of this machine is not joined.
        "RAY_worker_niceness": "0",  # Others' tests run beside it.
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_example(name, tmp_path):
    environment = ENVIRONMENTS.get(name, name)
    if Path(sys.prefix).name != environment:
        pytest.skip(f"make test-trainers ARGS={environment}")
    examples = ROOT / "examples"
    if name in TRL:
        run([str(examples / "conversations.py"), "tokens"], tmp_path)
    else:
        write_data(tmp_path / "corpus")
        run([str(examples / "tokens.py"), "corpus", "tokens"], tmp_path)
    script = [str(examples / "trainers" / f"train_{name}.py"), "tokens", "run"]
    if name in TWO_RANKS:
        printed = launch(script, tmp_path, world_size=2)
    else:
        printed = run(script, tmp_path)
    assert f"ends at step {LAST_STEP.get(name, 15)}" in printed
    for rank in range(2 if name in TWO_RANKS else 1):
        assert f"rank {rank} of" in printed
    if name == "sft":
        changed = re.findall(
            r"own outputs by ([\d.e-]+), others' by ([\d.e-]+)", printed
        )
        assert changed  # Ranks may print into each other's lines.
        assert all(float(own) > 0 and float(others) == 0 for own, others in changed)
