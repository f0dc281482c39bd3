r"""Write a report of a run as one page of HTML, which needs no network.

The page shows the dataset and its documents, the mixture over training, the packing,
and the order as a picture. With a balance it shows the slowest rank of steps.

Exits with 0, or with 1 if something cannot be read: the page says what.

For example:
  pagefeed report train.py:make_loader --output report.html
  pagefeed report corpus/ --column input_ids --length 2048 --output report.html
"""

from __future__ import annotations

import argparse
import warnings

from pagefeed.cli.common import (
    RUN,
    arg,
    make_sound_loader,
    storage_options,
    tell,
)
from pagefeed.remote import output_file
from pagefeed.reports import report as make_page

ARGUMENTS = RUN | {
    "--output": arg(str, "the page", required=True, metavar="FILE"),
}


def run(options: argparse.Namespace) -> int:
    """Write the page; 1 if something cannot be read."""
    there = storage_options(options, options.output)
    with output_file(options.output, there, "--output") as out:
        with warnings.catch_warnings(action="ignore"):
            loader, damage = make_sound_loader(options)
            page = make_page(loader, damage=damage)
        out.write(page.encode())
    lines = [f"{out.path} written, {len(page):,} characters"]
    return tell(options, {"file": out.path}, lines, damage)
