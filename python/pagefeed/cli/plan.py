r"""Say what a run will do before it runs: steps, memory, reads, quality of the shuffle.

For example:
  pagefeed plan train.py:make_loader --world-size 8
  pagefeed plan train.py:make_loader --set memory=256MiB --set passes=4
  pagefeed plan corpus/ --column input_ids --length 2048 --world-size 8
  pagefeed plan s3://bucket/corpus --column input_ids --length 2048 \
      --tokens-per-second 1e6 --bytes-per-second 500MB
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    RUN,
    arg,
    make_loader,
    tell,
)
from pagefeed.core._base import format_bytes, parse_bytes
from pagefeed.core.any_loader import remade
from pagefeed.core.loader import Loader
from pagefeed.core.order import FINAL_KINDS, Shuffle
from pagefeed.core.storage import is_url
from pagefeed.reports import Part, Table, Told, forecast, small_files_of

LATENCY = 0.05
"""Seconds until a bucket usually answers."""
IN_FLIGHT = 128
"""Requests of a rank at a time, at most."""


ARGUMENTS = RUN | {
    "--tokens-per-second": arg(
        float, "of all ranks: show the bandwidth that each shuffle needs"
    ),
    "--bytes-per-second": arg(
        str, "that the storage gives all ranks: show how long an epoch takes"
    ),
}


def run(options: argparse.Namespace) -> int:
    """Compute and report."""
    line = _line(options)
    loader = make_loader(options)
    plan = forecast(loader)
    parts: list[Part | Told] = [plan]
    costs = _costs(options, loader, line)
    small = small_files_of(loader.dataset.parts.values())
    parts += [] if small is None else [f"files: {small}"]
    if costs:
        parts.append(_table_of_costs(options, costs, line))
    return tell(options, asdict(plan) | {"shuffles": costs}, parts)


def _costs(
    options: argparse.Namespace, loader: Loader, line: int
) -> list[dict[str, Any]]:
    """Return the reads of an epoch with each shuffle; empty for a local disk."""
    if not (options.tokens_per_second or line or _is_remote(loader)):
        return []
    auto = remade(loader, shuffle=Shuffle(block="auto")).shuffle.block
    costs = []
    for block in FINAL_KINDS:
        plan = forecast(remade(loader, shuffle=Shuffle.parse(block)))
        waits = plan.reads * LATENCY / (IN_FLIGHT * loader.world_size)
        costs.append(
            {
                "shuffle": block or "none",
                "is_auto": block == auto,
                "requests": plan.reads,
                "bytes": plan.bytes_read,
                "tokens": plan.sequences * plan.length,
                "seconds": max(plan.bytes_read / line, waits) if line else None,
                "same_page_pairs": plan.same_page_pairs,
            }
        )
    return costs


def _table_of_costs(
    options: argparse.Namespace, costs: list[dict[str, Any]], line: int
) -> Table:
    speed, rows = options.tokens_per_second, []
    title = "what an epoch asks of the storage with each shuffle"
    if speed:
        title += f", at {speed:,.0f} tokens a second of all ranks"
    if line:
        title += f", over {format_bytes(line)} a second"
    for cost in costs:
        millions = max(1, cost["tokens"]) / 1e6
        requests, size = cost["requests"] / millions, cost["bytes"] / millions / 1e6
        row = {
            "shuffle": cost["shuffle"] + " (auto)" * cost["is_auto"],
            "requests": cost["requests"],
            "bytes": format_bytes(cost["bytes"]),
            "same-page pairs": f"{cost['same_page_pairs']:.2f}",
            "requests/Mtok": f"{requests:,.1f}",
            "MB/Mtok": f"{size:,.2f}",
        }
        if speed:
            row["requests/s"] = f"{requests * speed / 1e6:,.1f}"
            row["MB/s"] = f"{size * speed / 1e6:,.1f}"
        if line:
            row["seconds"] = f"{cost['seconds']:,.1f}"
        rows.append(row)
    return Table(title, [*rows[0]], [[*row.values()] for row in rows])


def _line(options: argparse.Namespace) -> int:
    """Return the bandwidth of the storage in bytes a second; 0 if it is not given."""
    given = options.bytes_per_second
    return parse_bytes(given, name="bytes_per_second") if given else 0


def _is_remote(loader: Loader) -> bool:
    datasets = loader.dataset.parts.values()
    return any(is_url(dataset.files[0]) for dataset in datasets if dataset.files)
