"""Verbs end cleanly: at Ctrl-C, when nobody reads on, at arguments that are wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from made.numbered import LENGTH, write_numbered
from pagefeed.cli import main
from pagefeed.cli.common import in_flags, tell

COMMAND = [sys.executable, "-m", "pagefeed"]


@pytest.fixture
def run(tmp_path):
    write_numbered(tmp_path)
    return [str(tmp_path), "--column", "input_ids", "--length", str(LENGTH)]


def has_engine(process: subprocess.Popen[str]) -> bool:
    """Whether the engine's threads run, and so the verb is at work."""
    tasks = Path(f"/proc/{process.pid}/task")
    try:
        names = [(task / "comm").read_text() for task in tasks.iterdir()]
    except OSError:  # A thread that ended while it was looked at.
        return False
    return any(name.startswith("pagefeed") for name in names)


def test_ctrl_c_ends_without_a_trace(run):
    with subprocess.Popen(
        [*COMMAND, "doctor", *run, "--seconds", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not has_engine(process):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "pagefeed: interrupted\n")


def test_ctrl_c_while_verbs_are_imported_is_one_line(tmp_path):
    slow = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    # Stands before what the command line imports first.
    (tmp_path / "argparse.py").write_text(slow)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*COMMAND, "explain", "PF-031"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    told = (done.returncode, done.stdout, done.stderr)
    assert told == (130, "", "pagefeed: interrupted\n")


def output_commands(data, file):
    """Commands that write a folder, which is a file."""
    run = [data, "--column", "input_ids", "--length", str(LENGTH)]
    facts = f"{file}/facts.json"
    return {
        "demo --data": ["demo", "--data", file],
        "demo --folder": ["demo", "--folder", file],
        "check": ["check", *run, "--ranks", "0:1", "--facts", facts],
        "report": ["report", *run, "--output", f"{file}/page.html"],
        "convert": ["convert", *run[:3], "--to", "stream", "--output", file],
    }


@pytest.mark.parametrize("name", output_commands("", ""))
def test_an_output_that_is_a_file_is_told_in_a_line(
    run, tmp_path_factory, capsys, name
):
    file = tmp_path_factory.mktemp("other") / "taken"
    file.write_text("here before")
    assert main(output_commands(run[0], str(file))[name]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("pagefeed: ")
    assert str(file) in error
    assert file.read_text() == "here before"


def test_numbers_of_json_stand_on_one_line(run, capsys):
    assert main(["head", *run[:3], "--rows", "20", "--json"]) == 0
    out = capsys.readouterr().out
    rows = json.loads(out)["rows"]
    longest = max((row["input_ids"] for row in rows), key=len)
    assert f"[{', '.join(map(str, longest))}]" in out


@pytest.mark.parametrize(
    "report", [[1, -2.5, 1e-9], [True, None], ["[\n 1,\n 2\n]"], [[], [[1], [2, 3]]]]
)
def test_reports_are_the_same_as_json(capsys, report):
    tell(Namespace(json=True), {"a": report}, [])
    assert json.loads(capsys.readouterr().out) == {"a": report}


@pytest.mark.parametrize("verb", ["verify", "plan", "smoke", "doctor"])
def test_a_missing_path_is_told_before_a_missing_length(verb, tmp_path, capsys):
    missing = str(tmp_path / "none")
    assert main([verb, missing, "--column", "input_ids"]) == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_reader_that_has_enough_is_no_error(run, is_buffered):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "inspect", *run],
        env=os.environ | {"PYTHONUNBUFFERED": "" if is_buffered else "1"},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch-size", "0"], "--batch-size=0 must"),
        (["--memory", "1XB"], "--memory='1XB'"),
        (["--world-size", "-1"], "--world-size"),
    ],
)
def test_errors_name_arguments_as_they_are_typed(run, capsys, arguments, said):
    assert main(["plan", *run, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "_size" not in error


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("batch_size=8 and memory=1", "--batch-size=8 and --memory=1"),
        ("lower batch_size, give more memory", "lower --batch-size, give more memory"),
        ("Loader(memory=1), x.memory=1", "Loader(memory=1), x.memory=1"),
        ("my_batch_size=1, --batch-size=0", "my_batch_size=1, --batch-size=0"),
        ("source='mds'", "--from='mds'"),
        ("paths=[]", "paths=[]"),
    ],
)
def test_names_alone_become_flags(message, said):
    options = Namespace(batch_size=0, memory="", source=None, paths=[], run=main)
    assert in_flags(message, options) == said
