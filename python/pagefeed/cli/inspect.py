"""Inspect a dataset before training: how it is stored, and what it will cost.

For large datasets, it reads an even sample of footers and pages; --whole reads the
lengths of all documents, and compares files with the digests in _manifest.json. Exits
with 0, or with 1 if something cannot be read: it is reported, and the rest inspected.

For example:
  pagefeed inspect train.py:make_loader
  pagefeed inspect corpus/ --column input_ids
  pagefeed inspect corpus/ --column input_ids --length 4096 --packed --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    RUN,
    arg,
    fact_lines,
    make_sequences,
    open_run,
    table_lines,
    tell,
)
from pagefeed.core._base import format_bytes
from pagefeed.core.any_loader import AnyLoader
from pagefeed.reports import Inspection, facts_of_inspection, inspect

BAR = 40


ARGUMENTS = RUN | {"--whole": arg(bool, "read all documents, and compare digests")}


def run(options: argparse.Namespace) -> int:
    """Look and report; 1 if something cannot be read."""
    made, damage = open_run(options, sound=True)
    cut = make_sequences(options) if options.length else None
    data: Any = made
    memory = options.memory
    if isinstance(made, AnyLoader):
        data, cut, memory = made.dataset, made.sequences, made.memory
    inspections = {
        name: inspect(dataset, sequences=cut, memory=memory, whole=options.whole)
        for name, dataset in data.parts.items()
    }
    for facts in inspections.values():
        damage = [*damage, *facts.damage]
    reports: dict[str, Any] = {n: asdict(facts) for n, facts in inspections.items()}
    lines = [
        line
        for name, facts in inspections.items()
        for line in [f"{name}:"] * bool(name) + _lines(facts)
    ]
    shown = reports.get("", reports)
    return tell(options, shown, lines, damage)


def _lines(inspection: Inspection) -> list[str]:
    lines = fact_lines(facts_of_inspection(inspection))
    if inspection.storage is not None:
        rows = [
            (
                *(column.name, f"{column.type}, {' '.join(column.encodings)}"),
                *(" ".join(column.codecs), format_bytes(column.stored_bytes)),
                format_bytes(column.decoded_bytes),
            )
            for column in inspection.storage.columns
        ]
        header = ("column", "type", "codec", "stored", "decoded")
        lines += ["", *table_lines(header, rows, left=3)]
    lines += [*_length_lines(inspection), *_cost_lines(inspection)]
    return [*lines, *(f"- {advice}" for advice in inspection.advice)]


def _length_lines(inspection: Inspection) -> list[str]:
    lengths = inspection.lengths
    if lengths is None:
        return []
    of = f"{lengths.rows_read:,} rows" + " (a sample)" * lengths.is_sample
    quantiles = ", ".join(
        f"{float(share):.0%}: {value:,}" for share, value in lengths.quantiles.items()
    )
    lines = ["", f"{lengths.unit} of a document, mean {lengths.mean:,.0f}, by {of}"]
    lines.append(f"  at most, by share of documents: {quantiles}")
    most = max(rows for _, _, rows, _ in lengths.histogram)
    total = max(1, sum(tokens for _, _, _, tokens in lengths.histogram))
    for least, greatest, rows, tokens in lengths.histogram:
        bar = "#" * -(-BAR * rows // most)
        span = f"{least:,}-{greatest:,}"
        lines.append(f"  {span:>21} {rows:>10,}{tokens / total:>7.1%}  {bar}")
    return lines


def _cost_lines(inspection: Inspection) -> list[str]:
    if not inspection.costs:
        return []
    header = ("an epoch with shuffle", "reads", "bytes", "CPU", "memory", "same file")
    costs = [
        (
            *(cost.shuffle, cost.reads, format_bytes(cost.bytes_read)),
            *(f"{cost.cpu_seconds:.1f} s", format_bytes(cost.needed_bytes)),
            f"{cost.same_file_pairs:.2f}x",
        )
        for cost in inspection.costs
    ]
    lines = ["", *table_lines(header, costs)]
    lines.append("(same file: pairs of a batch from one file, against a random order)")
    return [*lines, ""]
