r"""Check machines before a run: this one, or many by a file of facts from each.

It compares dataset, plan, versions, clocks, cache folders, open file limits, disk
space, memory and rank layout, and checks that each sequence comes exactly once. For
many nodes, write the facts on every node with --ranks and --facts, without
communication. Then compare the files on any node with --compare.

Exits with 0, or with 1 if something is wrong.

For example:
  pagefeed check train.py:make_loader --world-size 8
  pagefeed check train.py:make_loader --world-size 16 --ranks 8:16 \
      --facts shared/node-1.json
  pagefeed check --compare shared/node-0.json shared/node-1.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagefeed.cli.common import (
    RUN,
    arg,
    make_loader,
    range_of,
    read_json,
    tell,
)
from pagefeed.core.storage import write_errors
from pagefeed.errors import InvalidArgumentError
from pagefeed.remote import checked_output, make_folder
from pagefeed.reports import check_nodes, facts_of_node, shown_checks

ARGUMENTS = {
    **RUN,
    "--ranks": arg(str, "ranks of this node (all)", metavar="FIRST:END"),
    "--facts": arg(str, "file to write this node's facts to", metavar="FILE"),
    "--compare": arg(str, "files of facts", nargs="+", metavar="FILE"),
}


def run(options: argparse.Namespace) -> int:
    """Write facts, or check those of this machine or of files; 1 if one is wrong."""
    if options.facts and options.compare:
        raise InvalidArgumentError("give --facts or --compare, not both")
    if options.facts:
        return _write(options)
    files = options.compare
    facts = [_read(file) for file in files] if files else [_facts(options)]
    checks = check_nodes(facts)
    ok = all(check.ok is not False for check in checks)
    report = {"checks": [asdict(check) for check in checks], "ok": ok}
    return tell(options, report, shown_checks(checks), ok=ok)


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    form = "--ranks FIRST:END, such as 8:16"
    ranks = None if options.ranks is None else range_of(options.ranks, form)
    return facts_of_node(make_loader(options), ranks)


def _write(options: argparse.Namespace) -> int:
    path = Path(checked_output(options.facts, None, "--facts", buckets=False))
    facts = _facts(options)
    make_folder(str(path.parent))
    with write_errors(path):
        path.write_text(json.dumps(facts, indent=1))
    lines = [f"facts of ranks {facts['ranks']} written to {options.facts}"]
    return tell(options, facts, lines)


def _read(file: str) -> dict[str, Any]:
    facts = read_json(file, f"{file} holds no facts of a node")
    return facts | {"written": Path(file).stat().st_mtime}
