r"""Check many nodes before a run, by a file of facts from each, without communication.

Run it on every node to write the facts: `pagefeed checklist PATHS ... --world-size 16
--ranks 0:8 --facts shared/node-0.json`. Then compare them on any node: `pagefeed
checklist --compare shared/node-*.json`. It compares dataset, plan, versions, clocks,
cache folders, open file limits, disk space, memory and rank layout, and checks that
each sequence comes exactly once.

Exits with 0, or with 1 if something is wrong.

For example:
  pagefeed checklist corpus/ --column input_ids --length 2048 --world-size 16 \
      --ranks 8:16 --facts shared/node-1.json
  pagefeed checklist --compare shared/node-0.json shared/node-1.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagefeed.cli.common import (
    NO_COLUMN,
    RUN,
    arg,
    check_lines,
    make_loader,
    range_of,
    read_json,
    tell,
)
from pagefeed.core._base import write_errors
from pagefeed.errors import InvalidArgumentError
from pagefeed.remote import checked_output, make_folder
from pagefeed.reports import checklist as compare
from pagefeed.reports import facts_of_node

ARGUMENTS = {
    **RUN,
    **NO_COLUMN,
    "--ranks": arg(str, "ranks of this node", metavar="FIRST:END"),
    "--facts": arg(str, "file to write this node's facts to", metavar="FILE"),
    "--compare": arg(str, "files of facts", nargs="+", metavar="FILE"),
}


def run(options: argparse.Namespace) -> int:
    """Write facts, or compare them; 1 if something is wrong."""
    if bool(options.facts) == bool(options.compare):
        raise InvalidArgumentError(
            "give --facts FILE with the run's arguments, or --compare FILE ...: "
            "exactly one of them"
        )
    if options.facts:
        return _write(options)
    checks = compare([_read(file) for file in options.compare])
    ok = all(check.ok is not False for check in checks)
    report = {"checks": [asdict(check) for check in checks], "ok": ok}
    return tell(options, report, check_lines(checks), ok=ok)


def _write(options: argparse.Namespace) -> int:
    if options.column is None:
        raise InvalidArgumentError("--column is missing: the token column")
    path = Path(checked_output(options.facts, None, "--facts", buckets=False))
    form = "--ranks FIRST:END, such as 8:16"
    ranks = None if options.ranks is None else range_of(options.ranks, form)
    facts = facts_of_node(make_loader(options), ranks)
    make_folder(str(path.parent))
    with write_errors(path):
        path.write_text(json.dumps(facts, indent=1))
    lines = [f"facts of ranks {facts['ranks']} written to {options.facts}"]
    return tell(options, facts, lines)


def _read(file: str) -> dict[str, Any]:
    facts = read_json(file, f"{file} holds no facts of a node")
    return facts | {"written": Path(file).stat().st_mtime}
