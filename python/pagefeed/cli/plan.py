"""Say what a run will do before it runs: steps, memory, reads, quality of the shuffle.

For example:
  pagefeed plan corpus/ --column input_ids --length 2048 --world-size 8
  pagefeed plan corpus/ --column input_ids --length 2048 --passes 4 --memory 256MiB
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from pagefeed.cli.options import configure_run, make_loader
from pagefeed.forecast import Forecast, forecast
from pagefeed.sizes import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    configure_run(parser)


def run(options: argparse.Namespace) -> int:
    """Compute and report."""
    plan = forecast(make_loader(options))
    if options.json:
        print(json.dumps(asdict(plan), indent=2))
    else:
        print("\n".join(_lines(plan)))
    return 0


def _lines(plan: Forecast) -> list[str]:
    size = f"{plan.files:,} files, {plan.pages:,} pages, {plan.rows:,} rows"
    share = plan.padding_tokens / max(1, plan.units * plan.length)
    waste = (
        f"{plan.padding_tokens:,} padding ({share:.2%}), {plan.dropped_tokens:,} "
        f"dropped; {plan.splits:,} splits"
    )
    rest = f"{plan.remainder:,} sequences in the last, incomplete one"
    needed = f"{format_bytes(plan.needed_bytes)} of pages to read each once"
    page_pairs = (
        f"{plan.same_page_pairs:.3f} (random {plan.same_page_pairs_random:.3f})"
    )
    file_pairs = (
        f"{plan.same_file_pairs:.3f} (random {plan.same_file_pairs_random:.3f})"
    )
    lines = [
        f"data       {size}, {plan.tokens:,} tokens",
        f"sequences  {plan.units:,}; tokens: {waste}",
        f"steps      {plan.steps:,} on every rank; {rest}",
        f"order      {plan.num_lanes} lanes, {plan.window_units:,} sequences mixed",
        f"memory     {needed}, {format_bytes(plan.memory_bytes)} given",
        f"reads      {plan.loads_per_page:.2f} of every page",
        f"pairs of sequences of a batch from one page: {page_pairs}",
        f"pairs of sequences of a batch from one file: {file_pairs}",
    ]
    if plan.needed_bytes > plan.memory_bytes:
        lines.append("Pages are read again: give more memory, or a smaller --window.")
    return lines
