"""Texts to shuffled, resumed batches, on this machine, in some seconds.

Writes example texts as Parquet, trains a byte-level BPE on the spot, counts tokens
once, feeds shuffled batches straight from the text, tokenized as it is read, stops in
the middle, resumes, and checks that nothing was lost or repeated.

With --data FOLDER it only writes the example data: texts, tokens, chats and a
tokenizer, as the guides use them.

For example:
  pagefeed demo --data corpus
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pagefeed.cli.common import arg, same_named
from pagefeed.remote import checked_output

__all__ = ["ARGUMENTS", "run"]


ARGUMENTS = {
    "--folder": arg(str, "where the files go (demo-data)", default="demo-data"),
    "--data": arg(str, "only write example data there", metavar="FOLDER"),
    "--length": arg(512, "tokens of a sequence"),
    "--batch-size": arg(16, "rows of a batch"),
    "--memory": arg("64MiB", "that a loader may hold"),
    "--seed": arg(0, "of the order"),
}


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, or write example data."""
    if options.data is not None:
        from pagefeed.cli.demo.data import write_data

        for path in write_data(_here(options.data, "data")):
            print(path)
        return 0
    from pagefeed.cli.demo.feed import run_demo

    options.folder = _here(options.folder, "folder")
    return run_demo(**same_named(options, run_demo))


def _here(path: object, name: str) -> Path:
    """Return a folder of this machine."""
    return Path(checked_output(path, None, name, buckets=False))
