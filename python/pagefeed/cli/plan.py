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
    make_dataset,
    make_loader,
    tell,
)
from pagefeed.order import Shuffle
from pagefeed.reports import Forecast, forecast, plot_mixture


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
    lines = _lines(plan)
    if options.tokens_per_second:
        lines += _bandwidth_lines(options, data)
    if options.plot:
        plot_mixture(loader, options.plot)
    return tell(options, asdict(plan), lines)


def _lines(plan: Forecast) -> list[str]:
    size = f"{plan.files:,} files, {plan.pages:,} pages, {plan.rows:,} rows"
    share = plan.padding_tokens / max(1, plan.sequences * plan.length)
    waste = (
        f"{plan.padding_tokens:,} padding ({share:.2%}), {plan.dropped_tokens:,} "
        f"dropped; {plan.splits:,} splits"
    )
    steps = "without end" if plan.steps is None else f"{plan.steps:,} on every rank"
    rest = f"{plan.remainder:,} sequences in the last, incomplete one"
    needed = f"{format_bytes(plan.needed_bytes)} of pages to read each once"
    page_pairs = (
        f"{plan.same_page_pairs:.3f} (random {plan.same_page_pairs_random:.3f})"
    )
    file_pairs = (
        f"{plan.same_file_pairs:.3f} (random {plan.same_file_pairs_random:.3f})"
    )
    each = plan.read_bytes / max(1, plan.sequences * plan.length)
    reads = (
        f"{plan.reads:,} requests, {format_bytes(plan.read_bytes)}, {each:.2f} bytes "
        "a token"
    )
    parts = f", {plan.part_reads:,} times a part of one" if plan.part_reads else ""
    lines = [
        f"data       {size}, {plan.tokens:,} tokens",
        f"sequences  {plan.sequences:,}; tokens: {waste}",
        f"steps      {steps}; {rest}",
        f"order      {plan.num_lanes} lanes, {plan.window_sequences:,} sequences mixed",
        f"memory     {needed}, {format_bytes(plan.memory_bytes)} given",
        f"reads      {plan.loads_per_page:.2f} of every page{parts}: {reads}",
        *(
            f"beside     {name}: {format_bytes(each.bytes)} in {each.reads:,} reads"
            for name, each in plan.columns.items()
        ),
        f"pairs of sequences of a batch from one page: {page_pairs}",
        f"pairs of sequences of a batch from one file: {file_pairs}",
    ]
    if plan.step_costs is not None:
        now = plan.step_costs
        lines.append(
            f"slowest rank of a step: {now.slowest:.2f} of the mean "
            f"({now.slowest_unbalanced:.2f} without --balance); steps vary by "
            f"{now.spread:.0%} ({now.spread_unbalanced:.0%})"
        )
    if plan.needed_bytes > plan.memory_bytes:
        lines.append("Pages are read again: give more memory, or a smaller --window.")
    return lines + (_mixture_lines(plan) if plan.datasets else [])


def _bandwidth_lines(options: argparse.Namespace, data: AnyDataset) -> list[str]:
    """What each shuffle reads, and how fast."""
    rate = options.tokens_per_second
    lines = [
        "",
        f"at {rate:,.0f} tokens a second, of all ranks",
        f"{'shuffle':12}{'requests':>12}{'bytes':>12}{'requests/s':>12}{'MB/s':>10}",
    ]
    for block in ("page", "row_group", "row", "buffer", None):
        other = make_loader(options, data, shuffle=Shuffle.parse(block))
        plan = forecast(other)
        epochs = rate / max(1, plan.sequences * plan.length)
        lines.append(
            f"{block or 'none':12}{plan.reads:12,}{format_bytes(plan.read_bytes):>12}"
            f"{plan.reads * epochs:12,.1f}{plan.read_bytes * epochs / 1e6:10,.1f}"
        )
    return lines


def _mixture_lines(plan: Forecast) -> list[str]:
    width = max(10, *(len(name) for name in plan.datasets)) + 2
    lines = ["", f"{'dataset':{width}}{'tokens':>16}{'delivered':>16}{'epochs':>9}"]
    lines += [
        f"{name:{width}}{data.tokens:16,}{data.delivered_tokens:16,}{data.epochs:9.2f}"
        for name, data in plan.datasets.items()
    ]
    for number, stage in enumerate(plan.stages):
        steps = f"{stage.steps:,.0f} steps"
        if stage.anneal_steps:
            steps += f", {stage.anneal_steps:,.0f} of them to anneal"
        lines += ["", f"stage {number}    from step {stage.first_step:,} on, {steps}"]
        lines += [
            f"{name:{width}}{tokens:16,}{stage.shares[name]:16.4%}"
            f"{stage.epochs[name]:9.2f}"
            for name, tokens in stage.tokens.items()
            if tokens
        ]
    return lines
