"""Verbs end cleanly: at Ctrl-C, and when nobody reads on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from made.numbered import LENGTH, write_numbered

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
    assert (process.returncode, out, err) == (130, "", "")


def test_a_reader_that_has_enough_is_no_error(run):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "inspect", *run],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
