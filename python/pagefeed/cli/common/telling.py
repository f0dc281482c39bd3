"""Output that several verbs share: unreadable data, and results of checks."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common.arguments import in_flags
from pagefeed.cli.common.code import is_of_user
from pagefeed.core._base import format_bytes, some_of
from pagefeed.reports import Damage, Part, Told, lines_of

MOST_LINES = 20
NUMBERS = re.compile(r"(?<=\[)\n\s+[-+.\w]+(?:,\n\s+[-+.\w]+)*\n\s+(?=\])")
"""Line breaks in lists of numbers of indented JSON; texts hold no line breaks."""


def tell(
    options: argparse.Namespace,
    report: object,
    parts: Iterable[Part | Told],
    damage: Iterable[Damage] | None = None,
    *,
    ok: bool = True,
) -> int:
    """Print a report, as JSON or as lines, and its damage; return the exit code.

    Args:
        options: The arguments.
        report: The report as JSON. A dict gets the damage too.
        parts: The report as facts, tables and sentences.
        damage: What cannot be read; None if the verb does not check.
        ok: Whether all else is well.
    """
    damaged = list(damage or ())
    if damage is not None and isinstance(report, dict):
        report = report | {"damage": [asdict(defect) for defect in damaged]}
    text = _json(report) if options.json else None
    print("\n".join(lines_of(parts)) if text is None else text)
    for defect in damaged[:MOST_LINES]:
        steps = f" (steps {some_of(defect.steps)})" if defect.steps else ""
        print(f"DAMAGED: {defect.kind}: {defect.message}{steps}", file=sys.stderr)
    if len(damaged) > MOST_LINES:
        print(f"DAMAGED: {len(damaged) - MOST_LINES:,} places more", file=sys.stderr)
    return 1 if damaged or not ok else 0


def show_warning(
    options: argparse.Namespace,
    warning: Warning | str,
    kind: type,
    file: str,
    line: int,
    *_: object,
) -> None:
    """Print a warning: at the user's line, or in words of the flags."""
    if is_of_user(file):
        place, said = f"{os.path.relpath(file)}:{line}", str(warning)
    else:
        place, said = "pagefeed", in_flags(str(warning), options)
    print(f"{place}: {kind.__name__}: {said}", file=sys.stderr)


def _json(report: object) -> str:
    """Return a report as JSON, with a list of numbers on one line."""
    text = json.dumps(report, indent=2, default=_plain)
    return NUMBERS.sub(lambda match: " ".join(match[0].split()), text)


def _plain(value: object) -> str:
    """Return what JSON has no type for as text: times, bytes, decimals."""
    return value.hex() if isinstance(value, bytes) else str(value)


def tell_facts(
    options: argparse.Namespace, facts: Mapping[str, Any], *, ok: bool = True
) -> int:
    """Print facts by their names."""
    shown = ((name.replace("_", " "), _fact(name, facts[name])) for name in facts)
    return tell(options, facts, [[*shown]], ok=ok)


def _fact(name: str, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    return format_bytes(value) if name.endswith("_bytes") else f"{value:,}"
