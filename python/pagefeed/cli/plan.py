"""Say what a run will do before it runs: steps, memory, reads, quality of the shuffle.

For example:
  pagefeed plan corpus/ --column input_ids --length 2048 --world-size 8
  pagefeed plan corpus/ --column input_ids --length 2048 --passes 4 --memory 256MiB
  pagefeed plan s3://bucket/corpus --column input_ids --length 2048
      --tokens-per-second 1e6
  pagefeed plan --mix web=web/:0.7 code=code/:0.3 --stage step=9000 web=1 code=1
      --max-steps 10000 --column input_ids --length 2048 --plot mixture.svg
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed._base import format_bytes
from pagefeed.cli.common import (
    BESIDE,
    AnyDataset,
    arg,
    configure_run,
    declare,
    fact_lines,
    make_dataset,
    make_loader,
    table_lines,
    tell,
)
from pagefeed.mixture import Mixture
from pagefeed.order import Shuffle
from pagefeed.reports import (
    facts_of_plan,
    forecast,
    mixture_tables,
    plot_mixture,
)
from pagefeed.storage import is_url


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    configure_run(parser)
    table = {
        "--tokens-per-second": arg(
            float, "of all ranks: show the bandwidth that each shuffle needs"
        ),
        **BESIDE,
        "--plot": arg(str, "draw a mixture: .png or .svg", metavar="FILE"),
    }
    declare(parser, table)


def run(options: argparse.Namespace) -> int:
    """Compute and report."""
    data = make_dataset(options)
    tells = ["metadata"] if options.metadata or options.spans else []
    loader = make_loader(options, data, fields=["input_ids", *tells])
    plan = forecast(loader)
    lines = fact_lines(facts_of_plan(plan))
    if plan.needed_bytes > plan.memory_bytes:
        lines.append("Pages are read again: give more memory, or a smaller --window.")
    for table in mixture_tables(plan):
        lines += ["", table.title, *table_lines(table.header, table.rows)]
    if options.tokens_per_second or _is_remote(data):
        lines += _cost_lines(options, data)
    if options.plot:
        plot_mixture(loader, options.plot)
    return tell(options, asdict(plan), lines)


def _cost_lines(options: argparse.Namespace, data: AnyDataset) -> list[str]:
    """What each shuffle asks of a storage, and how fast."""
    rate, rows = options.tokens_per_second, list[tuple[object, ...]]()
    auto = make_loader(options, data, shuffle=Shuffle(block="auto")).shuffle.block
    for block in ("page", "row_group", "row", "buffer", None):
        plan = forecast(make_loader(options, data, shuffle=Shuffle.parse(block)))
        millions = max(1, plan.sequences * plan.length) / 1e6
        requests, size = plan.reads / millions, plan.bytes_read / millions / 1e6
        name = f"{block or 'none'}{' (auto)' if block == auto else ''}"
        row = [name, plan.reads, format_bytes(plan.bytes_read)]
        row += [f"{requests:,.1f}", f"{size:,.2f}"]
        if rate:
            row += [f"{requests * rate / 1e6:,.1f}", f"{size * rate / 1e6:,.1f}"]
        rows.append(tuple(row))
    header = ["shuffle", "requests", "bytes", "requests/Mtok", "MB/Mtok"]
    title = "what each shuffle asks of the storage"
    if rate:
        header += ["requests/s", "MB/s"]
        title += f", at {rate:,.0f} tokens a second of all ranks"
    return ["", title, *table_lines(tuple(header), rows)]


def _is_remote(data: AnyDataset) -> bool:
    parts = data.datasets.values() if isinstance(data, Mixture) else [data]
    return any(is_url(part.files[0]) for part in parts if part.files)
