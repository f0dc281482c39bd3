"""What several verbs say: of data that cannot be read, and of checks."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from pagefeed.reports import Check, Damage

__all__ = ["tell_checks", "tell_damage"]

MOST_LINES = 20
MARKS = {True: "ok", False: "WRONG", None: "-"}


def tell_damage(damage: Iterable[Damage]) -> None:
    """Print on stderr what cannot be read, a line each."""
    found = list(damage)
    for one in found[:MOST_LINES]:
        steps = f" (steps {_shown(one.steps)})" if one.steps else ""
        print(f"DAMAGED: {one.kind}: {one.message}{steps}", file=sys.stderr)
    if len(found) > MOST_LINES:
        print(f"DAMAGED: {len(found) - MOST_LINES:,} places more", file=sys.stderr)


def tell_checks(checks: Iterable[Check]) -> None:
    """Print checks, a line each."""
    for check in checks:
        print(f"{MARKS[check.ok]:6} {check.name:14} {check.found}")


def _shown(steps: tuple[int, ...]) -> str:
    some = ", ".join(map(str, steps[:8]))
    return some + ", ..." * (len(steps) > 8)
