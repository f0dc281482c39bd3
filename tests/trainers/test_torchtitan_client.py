"""torchtitan's own trainer goes on with equal weights, and on another world size."""

import os
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torchtitan", reason="make test-trainers ARGS=torchtitan")

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from made.launched import BEFORE_IMPORTS, free_port
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data
from trainers.running import JOBS

PATHS = [str(ROOT / "examples" / "clients"), *sys.path]
SIZES = {"seq_len": 64, "steps": 6}


def start(folder, out, rank, world_size, port):
    """Start the trainer on one rank, as torchrun does."""
    sizes = SIZES | {"local_batch_size": 4 // world_size}
    given = [f"--training.{name}={size}" for name, size in sizes.items()]
    environment = BEFORE_IMPORTS | {
        "PYTHONPATH": os.pathsep.join(PATHS),
        "TORCHDYNAMO_DISABLE": "1",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    return subprocess.Popen(
        [
            *(sys.executable, JOBS / "run_torchtitan.py"),
            *("--module=torchtitan_config", "--config=llama3", f"--dump_folder={out}"),
            *(f"--hf_assets_path={folder}", f"--dataloader.texts={folder}/web"),
            *("--checkpoint.enable", "--checkpoint.interval=3"),
            *("--training.disable_cuda_graphs", *given),
            # Gloo lacks the sum of FSDP.
            f"--parallelism.data_parallel_replicate_degree={world_size}",
            "--parallelism.data_parallel_shard_degree=1",
        ],
        env=os.environ | environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train(folder, out, world_size=1):
    """Return the loss of each step that rank 0 logs."""
    port = free_port()
    ranks = [start(folder, out, rank, world_size, port) for rank in range(world_size)]
    printed = [rank.communicate(timeout=400)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "\n".join(printed)
    colourless = re.sub(r"\x1b\[[\d;]*m", "", printed[0])
    losses = re.findall(r"step: +(\d+) +loss: +([\d.]+)", colourless)
    return {int(step): float(loss) for step, loss in losses}


def weights(out, tmp_path):
    file = tmp_path / "weights.pt"
    dcp_to_torch_save(out / "checkpoint" / "step-6", file)
    return {
        name: value
        for name, value in torch.load(file, weights_only=False).items()
        if isinstance(value, torch.Tensor) and not name.startswith("optimizer")
    }


def test_a_resumed_training_has_the_weights_of_one_in_one_go(tmp_path):
    corpus, whole = tmp_path / "corpus", tmp_path / "whole"
    write_data(corpus)
    # What it needs no chat template for.
    (corpus / "tokenizer_config.json").write_text('{"eos_token": "<|eos|>"}')
    losses = train(corpus, whole)
    assert sorted(losses) == [1, 2, 3, 4, 5, 6]
    again, wider = tmp_path / "again", tmp_path / "wider"
    for out in (again, wider):
        shutil.copytree(whole / "checkpoint" / "step-3", out / "checkpoint" / "step-3")
    assert train(corpus, again) == {step: losses[step] for step in (4, 5, 6)}
    expected = weights(whole, tmp_path)
    resumed = weights(again, tmp_path)
    assert len(expected) > 10
    for name, value in expected.items():
        assert torch.equal(value, resumed[name]), name
    on_two = train(corpus, wider, world_size=2)
    assert on_two == pytest.approx({step: losses[step] for step in (4, 5, 6)}, rel=1e-3)
