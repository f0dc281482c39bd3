"""The examples run, on real text."""

import json
import math
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from made.launched import launch
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data


def test_the_curriculum(tmp_path):
    for module in ("torch", "tokenizers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    write_data(tmp_path / "corpus")
    found = _run("curriculum", tmp_path, "corpus", "--folder=.", "--steps=36")
    assert "stopped at step 30" in found
    stages = [line for line in found.splitlines() if line.startswith("from step")]
    assert len(stages) == 3
    assert stages[2].startswith("from step   30 on")
    assert "good 100.0%" in stages[2]


def test_the_mixture_that_learns(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = _run("learning_mixture", tmp_path, "--folder=.")
    shares = re.findall(r"pattern in the \w+ 20 steps: (\d+)%", found)
    assert shares[0] == "50"
    assert int(shares[1]) > 80
    assert "dealt again without losses: True" in found


@pytest.mark.dear
def test_torch_alone(tmp_path):
    for module in ("torch", "tokenizers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    write_data(tmp_path / "corpus")
    scripts = [
        ["examples/tokens.py", str(tmp_path / "corpus"), str(tmp_path / "tokens")],
        [
            *launch,
            "examples/trainers/train_torch.py",
            str(tmp_path / "tokens"),
            str(tmp_path),
        ],
    ]
    for script in scripts:
        done = subprocess.run(
            [sys.executable, *script],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank} of 2 ends at step 15" in done.stdout


def test_a_chat_model_is_tuned_on_what_the_assistant_says(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    told = _run("finetune_chat", tmp_path, "run")
    rows = pq.read_table(tmp_path / "run" / "test.parquet")["labels"].to_pylist()
    num_labels = sum(label != -100 for row in rows for label in row)
    found = re.match(r"(\d+) labels never seen, .* is (\S+)$", told)
    assert found is not None, told
    assert int(found[1]) == num_labels
    assert float(found[2]) < 1 < math.log(258)


def test_a_table_grows_and_shrinks_while_a_run_goes_on(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    told = _run("table", tmp_path, "run")
    assert re.findall(r": (\d+) rows", told) == ["400", "600", "600", "399"]
    assert "epoch 0 goes on at step 10" in told
    steps = re.findall(r"epoch (\d) has (\d+) steps", told)
    assert [epoch for epoch, _ in steps] == ["0", "1"]
    assert "erased: {'': '1 " in told
    assert int(steps[0][1]) < int(steps[1][1])  # The rest of the first rows alone.
    assert float(told.split()[-1]) < math.log(256) / 2


def _run(name: str, folder: Path, *arguments: str) -> str:
    return launch([str(ROOT / "examples" / f"{name}.py"), *arguments], folder)


def test_a_head_learns_concepts_from_spans(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = _run("train_concepts", tmp_path, "run")
    assert float(found.split()[1]) < 0.3


def test_a_model_learns_to_fill_in(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = _run("train_infilling", tmp_path, "run")
    right, total = re.findall(r"(\d+) of (\d+) middles", found)[0]
    assert int(right) >= 0.2 * int(total)  # Untrained, none is.


def test_a_student_learns_from_files_as_from_the_teacher(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = _run("distill", tmp_path, "run")
    assert found.startswith("loss ")


@pytest.mark.dear
def test_two_ranks_tell_their_step_times():
    pytest.importorskip("torch", reason="torch is not installed")
    done = subprocess.run(
        [sys.executable, "examples/balanced_ranks.py", "--steps=3"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain, balanced = (
        re.fullmatch(
            r"balance=(.*): (\d+) ms a step, the slower rank computes for (\d+) ms",
            line,
        )
        for line in done.stdout.splitlines()
    )
    assert plain is not None
    assert balanced is not None
    assert (plain[1], balanced[1]) == ("None", "'attention'")
    assert min(map(int, (*plain.groups()[1:], *balanced.groups()[1:]))) > 0


def test_a_killed_run_goes_on_with_the_same_losses_on_other_ranks(
    tmp_path, capsys, monkeypatch
):
    pytest.importorskip("torch", reason="torch is not installed")
    write_data(tmp_path / "corpus")
    monkeypatch.chdir(ROOT)
    script = [str(ROOT / "examples" / "real_run.py"), "corpus/web", "run", "--steps=4"]
    script += ["--save-every=2", "--width=16", "--layers=1"]

    def run(ranks, *given, code=0):
        launch([*script, *given], tmp_path, world_size=ranks, expect=code)
        lines = (tmp_path / "run" / "steps.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    killed = run(2, "--die-at=3", code=-9)
    assert [line["step"] for line in killed] == [1, 2, 3]
    third, fourth = run(1)[3:]  # From the checkpoint of step 2.
    assert (third["step"], fourth["step"]) == (3, 4)
    assert third["tokens"] == killed[2]["tokens"]
    assert third["loss"] == pytest.approx(killed[2]["loss"], rel=1e-5)
    assert third["loss"] != killed[1]["loss"]
    runpy.run_path("examples/real_run.py")["show"](tmp_path / "run")
    printed = capsys.readouterr().out
    assert printed.startswith("2 ranks, steps 1 to 3: slowest rank ")


def test_pairs_of_images_and_texts(tmp_path):
    for module in ("torch", "PIL"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    found = _run("train_images", tmp_path, "pairs")
    first, last = (float(line.split()[-1]) for line in found.splitlines())
    assert last < 0.7 * first
