"""Nodes held against each other, by the facts that each wrote down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagefeed._base import format_bytes
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.nodes.node import FACTS_VERSION
from pagefeed.reports.smoke_test import Check

__all__ = ["checklist"]

Facts = Mapping[str, Any]

CLOCK_SECONDS = 5.0
SPARE_FILES = 256
MOST_OPEN = 512
"""Files that a rank keeps open at most, beside what else the process needs."""
PAGE_BYTES = 64
SPARE_DISK = 1 << 30
OVERHEAD = 64 << 20


def checklist(facts: Sequence[Facts]) -> list[Check]:
    """Compare what nodes wrote down before a run.

    Args:
        facts: What :func:`facts_of_node` returned on each node; with ``"written"``, the
            time of its file, clocks can be compared.

    Returns:
        A check for each thing that must be the same, or must be enough.

    Raises:
        InvalidArgumentError: If there are none, or they are of another release.

    Example:
        >>> all(check.ok is not False for check in checklist([facts_of_node(loader)]))
        True
    """
    if not facts:
        raise InvalidArgumentError("no facts: give those of each node of the run")
    for one in facts:
        if one.get("version") != FACTS_VERSION:
            raise InvalidArgumentError(
                f"facts of version {one.get('version')!r}, this release compares "
                f"{FACTS_VERSION}: write them with the same release on every node"
            )
    return [
        _same(facts, "dataset", "datasets"),
        _same(facts, "plan", "plan"),
        _versions(facts),
        _layout(facts),
        _once(facts),
        _clock(facts),
        _cache(facts),
        *_room(facts),
    ]


def _name(one: Facts) -> str:
    ranks = one["ranks"]
    return f"{one['host']} (ranks {ranks[0]}..{ranks[-1]})"


def _same(facts: Sequence[Facts], name: str, key: str) -> Check:
    """Whether all nodes have one value, and if not, who differs from most."""
    shown = [str(one[key]) for one in facts]
    usual, _ = Counter(shown).most_common(1)[0]
    others = [
        f"{_name(one)}: {value}"
        for one, value in zip(facts, shown, strict=True)
        if value != usual
    ]
    found = f"{usual} on {len(facts) - len(others)} of {len(facts)} nodes"
    return Check(name=name, ok=not others, found="; ".join([found, *others]))


def _versions(facts: Sequence[Facts]) -> Check:
    names = sorted({name for one in facts for name in one["versions"]})
    differing = []
    for name in names:
        found = {str(one["versions"].get(name, "none")) for one in facts}
        if len(found) > 1:
            differing.append(f"{name}: {', '.join(sorted(found))}")
    usual = ", ".join(f"{k} {v}" for k, v in facts[0]["versions"].items())
    return Check(name="versions", ok=not differing, found="; ".join(differing) or usual)


def _layout(facts: Sequence[Facts]) -> Check:
    """Whether every rank is on exactly one node."""
    sizes = sorted({int(one["world_size"]) for one in facts})
    held = Counter(rank for one in facts for rank in one["ranks"])
    missing = [rank for rank in range(max(sizes)) if not held[rank]]
    twice = sorted(rank for rank, count in held.items() if count > 1)
    wrong = []
    if len(sizes) > 1:
        wrong.append(f"world sizes differ: {', '.join(map(str, sizes))}")
    if missing:
        wrong.append(f"on no node: ranks {_shown(missing)}")
    if twice:
        wrong.append(f"on several nodes: ranks {_shown(twice)}")
    good = f"{sum(held.values())} ranks on {len(facts)} nodes, each once"
    return Check(name="ranks", ok=not wrong, found="; ".join(wrong) or good)


def _once(facts: Sequence[Facts]) -> Check:
    """Whether ranks share no sequence, and the order delivers each once."""
    wrong = []
    for one in facts:
        wrong += [f"{_name(one)}: {problem}" for problem in one["problems"] or ()]
    for step in facts[0]["steps"]:
        held = Counter(_held(facts, step))
        twice = sum(count > 1 for count in held.values())
        if twice:
            wrong.append(f"step {step}: {twice} sequences on several ranks")
    steps = ", ".join(facts[0]["steps"])
    proven = all(one["problems"] is not None for one in facts)
    good = "each sequence once in the epoch" if proven else "not proven: too long"
    found = f"{good}; no sequence twice in steps {steps}"
    return Check(name="exactly once", ok=not wrong, found="; ".join(wrong) or found)


def _held(facts: Sequence[Facts], step: str) -> Iterator[int]:
    for one in facts:
        for sequences in one["steps"].get(step, {}).values():
            yield from sequences


def _clock(facts: Sequence[Facts]) -> Check:
    """How far clocks are apart, against that of where the facts were written."""
    if any("written" not in one for one in facts):
        found = "not compared: read the facts from the files that the nodes wrote"
        return Check(name="clock", ok=None, found=found)
    offsets = [float(one["clock"]) - float(one["written"]) for one in facts]
    apart = max(offsets) - min(offsets)
    found = f"{apart:.1f} s apart, by the times of the files"
    return Check(name="clock", ok=apart <= CLOCK_SECONDS, found=found)


def _cache(facts: Sequence[Facts]) -> Check:
    with_one = [one for one in facts if one["cache"] is not None]
    if not with_one:
        found = "none: every process builds its own index; give cache_dir"
        return Check(name="cache", ok=None, found=found)
    wrong = [f"{_name(one)}: none" for one in facts if one["cache"] is None]
    wrong += [
        f"{_name(one)}: {one['cache'].get('error', 'cannot be written')}"
        for one in with_one
        if not one["cache"]["writable"]
    ]
    folders = sorted({one["cache"]["folder"] for one in with_one})
    return Check(
        name="cache", ok=not wrong, found="; ".join(wrong) or ", ".join(folders)
    )


def _room(facts: Sequence[Facts]) -> Iterator[Check]:
    """Whether limits and space are enough, node by node."""
    for name, have, need, show in (
        ("open files", "open_files", _needed_files, str),
        ("disk", "disk_free_bytes", _needed_disk, format_bytes),
        ("memory", "memory_free_bytes", _needed_memory, format_bytes),
    ):
        wrong = [
            f"{_name(one)}: {show(one[have])}, expected {show(need(one))}"
            for one in facts
            if 0 <= one[have] < need(one)
        ]
        least = min(facts, key=lambda one: one[have])
        good = f"at least {show(least[have])}, {show(need(least))} needed"
        yield Check(name=name, ok=not wrong, found="; ".join(wrong) or good)


def _needed_files(one: Facts) -> int:
    return min(int(one["num_files"]), MOST_OPEN) + SPARE_FILES


def _needed_disk(one: Facts) -> int:
    return int(one["index_pages"]) * PAGE_BYTES + SPARE_DISK * (
        one["cache"] is not None
    )


def _needed_memory(one: Facts) -> int:
    return len(one["ranks"]) * (int(one["memory"]) + OVERHEAD)


def _shown(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + ", ..." * (len(ranks) > 8)
