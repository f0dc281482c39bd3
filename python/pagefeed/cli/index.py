"""Build the page index of a column, or open it, and report what it holds.

For example:
  pagefeed index corpus/ --column input_ids
  pagefeed index 'corpus/*.parquet' --column text --cache-dir ~/.cache/pagefeed --json
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from pagefeed.cli.common import PATHS, arg, declare, storage_options, tell_facts
from pagefeed.dataset import PageIndex


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    declare(parser, PATHS, paths={"nargs": "+"})
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--no-page-index",
        dest="page_index",
        action="store_false",
        help="read page headers instead of the files' own offset indexes",
    )
    where.add_argument(
        "--row-groups",
        dest="page_index",
        action="store_const",
        const="row_group",
        default=True,
        help="take whole row groups for pages: only footers are read",
    )
    declare(parser, {"--refresh": arg(bool, "build anew even if it is cached")})


def run(options: argparse.Namespace) -> int:
    """Build and report."""
    started = time.perf_counter()
    index = PageIndex.build(
        options.paths,
        options.column,
        options.cache_dir,
        page_index=options.page_index,
        refresh=options.refresh,
        storage_options=storage_options(options),
    )
    return tell_facts(options, _report(index, time.perf_counter() - started))


def _report(index: PageIndex, seconds: float) -> dict[str, Any]:
    rows, values = index.page_rows, index.page_values
    pages = len(index)
    return {
        "column": index.column,
        "files": len(index.files),
        "pages": pages,
        "rows": index.num_rows,
        "values": index.num_values,
        "median_page_rows": int(np.median(rows)) if pages else None,
        "median_page_values": int(np.median(values)) if pages else None,
        "value_bytes": index.value_bytes or None,
        "fingerprint": index.fingerprint,
        "seconds": round(seconds, 4),
    }
