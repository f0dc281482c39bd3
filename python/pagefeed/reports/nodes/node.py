"""What one node knows of a run: written down there, compared anywhere."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from pagefeed._core import version
from pagefeed.errors import InvalidArgumentError
from pagefeed.loader import Loader, as_rank, session_of
from pagefeed.reports.plan_digest import plan_digest, sampled_steps, sequences_of_step
from pagefeed.reports.verification import verify

__all__ = ["FACTS_VERSION", "facts_of_node"]

FACTS_VERSION = 1
MOST_VERIFIED = 20_000_000
"""Sequences of an epoch that a node follows one by one: some seconds."""
LIBRARIES = ("numpy", "torch", "pyarrow", "tokenizers")


def facts_of_node(loader: Loader, ranks: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what this node knows of a run, as plain JSON types.

    Nothing is asked of other nodes: write it to a file on each, and bring these to one
    place for :func:`checklist`.

    Args:
        loader: The run, as a rank of this node makes it.
        ranks: The ranks of this node; by default all.

    Raises:
        InvalidArgumentError: If a rank is none of the run.

    Example:
        >>> facts_of_node(loader)["ranks"]
        [0]
    """
    chosen = list(range(loader.world_size) if ranks is None else ranks)
    if not chosen or not all(0 <= rank < loader.world_size for rank in chosen):
        raise InvalidArgumentError(
            f"ranks={chosen!r:.60} must be some of 0 to {loader.world_size - 1}"
        )
    source = session_of(loader).run.source
    cache = source.datasets[0].index.cache_dir
    return {
        "version": FACTS_VERSION,
        "host": platform.node(),
        "ranks": chosen,
        "world_size": loader.world_size,
        "datasets": [data.fingerprint for data in source.datasets],
        "plan": plan_digest(loader),
        "versions": _versions(),
        "clock": time.time(),
        "cache": _cache(cache),
        "disk_free_bytes": shutil.disk_usage(cache or tempfile.gettempdir()).free,
        "index_pages": sum(len(data.index) for data in source.datasets),
        "num_files": sum(len(data.files) for data in source.datasets),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "memory_free_bytes": _free_memory(),
        "memory": loader.memory,
        "batch_size": loader.batch_size,
        "problems": _problems(loader),
        "steps": _steps(loader, chosen),
    }


def _versions() -> dict[str, str]:
    found = {"pagefeed": version(), "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cache(folder: str | None) -> dict[str, Any] | None:
    """The cache folder: whether it can be written; None if there is none."""
    if folder is None:
        return None
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return {"folder": folder, "writable": False, "error": str(error)}
    return {"folder": folder, "writable": True}


def _free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _problems(loader: Loader) -> list[str] | None:
    """What is wrong with the epoch's order; None if it is too long to follow."""
    if loader.num_sequences > MOST_VERIFIED:
        return None
    return verify(loader, epoch=loader.epoch).problems


def _steps(loader: Loader, ranks: Sequence[int]) -> dict[str, dict[str, list[int]]]:
    """Sequences of some steps, of each rank here: by step and rank."""
    found: dict[str, dict[str, list[int]]] = {}
    for rank in ranks:
        here = as_rank(loader, rank)
        for step in sampled_steps(here):
            held = sequences_of_step(here, step, alone=True).tolist()
            found.setdefault(str(step), {})[str(rank)] = held
    return found
