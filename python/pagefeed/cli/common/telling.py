"""What several verbs say: of data that cannot be read, and of checks."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pagefeed._base import format_bytes
from pagefeed.reports import Check, Damage

__all__ = ["as_json", "check_lines", "tell", "tell_damage", "tell_facts"]

MOST_LINES = 20
MARKS = {True: "ok", False: "WRONG", None: "-"}


def tell(
    options: argparse.Namespace,
    report: object,
    lines: Iterable[str],
    damage: Iterable[Damage] = (),
) -> int:
    """Print a report, as JSON or as lines, and what cannot be read; 1 if something."""
    print(json.dumps(report, indent=2) if options.json else "\n".join(lines))
    found = list(damage)
    tell_damage(found)
    return 1 if found else 0


def tell_facts(options: argparse.Namespace, facts: Mapping[str, Any]) -> int:
    """Print facts by their names."""
    return tell(options, facts, itertools.starmap(_fact, facts.items()))


def _fact(name: str, value: object) -> str:
    shown = f"{value:,}" if isinstance(value, int) else value
    if name.endswith("_bytes") and isinstance(value, int):
        shown = format_bytes(value)
    return f"{name.replace('_', ' '):24}{shown}"


def as_json(damage: Iterable[Damage]) -> dict[str, Any]:
    """Return what reports say of what cannot be read."""
    return {"damage": [asdict(one) for one in damage]}


def tell_damage(damage: Iterable[Damage]) -> None:
    """Print on stderr what cannot be read, a line each."""
    found = list(damage)
    for one in found[:MOST_LINES]:
        steps = f" (steps {_shown(one.steps)})" if one.steps else ""
        print(f"DAMAGED: {one.kind}: {one.message}{steps}", file=sys.stderr)
    if len(found) > MOST_LINES:
        print(f"DAMAGED: {len(found) - MOST_LINES:,} places more", file=sys.stderr)


def check_lines(checks: Iterable[Check]) -> list[str]:
    """Return a line for each check."""
    return [f"{MARKS[one.ok]:6} {one.name:14} {one.found}" for one in checks]


def _shown(steps: tuple[int, ...]) -> str:
    some = ", ".join(map(str, steps[:8]))
    return some + ", ..." * (len(steps) > 8)
