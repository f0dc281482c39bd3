"""Output that several verbs share: unreadable data, and results of checks."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common.arguments import in_flags
from pagefeed.cli.common.code import is_of_user
from pagefeed.core._base import format_bytes, some_of
from pagefeed.errors import one_line
from pagefeed.reports import Check, Damage

MOST_LINES = 20
NUMBERS = re.compile(r"(?<=\[)\n\s+[-+.\w]+(?:,\n\s+[-+.\w]+)*\n\s+(?=\])")
"""Line breaks in lists of numbers of indented JSON; texts hold no line breaks."""
MARKS = {True: "ok", False: "WRONG", None: "-"}


def tell(
    options: argparse.Namespace,
    report: object,
    lines: Iterable[str],
    damage: Iterable[Damage] | None = None,
    *,
    ok: bool = True,
) -> int:
    """Print a report, as JSON or as lines, and its damage; return the exit code.

    Args:
        options: The arguments.
        report: The report as JSON. A dict gets the damage too.
        lines: The report as lines of text.
        damage: What cannot be read; None if the verb does not check.
        ok: Whether all else is well.
    """
    damaged = list(damage or ())
    if damage is not None and isinstance(report, dict):
        report = report | {"damage": [asdict(defect) for defect in damaged]}
    text = _json(report) if options.json else None
    print("\n".join(lines) if text is None else text)
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
    return tell(options, facts, fact_lines(shown), ok=ok)


def _fact(name: str, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    return format_bytes(value) if name.endswith("_bytes") else f"{value:,}"


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each label and value."""
    given = [(label, one_line(value)) for label, value in facts]
    width = max([0, *(len(label) for label, _ in given)]) + 2
    return [f"{label:{width}}{value}" for label, value in given]


def table_lines(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1
) -> list[str]:
    """Return the lines of a table, with ``left`` columns of text before the numbers."""
    cells = [header, *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            f"{cell:{'<' if n < left else '>'}{width}}"
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def check_lines(checks: Iterable[Check]) -> list[str]:
    """Return a line for each check."""
    return [f"{MARKS[check.ok]:6} {check.name:14} {check.result}" for check in checks]
