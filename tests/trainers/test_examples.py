"""The examples of the frameworks that are installed here run, on real text."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from made.shared_data import ROOT, shared

# PyTorch alone comes with many; the environment of Accelerate is the smallest.
MODULES = {
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "jax": "jax",
    "lightning": "lightning",
    "megatron": "megatron.core",
    "olmo": "olmo_core",
    "ray": "ray",
    "torch": "accelerate",
    "torchtitan": "torchtitan",
    "transformers": "transformers",
}
TWO_RANKS = ("accelerate", "deepspeed", "megatron", "olmo", "torch", "transformers")
"""Started by torchrun; others start processes themselves, or need one."""
LAST_STEP = {"jax": 10, "torchtitan": 10}


def run(command, folder):
    # DeepSpeed builds operators by a tool that lies beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    settings = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PATH": path}
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


@pytest.mark.parametrize("name", MODULES)
def test_example(name, tmp_path):
    if importlib.util.find_spec(MODULES[name].partition(".")[0]) is None:
        pytest.skip(f"make test-trainers ARGS={name}")
    is_with_others = MODULES[name] == "accelerate"
    if is_with_others and importlib.util.find_spec("transformers"):
        pytest.skip("make test-trainers ARGS=accelerate")
    if name == "megatron" and importlib.util.find_spec("streaming"):
        pytest.skip("make test-trainers ARGS=megatron")
    corpus = str(shared("data", "corpus"))
    examples = ROOT / "examples"
    tokens = ["tokens", "--limit", "60000"]
    run([str(examples / "tokens.py"), corpus, *tokens], tmp_path)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(examples / "trainers" / f"train_{name}.py"), "tokens", "run"]
    printed = run([*launch * (name in TWO_RANKS), *script], tmp_path)
    assert f"ends at step {LAST_STEP.get(name, 15)}" in printed
    for rank in range(2 if name in TWO_RANKS else 1):
        assert f"rank {rank} of" in printed
