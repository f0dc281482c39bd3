"""Measure a storage: latency, and bandwidth by size and number of requests.

It reads pieces from all over the largest file at a URL, for about a second for each
pair of a request size and a number of concurrent requests.

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
    measured = bench_storage(files, **same_named(options, bench_storage))
    return tell(
        options, asdict(measured) | {"advice": measured.advice}, _lines(measured)
    )


def _lines(bench: StorageBench) -> list[str]:
    least, median, most = (f"{1e3 * time:.1f}" for time in bench.latency_seconds)
    facts = [
        ("file", f"{format_bytes(bench.file_bytes)}, of {bench.files:,}"),
        ("latency", f"{median} ms ({least} to {most})"),
    ]
    rows = [
        (
            *(format_bytes(measured.request_bytes), measured.depth),
            f"{measured.bytes_per_second / measured.request_bytes:.1f}",
            f"{measured.bytes_per_second / 1e6:.1f}",
        )
        for measured in bench.measured
    ]
    header = ("a request", "at a time", "requests/s", "MB/s")
    advice = [f"- {line}" for line in bench.advice]
    return [*fact_lines(facts), "", *table_lines(header, rows), "", *advice]
