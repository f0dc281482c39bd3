"""Write the sequences of a run as files, shuffled, mixed and cut as its loader does.

For trainers that cannot take a loader, for shuffled copies, or to look at. Start a
killed export again to continue it.

For example:
  pagefeed export train.py:make_loader --output epoch-0
  pagefeed export corpus/ --column input_ids --length 2048 --to npy --output arrays
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import RUN, make_loader, parameters, same_named, tell
from pagefeed.prepare import export

WRITTEN = "output to dtype shard_size page_size compression num_threads engine"
ARGUMENTS = RUN | parameters(export, WRITTEN)


def run(options: argparse.Namespace) -> int:
    """Export and report."""
    given = same_named(options, export)
    # Loaders have parameters of these names too.
    others = {name: value for name, value in vars(options).items() if name not in given}
    done = export(make_loader(argparse.Namespace(**others)), **given)
    line = (
        f"{done.num_sequences:,} sequences of {done.num_steps:,} steps ({done.dtype}) "
        f"in {len(done.files):,} files of {done.folder}; the state after them: "
        f"{done.manifest}"
    )
    return tell(options, asdict(done), [line])
