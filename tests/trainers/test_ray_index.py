"""An index written on a Ray cluster, whose workers and driver may die."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

import pagefeed as pf  # noqa: E402
from pagefeed.dataset import write_index  # noqa: E402
from pagefeed.remote import index_writing  # noqa: E402
from trainers.running import TESTS  # noqa: E402

NUM_FILES, FILES_PER_GROUP = 300, 4

DRIVER = """
import json, sys
import ray
from pagefeed.remote import index_writing
from pagefeed.dataset import write_index

source, output, address, environment = sys.argv[1:]
index_writing.FILES_PER_GROUP, index_writing.MOST_PACKS = 4, 100
ray.init(address, log_to_driver=False, runtime_env=json.loads(environment))
write_index(source, output, column="tokens", engine="ray")
"""
PATHS = os.pathsep.join((str(TESTS.parent / "python"), str(TESTS)))
ENVIRONMENT = {"env_vars": {"PYTHONPATH": PATHS}}


@pytest.fixture
def cluster(ray_nodes):
    """Two nodes, and this process their driver."""
    ray_nodes.connect()
    yield ray_nodes
    ray.shutdown()


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(index_writing, "FILES_PER_GROUP", FILES_PER_GROUP)
    monkeypatch.setattr(index_writing, "MOST_PACKS", 100)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(NUM_FILES):
        table = pa.table({"tokens": [[number, row] * 3 for row in range(5)]})
        pq.write_table(table, folder / f"{number:03}.parquet", write_page_index=True)
    return folder


def packs_in(folder):
    return {path.name: path.read_bytes() for path in folder.glob("packs/[!.]*")}


def kill_worker():
    """Kill a process that indexes files."""
    pids: list[int] = []
    while not pids:
        pids = [int(line.split()[0]) for line in processes() if "_write_pack" in line]
    os.kill(pids[0], signal.SIGKILL)


def processes():
    found = subprocess.run(
        ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    return [line for line in found.splitlines() if "ray::" in line]


def test_a_killed_worker_and_node_lose_nothing(cluster, source, tmp_path):
    here = write_index(source, tmp_path / "here", column="tokens")
    output, left = tmp_path / "ray", []

    def kill():
        while len(packs_in(output)) < 2:
            time.sleep(0.005)
        kill_worker()
        cluster.kill_one()
        left.append(NUM_FILES // FILES_PER_GROUP - len(packs_in(output)))

    killer = threading.Thread(target=kill)
    killer.start()
    there = write_index(source, output, column="tokens", engine="ray")
    killer.join()
    assert left[0] > 0, "they died before the end"
    assert there.fingerprint == here.fingerprint
    shared = pf.parquet(source, column="tokens", index=output)
    assert shared.index.fingerprint == here.fingerprint
    again = write_index(source, output, column="tokens", engine="ray")
    assert (again.num_read, again.pinned) == (0, there.pinned)


def test_a_killed_driver_goes_on(ray_nodes, source, tmp_path):
    ray_nodes.replace()
    here = write_index(source, tmp_path / "here", column="tokens")
    output = tmp_path / "ray"
    words = [str(source), str(output), ray_nodes.address, json.dumps(ENVIRONMENT)]
    command = [sys.executable, "-c", DRIVER, *words]
    environment = os.environ | {"PYTHONPATH": PATHS}
    with subprocess.Popen(command, env=environment) as driver:
        while len(packs_in(output)) < 2:
            assert driver.poll() is None
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
    while any("_write_pack" in line for line in processes()):
        time.sleep(0.1)  # The cluster ends the tasks of a driver that is gone.
    assert not list(output.glob("*.json"))
    before = {path: path.stat().st_mtime_ns for path in output.glob("packs/[!.]*")}
    assert 2 <= len(before) < NUM_FILES // FILES_PER_GROUP
    subprocess.run(command, env=environment, check=True)
    shared = pf.parquet(source, column="tokens", index=output)
    assert shared.index.fingerprint == here.fingerprint
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.usefixtures("cluster")
def test_a_defective_file_is_named_as_it_is(source, tmp_path):
    (source / "077.parquet").write_bytes(b"no Parquet")
    with pytest.raises(pf.errors.CorruptFileError, match=r"077\.parquet"):
        write_index(source, tmp_path / "ray", column="tokens", engine="ray")
