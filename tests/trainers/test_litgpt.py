"""litgpt: its own pretraining goes on with equal weights, from the data module."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("litgpt", reason="make test-trainers ARGS=litgpt")

import torch

from made.launched import BEFORE_IMPORTS
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data

LENGTH = 64
PATHS = [str(ROOT / "examples" / "clients"), *sys.path]
BESIDE = BEFORE_IMPORTS | {
    "PYTHONPATH": os.pathsep.join(PATHS),
    "TORCHDYNAMO_DISABLE": "1",  # A compiler takes minutes.
}


MODEL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "padded_vocab_size": 672}
TOKENS = 8 * 4 * LENGTH
TRAIN = {"save_interval": 4, "global_batch_size": 4, "micro_batch_size": 2}


ON_RANKS = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
PROGRAMS = {
    1: ["-m", "litgpt"],  # As a user does.
    2: [*ON_RANKS, "2", str(ROOT / "tests/trainers/jobs/run_litgpt.py")],
}


def train(folder, out, *, ranks, resume=False):
    """Run ``litgpt pretrain``: 8 steps of 4 sequences."""
    settings = {
        "out_dir": out,
        "data": "litgpt_data.ParquetTexts",
        "data.train": folder / "web",
        "data.validation": folder / "code",
        "tokenizer_dir": folder / "tokenizer",
        "model_config": json.dumps({"name": "tiny", "block_size": LENGTH} | MODEL),
        "train": json.dumps(TRAIN | {"max_tokens": TOKENS, "lr_warmup_steps": 2}),
        "eval": json.dumps({"interval": 4, "max_iters": 2}),
        "precision": "32-true",
        "devices": ranks,
        "logger_name": "csv",
        "resume": resume,
    }
    given = [f"--{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        [sys.executable, *PROGRAMS[ranks], "pretrain", "tiny", *given],
        env=os.environ | BESIDE,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load(path):
    return torch.load(path / "lit_model.pth", weights_only=False)


@pytest.mark.parametrize("ranks", PROGRAMS)
def test_a_resumed_pretraining_has_the_weights_of_one_in_one_go(ranks, tmp_path):
    corpus = tmp_path / "corpus"
    write_data(corpus)
    (corpus / "tokenizer").mkdir()
    (corpus / "tokenizer.json").rename(corpus / "tokenizer" / "tokenizer.json")
    (corpus / "tokenizer" / "tokenizer_config.json").write_text(
        '{"bos_token": "<|eos|>", "tokenizer_class": "PreTrainedTokenizerFast"}'
    )
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(corpus, whole, ranks=ranks)
    saved = whole / "step-00000004"
    printed = train(corpus, resumed, ranks=ranks, resume=saved / "lit_model.pth")
    assert "Resuming training from" in printed
    num_batches = 8 // ranks  # A step is two micro-batches on one rank.
    assert load(saved)["train_dataloader"]["step"] == num_batches
    ends = [load(run / "final")["model"] for run in (whole, resumed)]
    began = load(saved)["model"]
    for name, weights in ends[0].items():
        assert torch.equal(weights, ends[1][name]), name
    assert any(not torch.equal(began[name], ends[0][name]) for name in began)
