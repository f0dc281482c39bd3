"""One process makes what the others wait for; no lock outlives its process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pagefeed.core._base import lease, made_once

HOLD = """
import sys, time
from pathlib import Path
from pagefeed.core._base import made_once
def make(_):
    print("begun", flush=True)
    time.sleep(600)
made_once(Path(sys.argv[1]), lambda: None, make)
"""

MAKE = """
import sys, time
from pathlib import Path
from pagefeed.core._base import made_once
folder = Path(sys.argv[1])
def find():
    made = folder / "made"
    return made.read_text() if made.exists() else None
def make(_):
    print("made", flush=True)
    time.sleep(0.3)
    (folder / "draft").write_text("7")
    (folder / "draft").rename(folder / "made")
    return "7"
assert made_once(folder / "lock", find, make) == "7"
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock and does not end."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        yield process
        process.kill()


def test_several_processes_make_it_once(tmp_path):
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(6)]
    told = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    assert b"".join(told) == b"made\n"
    assert not (tmp_path / "lock").exists()


def test_a_lock_ends_with_its_process(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "lock").exists(), "it was killed before it could remove it"
    assert made_once(tmp_path / "lock", lambda: None, lambda _: 7) == 7


def test_a_stopped_process_is_not_waited_for(tmp_path, holder, monkeypatch, caplog):
    caplog.set_level("INFO", logger="pagefeed")
    holder.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(lease, "_SILENCE", 0.5)
    assert made_once(tmp_path / "lock", lambda: None, lambda _: 7) == 7
    assert "goes on in its place" in caplog.text
    assert (tmp_path / "lock").exists(), "the lock of another is left to it"
    holder.send_signal(signal.SIGCONT)


def test_a_live_lock_keeps_beating(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "_BEAT", 0.01)
    lock = tmp_path / "lock"

    def make(_):
        os.utime(lock, (0, 0))
        for _ in range(1000):
            if lock.stat().st_mtime > 0:
                return True
            time.sleep(0.01)
        return False

    assert made_once(lock, lambda: None, make)


def test_without_a_folder_for_locks_it_is_made_all_the_same():
    assert made_once(Path("/proc/none/lock"), lambda: None, lambda _: 7) == 7
