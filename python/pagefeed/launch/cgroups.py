"""Limits of a container: what its control group and the groups above it allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path("/")


@cache  # Every loader asks, and dozens of files are read.
def container_limits() -> tuple[float | None, tuple[int, Path] | None]:
    """Return the processors, and the bytes with the file that says so, or None each."""
    return processor_quota(), memory_limit()


def processor_quota(root: Path = ROOT) -> float | None:
    """Return how many processors the groups let this process use; None if any number.

    Args:
        root: Where the file system begins.
    """
    quotas = []
    for folder in _groups("cpu", root):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            quotas.append(int(quota) / int(period))
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text()
                for name in ("quota", "period")
            )
            quotas.append(int(quota) / int(period))
    return min((quota for quota in quotas if quota > 0), default=None)


def memory_limit(root: Path = ROOT) -> tuple[int, Path] | None:
    """Return the least limit of bytes, and the file that has it; None if there is none.

    Args:
        root: Where the file system begins.
    """
    limits = []
    for folder in _groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits.append((int((folder / name).read_text()), folder / name))
    return min(limits, default=None)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it.

    Version 2 has one tree of groups; version 1 has one for each controller, and both
    may be mounted. In a container the mount may show only the tree below its own group.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:  # No Linux.
        return
    own = dict[str, str]()
    for line in lines:
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    for mount in mounts:
        fields, _, kind = mount.partition(" - ")
        top, point = fields.split()[3:5]
        if kind.startswith("cgroup2 "):
            path = own.get("", "/")
        elif kind.startswith("cgroup ") and controller in kind.split()[-1].split(","):
            path = own.get(controller, "/")
        else:
            continue
        base = root / point.lstrip("/")
        below = path.removeprefix(top.rstrip("/")) if path.startswith(top) else ""
        folder = base / below.lstrip("/")
        if ".." in folder.parts:  # Not in what is mounted.
            folder = base
        yield folder
        yield from (above for above in folder.parents if above.is_relative_to(base))
