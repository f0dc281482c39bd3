"""Measure what a storage gives: latency, bandwidth by size and number of requests.

The largest file at a URL is read in pieces all over it, about a second for each pair of
a size and a number of requests at a time.

For example:
  pagefeed bench s3://bucket/corpus/
  pagefeed bench s3://bucket/part-0.parquet --sizes 256KiB 4MiB --depths 16 64 --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    SOME_PATHS,
    STORAGE,
    fact_lines,
    parameters,
    same_named,
    storage_options,
    table_lines,
    tell,
)
from pagefeed.core._base import format_bytes
from pagefeed.core.storage import located
from pagefeed.reports import StorageBench, bench_storage

READS = parameters(bench_storage, "sizes depths seconds")
ARGUMENTS = SOME_PATHS | READS | STORAGE


def run(options: argparse.Namespace) -> int:
    """Measure and report."""
    files = located(options.paths, storage_options(options, *options.paths))
    found = bench_storage(files, **same_named(options, bench_storage))
    return tell(options, asdict(found) | {"advice": found.advice}, _lines(found))


def _lines(found: StorageBench) -> list[str]:
    least, median, most = (f"{1e3 * time:.1f}" for time in found.latency_seconds)
    facts = [
        ("file", f"{format_bytes(found.file_bytes)}, of {found.files:,}"),
        ("latency", f"{median} ms ({least} to {most})"),
    ]
    rows = [
        (
            *(format_bytes(one.request_bytes), one.depth),
            f"{one.bytes_per_second / one.request_bytes:.1f}",
            f"{one.bytes_per_second / 1e6:.1f}",
        )
        for one in found.measured
    ]
    header = ("a request", "at a time", "requests/s", "MB/s")
    advice = [f"- {line}" for line in found.advice]
    return [*fact_lines(facts), "", *table_lines(header, rows), "", *advice]
