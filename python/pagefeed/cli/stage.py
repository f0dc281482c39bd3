"""Bring the files of a run to a local disk, and say what to read in place of the old.

Pages are checked on the way. Start a killed copy again to continue it.

For example:
  pagefeed stage train.py:make_loader --output /nvme/corpus
  pagefeed stage corpus/ --column input_ids --output /nvme/corpus --rate 500MB
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import RUN, open_run, parameters, same_named, tell
from pagefeed.core._base import format_bytes
from pagefeed.prepare import stage

ARGUMENTS = RUN | parameters(stage, "output rate num_threads")


def run(options: argparse.Namespace) -> int:
    """Stage and report."""
    made, _ = open_run(options)
    given = {n: v for n, v in same_named(options, stage).items() if n != "run"}
    done = stage(made, **given)
    copied = format_bytes(done.num_brought)
    whole = format_bytes(done.num_bytes)
    lines = [
        f"{done.num_files:,} files of {whole} are there, {copied} copied now",
        *(f"in place of {old} read {new}" for old, new in done.folders.items()),
    ]
    return tell(options, asdict(done), lines)
