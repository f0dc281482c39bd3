"""Inspect a dataset before training: how it is stored, and how long documents are.

For large datasets, it reads an even sample of footers and pages; --whole reads the
lengths of all documents, and compares files with the digests in _manifest.json. Exits
with 0, or with 1 if something cannot be read: it is reported, and the rest inspected.

For example:
  pagefeed inspect train.py:make_loader
  pagefeed inspect corpus/ --column input_ids
  pagefeed inspect corpus/ --column input_ids --whole --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    RUN,
    arg,
    is_code,
    open_paths,
    open_run,
    tell,
)
from pagefeed.core.any_loader import AnyLoader
from pagefeed.parquet_files import ParquetDataset
from pagefeed.reports import Part, Table, Told, inspect

ARGUMENTS = RUN | {"--whole": arg(bool, "read all documents, and compare digests")}


def run(options: argparse.Namespace) -> int:
    """Look and report; 1 if something cannot be read."""
    if options.column is None and options.paths and not is_code(options.paths[0]):
        named = open_paths(options)
        if isinstance(named, ParquetDataset) and named.column not in named.columns:
            types = {field.name: str(field.type) for field in named.schema}
            table = Table("", ("column", "type"), [*types.items()], 2)
            told = "Name the column of tokens or texts, with --column:"
            return tell(options, {"columns": types}, [told, table])
    made, damage = open_run(options, sound=True)
    data: Any = made.dataset if isinstance(made, AnyLoader) else made
    inspections = {
        name: inspect(dataset, whole=options.whole)
        for name, dataset in data.parts.items()
    }
    for facts in inspections.values():
        damage = [*damage, *facts.damage]
    reports: dict[str, Any] = {n: asdict(facts) for n, facts in inspections.items()}
    parts = list[Part | Told]()
    for name, facts in inspections.items():
        parts += [f"{name}:", facts] if name else [facts]
    return tell(options, reports.get("", reports), parts, damage)
