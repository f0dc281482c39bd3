r"""Build or open the page index of a column, and report its contents.

--output writes the index for all nodes of a run. They open it by pagefeed.parquet(URL,
index=URL/_pagefeed), and then list no files and read no footers. A second run of the
command reads new and changed files only. --check writes nothing: it compares the index
with a listing, and exits with 1 if files were added, removed or changed.

For example:
  pagefeed index corpus/ --column input_ids
  pagefeed index s3://bucket/corpus --column input_ids \
      --output s3://bucket/corpus/_pagefeed
  pagefeed index 'corpus/*.parquet' --column text --cache-dir ~/.cache/pagefeed --json
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from pagefeed.cli.common import (
    PATHS,
    SOME_PATHS,
    arg,
    group,
    parameters,
    same_named,
    tell_facts,
)
from pagefeed.core.dataset import PageIndex
from pagefeed.errors import InvalidArgumentError
from pagefeed.remote import check_index, write_index

_SHOWN = 5
"""Files named for each kind of difference, at most."""


HEADERS = "read page headers instead of the files' own offset indexes"
GROUPS = "take whole row groups for pages: only footers are read"
OF_GROUPS = {"action": "store_const", "const": "row_group", "default": True}
PAGES = {
    "--no-page-index": arg(bool, HEADERS, action="store_false", dest="page_index"),
    "--row-groups": arg(bool, GROUPS, dest="page_index", **OF_GROUPS),
}
ARGUMENTS = {
    **PATHS,
    **SOME_PATHS,
    **group(PAGES),
    **parameters(PageIndex.build, "refresh"),
    "--output": arg(str, "write it for all nodes, to this folder or bucket"),
    **parameters(write_index, "shrink force"),
    "--check": arg(bool, "compare what --output names with a listing"),
}


def run(options: argparse.Namespace) -> int:
    """Build and report, write, or compare."""
    if options.check and options.output is None:
        raise InvalidArgumentError("--check needs --output: the folder of the index")
    if options.output is not None:
        return _check(options) if options.check else _write(options)
    started = time.perf_counter()
    index = PageIndex.build(**same_named(options, PageIndex.build))
    return tell_facts(options, _report(index, time.perf_counter() - started))


def _write(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    done = write_index(**same_named(options, write_index))
    seconds = round(time.perf_counter() - started, 4)
    return tell_facts(options, asdict(done) | {"seconds": seconds})


def _check(options: argparse.Namespace) -> int:
    check = check_index(**same_named(options, check_index))
    names = ("added", "removed", "changed")
    counts = {f"num_{name}": len(getattr(check, name)) for name in names}
    first = {name: " ".join(getattr(check, name)[:_SHOWN]) or None for name in names}
    about = {"written": check.written, "files": check.num_files}
    return tell_facts(options, about | counts | first, ok=check.ok)


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
