"""One process makes what the others wait for; no lock outlives its process."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pagefeed.caches import lease, stored_arrays
from pagefeed.caches.lease import made_once
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.remote import RemoteStorage
from pagefeed.remote.writing import FileWriter, locked

HOLD = """
import sys, time
from pathlib import Path
from pagefeed.caches.lease import made_once
def make(_):
    print("begun", flush=True)
    time.sleep(600)
made_once(Path(sys.argv[1]), lambda: None, make)
"""

MAKE = """
import sys, time
from pathlib import Path
from pagefeed.caches.lease import made_once
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
    assert "continues in its place" in caplog.text
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


@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)])
def test_a_lock_is_a_file_and_no_link(tmp_path, make):
    target = tmp_path / "target"
    make(tmp_path / "lock", target)
    assert made_once(tmp_path / "lock", lambda: None, lambda _: 7) == 7
    with pytest.raises(FileAccessError, match="lock"), locked(f"{tmp_path}/lock"):
        pass
    assert not target.exists()


def test_a_beat_in_the_future_is_no_beat(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "_SILENCE", 0.1)
    lock = tmp_path / "lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(lock, (2e9, 2e9 + 1e9))
        assert made_once(lock, lambda: None, lambda _: 7) == 7


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_others_may_write_is_refused(tmp_path, monkeypatch, mode):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(InvalidArgumentError, match=f"chmod go-w {folder},"):
        made_once(folder / "lock", lambda: 6, lambda _: 7)
    options = {"storage_cache": "1GB", "storage_cache_dir": str(folder)}
    with pytest.raises(InvalidArgumentError, match="cache"):
        RemoteStorage(options)
    monkeypatch.setenv("PAGEFEED_SHARED_CACHE", "1")
    assert made_once(folder / "lock", lambda: 6, lambda _: 7) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_a_file_of_another_user_is_refused(tmp_path):
    args = str(tmp_path), "numbers", "k", lambda out: out.append("n", [1]), bool
    stored_arrays(*args)
    os.chown(tmp_path / "numbers", 1, 1)
    with pytest.raises(InvalidArgumentError, match="numbers holds"):
        stored_arrays(*args)


@pytest.mark.parametrize(("umask", "left"), [(0o077, 0o700), (0o002, 0o775)])
def test_the_umask_decides_who_reads(tmp_path, umask, left):
    before = os.umask(umask)
    try:
        write = lambda out: out.append("n", [1])  # noqa: E731
        stored_arrays(str(tmp_path), "numbers", "k", write, bool)
        with FileWriter(f"{tmp_path}/a") as out:
            out.write(b"abc")
        with FileWriter(f"{tmp_path}/b", is_private=True) as out:
            out.write(b"abc")
        made_once(tmp_path / "lock", lambda: None, _no_lock_is_open(tmp_path, left))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"numbers": left, "a": left & 0o666, "b": 0o600}


def _no_lock_is_open(folder, left):
    def make(_):
        assert (folder / "lock").stat().st_mode & 0o777 == left & 0o666
        return True

    return make
