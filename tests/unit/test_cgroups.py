"""Threads and memory of a container, from trees of control groups of both versions."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pagefeed.core._base.progress import num_processors
from pagefeed.core.ranks import resolve_memory, resolve_threads
from pagefeed.errors import PagefeedWarning
from pagefeed.launch.cgroups import memory_limit, processor_quota

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "32 31 0:29 TOP /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 TOP /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
OTHER = (
    "36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "1 1 0:2 / / rw - ext4 /dev/a rw\n"
)


def tree(root: Path, groups: str, mounts: str, **files: str) -> Path:
    """Write what Linux shows of groups: in names of files, two lines are a slash."""
    files |= {"proc__self__cgroup": groups, "proc__self__mountinfo": mounts + OTHER}
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_version_2_has_the_least_of_the_group_and_its_parents(tmp_path):
    root = tree(
        tmp_path,
        "0::/kubepods/pod1/box\n",
        V2,
        sys__fs__cgroup__kubepods__cpuDOTmax="800000 100000",
        sys__fs__cgroup__kubepods__pod1__cpuDOTmax="150000 100000",
        sys__fs__cgroup__kubepods__pod1__box__cpuDOTmax="max 100000",
        sys__fs__cgroup__kubepods__pod1__box__memoryDOTmax="max",
        sys__fs__cgroup__kubepods__pod1__memoryDOTmax="1073741824",
        sys__fs__cgroup__kubepods__other__cpuDOTmax="1000 100000",
    )
    assert processor_quota(root) == 1.5
    limit, path = memory_limit(root) or (0, root)
    assert limit == 1 << 30
    assert path.parent.name == "pod1"


@pytest.mark.parametrize("top", ["/", "/docker/a1"])
def test_version_1_in_a_container_and_on_its_host(tmp_path, top):
    below = "docker__a1__" if top == "/" else ""
    root = tree(
        tmp_path,
        "9:pids:/\n4:memory:/docker/a1\n2:cpu,cpuacct:/docker/a1\n",
        V1.replace("TOP", top),
        **{
            f"sys__fs__cgroup__cpu,cpuacct__{below}cpuDOTcfs_quota_us": "50000\n",
            f"sys__fs__cgroup__cpu,cpuacct__{below}cpuDOTcfs_period_us": "100000\n",
            f"sys__fs__cgroup__memory__{below}memoryDOTlimit_in_bytes": "4096\n",
        },
    )
    assert processor_quota(root) == 0.5
    limit, _ = memory_limit(root) or (0, root)
    assert limit == 4096


def test_a_group_outside_of_the_mount_has_the_limits_of_the_mount(tmp_path):
    root = tree(tmp_path, "0::/../x\n", V2, sys__fs__cgroup__cpuDOTmax="300000 100000")
    assert processor_quota(root) == 3


def test_without_a_quota_or_without_groups_there_is_no_limit(tmp_path):
    assert processor_quota(tmp_path) is None
    assert memory_limit(tmp_path) is None
    quota = "sys__fs__cgroup__cpu,cpuacct__cpuDOTcfs_quota_us"
    period = quota.replace("quota", "period")
    root = tree(
        tmp_path,
        "2:cpu,cpuacct:/\n",
        V1.replace("TOP", "/"),
        **{quota: "-1", period: "100000"},
    )
    assert processor_quota(root) is None


def test_a_quota_is_rounded_up_and_shared_by_the_ranks_of_a_node(monkeypatch):
    quota = "pagefeed.core._base.progress.container_limits"
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    for processors, threads in [(None, 8), (0.5, 1), (3.2, 4), (64.0, 8)]:
        monkeypatch.setattr(quota, lambda processors=processors: (processors, None))
        assert num_processors() == resolve_threads(None) == threads
    monkeypatch.setattr(quota, lambda: (3.2, None))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert resolve_threads(None) == 2


def test_memory_beyond_the_limit_is_warned_of_by_name(monkeypatch):
    file = Path("/sys/fs/cgroup/memory.max")
    monkeypatch.setattr(
        "pagefeed.core.ranks.container_limits", lambda: (None, (1 << 30, file))
    )
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert resolve_memory("512MiB") == 1 << 29
    with pytest.warns(
        PagefeedWarning,
        match="memory='513MiB' on each of 2 ranks .*1.0 GiB of .*memory.max",
    ):
        resolve_memory("513MiB")


def test_a_real_group():
    group = Path(f"/sys/fs/cgroup/cpu/pagefeed-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("this machine lets no one make control groups of version 1")
    program = (
        "import sys; from pagefeed.core._base import num_processors\n"
        f"open('{group}/tasks', 'w').write('0'); print(num_processors())"
    )
    try:
        (group / "cpu.cfs_quota_us").write_text("50000")
        command = [sys.executable, "-c", program]
        assert subprocess.check_output(command, text=True) == "1\n"
    finally:
        with suppress(OSError):
            group.rmdir()


def test_the_system_is_asked_once_and_not_by_every_loader(monkeypatch):
    first = num_processors(), resolve_memory("1MiB")
    monkeypatch.setattr(Path, "read_text", lambda _: 1 / 0)
    assert (num_processors(), resolve_memory("1MiB")) == first
