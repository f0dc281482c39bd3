"""Real text to shuffled, resumed batches, on this machine, in about a minute.

Takes the text of Python's standard library, writes it as Parquet, trains a byte-level
BPE on the spot, counts tokens once, feeds shuffled batches straight from the text,
tokenized as it is read, stops in the middle, resumes, and checks that nothing was lost
or repeated.

With --data FOLDER it writes example data instead: texts, tokens, chats and a tokenizer,
as the guides use them.

For example:
  pagefeed demo --data corpus
"""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("demo-data"),
        help="where the Parquet files go (default: %(default)s)",
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="only write example data there"
    )
    parser.add_argument("--length", type=int, default=512, help="tokens of a sequence")
    parser.add_argument("--batch-size", type=int, default=16, help="rows of a batch")
    parser.add_argument("--memory", default="64MiB", help="that a loader may hold")
    parser.add_argument("--seed", type=int, default=0, help="of the order")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, or write example data."""
    if options.data is not None:
        from pagefeed.cli.demo.data import write_data

        for path in write_data(options.data):
            print(path)
        return 0
    from pagefeed.cli.demo.feed import run_demo

    return run_demo(
        folder=options.folder,
        length=options.length,
        batch_size=options.batch_size,
        memory=options.memory,
        seed=options.seed,
    )
