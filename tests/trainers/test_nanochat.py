"""nanochat's own base training on the example's loader goes on with equal weights.

nanochat is no package: `NANOCHAT=checkout make test-trainers ARGS=nanochat`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

if not os.environ.get("NANOCHAT"):
    pytest.skip(
        "NANOCHAT names no checkout of karpathy/nanochat: "
        "NANOCHAT=checkout make test-trainers ARGS=nanochat",
        allow_module_level=True,
    )
pytest.importorskip("rustbpe", reason="make test-trainers ARGS=nanochat")

import torch

from made.launched import BEFORE_IMPORTS
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data

STEPS, SAVED = 6, 3
TWO_RANKS = """
import runpy

import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # nanochat sets up NCCL alone.


class Done:
    def get_future(self):
        future = torch.futures.Future()
        future.set_result(None)
        return future


def at_once(function):
    # nanochat asks for futures, which gloo's collectives lack.
    def call(*args, async_op=False, **settings):
        function(*args, **settings)
        return Done()

    return call


for name in ("reduce_scatter_tensor", "all_gather_into_tensor", "all_reduce"):
    setattr(dist, name, at_once(getattr(dist, name)))
runpy.run_module("scripts.base_train", run_name="__main__", alter_sys=True)
"""
LAUNCH = ("torch.distributed.run", "--standalone", "--nproc-per-node=2")
"""Runs a program on two ranks."""
SETTINGS = {
    "depth": 1,
    "head-dim": 32,
    "aspect-ratio": 32,
    "window-pattern": "L",
    "max-seq-len": 64,
    "device-batch-size": 2,
    "total-batch-size": 256,
    "num-iterations": STEPS,
    "save-every": SAVED,
    "eval-every": STEPS,
    "eval-tokens": 256,
    "core-metric-every": -1,
    "sample-every": -1,
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of nanochat with the example in place of its loader."""
    copy = tmp_path_factory.mktemp("clients") / "nanochat"
    shutil.copytree(os.environ["NANOCHAT"], copy, ignore=shutil.ignore_patterns(".git"))
    example = ROOT / "examples" / "clients" / "nanochat_dataloader.py"
    shutil.copy(example, copy / "nanochat" / "dataloader.py")
    base = copy.parent / "base"
    write_data(copy.parent / "corpus")
    data = base / "base_data_climbmix"
    shutil.copytree(copy.parent / "corpus" / "web", data)
    run(copy, "scripts.tok_train", "--vocab-size", "512")
    return copy


def run(checkout: Path, module: str, *given: str) -> str:
    environment = BEFORE_IMPORTS | {
        "NANOCHAT_BASE_DIR": str(checkout.parent / "base"),
        "PYTHONPATH": os.pathsep.join([str(checkout), *sys.path]),
        "TORCHDYNAMO_DISABLE": "1",  # A compiler takes minutes.
        "WANDB_MODE": "disabled",
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *given],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_resumed_training_has_the_weights_of_one_in_one_go(checkout, ranks):
    (checkout / "two_ranks.py").write_text(TWO_RANKS)
    program = ["scripts.base_train"] if ranks == 1 else [*LAUNCH, "two_ranks.py"]
    given = [f"--{name}={value}" for name, value in SETTINGS.items()]
    names = [f"whole-{ranks}", f"resumed-{ranks}"]
    run(checkout, *program, *given, f"--model-tag={names[0]}")
    models = checkout.parent / "base" / "base_checkpoints"
    shutil.copytree(models / names[0], models / names[1])
    (models / names[1] / f"model_{STEPS:06}.pt").unlink()
    resume = [f"--model-tag={names[1]}", f"--resume-from-step={SAVED}"]
    run(checkout, *program, *given, *resume)
    whole, resumed = (
        torch.load(models / name / f"model_{STEPS:06}.pt") for name in names
    )
    assert len(whole) > 5
    for name, weights in whole.items():
        assert torch.equal(weights, resumed[name]), name
    meta = json.loads((models / names[0] / f"meta_{SAVED:06}.json").read_text())
    # A step of 256 tokens is two micro-batches of a rank, or one of each of two ranks.
    # The batch that the loop holds is not counted.
    assert meta["dataloader_state_dict"]["pagefeed"]["step"] == 2 * SAVED // ranks


def test_batches_have_the_shape_that_nanochat_wants(checkout):
    """Rows begin with BOS, and a target is the next input."""
    code = """
import numpy as np
from nanochat.dataloader import (
    tokenizing_distributed_data_loader_with_state_bos_bestfit as make,
)
from nanochat.tokenizer import get_tokenizer
tokenizer = get_tokenizer()
batches = make(tokenizer, 4, 64, "train", device="cpu")
rows = [next(batches)[:2] for _ in range(8)]
assert all(x.is_contiguous() and y.is_contiguous() for x, y in rows)
np.savez("rows.npz", x=np.concatenate([x for x, _ in rows]),
    y=np.concatenate([y for _, y in rows]), bos=tokenizer.get_bos_token_id())
"""
    (checkout / "batches.py").write_text(code)
    run(checkout, "batches")
    saved = np.load(checkout / "rows.npz")
    x, y = saved["x"], saved["y"]
    assert x.shape == y.shape == (32, 64)
    assert (x[:, 0] == saved["bos"]).all()
    learned = y[:, :-1] != -1
    assert learned.mean() > 0.9
    assert (y[:, :-1][learned] == x[:, 1:][learned]).all()
    assert (y[:, -1] == -1).all()
    assert (y == saved["bos"]).any()  # The end of a document is learned.
