"""Compare nodes before a run, by facts that each node writes down."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any

from pagefeed._core import version
from pagefeed.core._base import format_bytes, some_of
from pagefeed.core.loader import Loader, as_rank
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.sampling import plan_digest, sampled_steps, sequences_of_step
from pagefeed.reports.smoke_test import Check
from pagefeed.reports.verification import verify

Facts = Mapping[str, Any]

FACTS_VERSION = 1
MOST_VERIFIED = 20_000_000
"""Longer epochs are not followed sequence by sequence: that takes some seconds."""
LIBRARIES = ("numpy", "torch", "pyarrow", "tokenizers")
CLOCK_SECONDS = 5.0
MOST_OPEN, SPARE_FILES = 512, 256
"""Files that a rank keeps open at most, and spare ones for the process."""
PAGE_BYTES, SPARE_DISK = 64, 1 << 30
OVERHEAD = 64 << 20
"""Memory that a rank needs beyond its loader."""


def facts_of_node(loader: Loader, ranks: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what this node knows of a run, as plain JSON types.

    Nodes do not communicate: write the facts to a file on each, and bring the files to
    one place for :func:`check_nodes`.

    Args:
        loader: The run, as a rank of this node makes it.
        ranks: The ranks of this node; by default all.

    Raises:
        InvalidArgumentError: If the run has no such rank.

    Example:
        >>> facts_of_node(loader)["ranks"]
        [0]
    """
    chosen = list(range(loader.world_size) if ranks is None else ranks)
    if not chosen or not all(0 <= rank < loader.world_size for rank in chosen):
        raise InvalidArgumentError(
            f"ranks={chosen!r:.60} must be some of 0 to {loader.world_size - 1}"
        )
    datasets = loader.view().run.datasets
    cache = datasets[0].index.cache_dir
    is_long = loader.num_sequences > MOST_VERIFIED
    steps: dict[str, dict[str, list[int]]] = {}
    for here in (as_rank(loader, rank) for rank in chosen):
        for step in sampled_steps(here):
            sequences = sequences_of_step(here, step, alone=True).tolist()
            steps.setdefault(str(step), {})[str(here.rank)] = sequences
    return {
        "version": FACTS_VERSION,
        "host": platform.node(),
        "ranks": chosen,
        "world_size": loader.world_size,
        "datasets": [data.fingerprint for data in datasets],
        "plan": plan_digest(loader),
        "versions": _versions(),
        "clock": time.time(),
        "cache": None if cache is None else _cache(cache),
        "disk_free_bytes": shutil.disk_usage(cache or tempfile.gettempdir()).free,
        "index_pages": sum(len(data.index) for data in datasets),
        "num_files": sum(len(data.files) for data in datasets),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "memory_free_bytes": _memory(),
        "memory": loader.memory,
        "batch_size": loader.batch_size,
        "problems": None if is_long else verify(loader, epoch=loader.epoch).problems,
        "steps": steps,
    }


def _memory() -> int:
    """Return the bytes that processes can have, what files are cached in included."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as lines:
        sizes = dict(line.split(":") for line in lines)
        return int(sizes["MemAvailable"].split()[0]) << 10
    # macOS does not say what is free: this is what it has.
    has = "SC_AVPHYS_PAGES" in os.sysconf_names
    pages = os.sysconf("SC_AVPHYS_PAGES" if has else "SC_PHYS_PAGES")
    return pages * os.sysconf("SC_PAGE_SIZE")


def _versions() -> dict[str, str]:
    versions = {"pagefeed": version(), "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _cache(folder: str) -> dict[str, Any]:
    """Return whether the cache folder can be written."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return {"folder": folder, "writable": True}
    except OSError as error:
        return {"folder": folder, "writable": False, "error": str(error)}


def check_nodes(facts: Sequence[Facts]) -> list[Check]:
    """Compare what nodes wrote down before a run.

    Args:
        facts: What :func:`facts_of_node` returned on each node. With ``"written"``, the
            time at which its file was written, clocks are compared too.

    Returns:
        A check for each thing that must be the same on all nodes, or must suffice.

    Raises:
        InvalidArgumentError: If there are no facts, or another release wrote them.

    Example:
        >>> all(check.ok is not False for check in check_nodes([facts_of_node(loader)]))
        True
    """
    if not facts:
        raise InvalidArgumentError("no facts: give those of each node of the run")
    for node in facts:
        if node.get("version") != FACTS_VERSION:
            raise InvalidArgumentError(
                f"facts of version {node.get('version')!r}, this release compares "
                f"{FACTS_VERSION}: write them with the same release on every node"
            )
    return [
        _same(facts, "dataset", "datasets"),
        _same(facts, "plan", "plan"),
        _same_versions(facts),
        _each_rank_once(facts),
        _each_sequence_once(facts),
        _clock(facts),
        _caches(facts),
        *_room(facts),
    ]


def _name(node: Facts) -> str:
    ranks = node["ranks"]
    return f"{node['host']} (ranks {ranks[0]}..{ranks[-1]})"


def _check(name: str, wrong: Sequence[str], good: str) -> Check:
    return Check(name, "; ".join(wrong) or good, ok=not wrong)


def _same(facts: Sequence[Facts], name: str, key: str) -> Check:
    """Check that all nodes agree; if not, name the nodes that differ from most."""
    usual, count = Counter(str(node[key]) for node in facts).most_common(1)[0]
    agreed = f"{usual} on {count} of {len(facts)} nodes"
    others = [
        f"{_name(node)}: {node[key]}" for node in facts if str(node[key]) != usual
    ]
    return _check(name, [agreed, *others] if others else [], agreed)


def _same_versions(facts: Sequence[Facts]) -> Check:
    wrong = []
    for name in sorted({name for node in facts for name in node["versions"]}):
        versions = sorted({str(node["versions"].get(name, "none")) for node in facts})
        wrong += [f"{name}: {', '.join(versions)}"] * (len(versions) > 1)
    usual = ", ".join(map(" ".join, facts[0]["versions"].items()))
    return _check("versions", wrong, usual)


def _each_rank_once(facts: Sequence[Facts]) -> Check:
    sizes = sorted({int(node["world_size"]) for node in facts})
    nodes_of = Counter(rank for node in facts for rank in node["ranks"])
    missing = [rank for rank in range(max(sizes)) if not nodes_of[rank]]
    twice = sorted(rank for rank, count in nodes_of.items() if count > 1)
    wrong = {
        "world sizes differ: ": sizes if len(sizes) > 1 else [],
        "on no node: ranks ": missing,
        "on several nodes: ranks ": twice,
    }
    problems = [text + some_of(numbers) for text, numbers in wrong.items() if numbers]
    good = f"{sum(nodes_of.values())} ranks on {len(facts)} nodes, each once"
    return _check("ranks", problems, good)


def _each_sequence_once(facts: Sequence[Facts]) -> Check:
    """Check that ranks share no sequence, and that all sequences are delivered once."""
    wrong = []
    for node in facts:
        wrong += [f"{_name(node)}: {problem}" for problem in node["problems"] or ()]
    for step in facts[0]["steps"]:
        ranks = (node["steps"].get(step, {}).values() for node in facts)
        ranks_of = Counter(n for of in ranks for sequences in of for n in sequences)
        twice = sum(count > 1 for count in ranks_of.values())
        wrong += [f"step {step}: {twice} sequences on several ranks"] * bool(twice)
    proven = all(node["problems"] is not None for node in facts)
    good = "each sequence once in the epoch" if proven else "not proven: too long"
    good += f"; no sequence twice in steps {', '.join(facts[0]['steps'])}"
    return _check("exactly once", wrong, good)


def _clock(facts: Sequence[Facts]) -> Check:
    """Compare clocks with that of the machine on which the facts were written."""
    if any("written" not in node for node in facts):
        result = "not compared: read the facts from the files that the nodes wrote"
        return Check("clock", result, ok=None)
    offsets = [float(node["clock"]) - float(node["written"]) for node in facts]
    apart = max(offsets) - min(offsets)
    result = f"{apart:.1f} s apart, by the times of the files"
    return Check("clock", result, ok=apart <= CLOCK_SECONDS)


def _caches(facts: Sequence[Facts]) -> Check:
    caches = [(_name(node), node["cache"]) for node in facts]
    folders = sorted({cache["folder"] for _, cache in caches if cache is not None})
    if not folders:
        result = "none: every process builds its own index; give cache_dir"
        return Check("cache", result, ok=None)
    wrong = [f"{name}: none" for name, cache in caches if cache is None]
    wrong += [
        f"{name}: {cache.get('error', 'cannot be written')}"
        for name, cache in caches
        if cache is not None and not cache["writable"]
    ]
    return _check("cache", wrong, ", ".join(folders))


def _needs(node: Facts) -> dict[str, tuple[int, int]]:
    """Return what a node has and needs, by name."""
    open_files = min(int(node["num_files"]), MOST_OPEN) + SPARE_FILES
    disk = int(node["index_pages"]) * PAGE_BYTES + SPARE_DISK * (
        node["cache"] is not None
    )
    memory = len(node["ranks"]) * (int(node["memory"]) + OVERHEAD)
    return {
        "open files": (int(node["open_files"]), open_files),
        "disk": (int(node["disk_free_bytes"]), disk),
        "memory": (int(node["memory_free_bytes"]), memory),
    }


def _room(facts: Sequence[Facts]) -> Iterator[Check]:
    """Check that each node has enough memory, files and disk space."""
    for name in _needs(facts[0]):
        show: Callable[[int], str] = str if name == "open files" else format_bytes
        nodes = [(_name(one), *_needs(one)[name]) for one in facts]
        wrong = [
            f"{node}: {show(has)}, expected {show(needs)}"
            for node, has, needs in nodes
            if 0 <= has < needs
        ]
        _, least, needs = min(nodes, key=lambda node: node[1])
        yield _check(name, wrong, f"at least {show(least)}, {show(needs)} needed")
