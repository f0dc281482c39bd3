"""The command line: one module per verb, each with ``configure`` and ``run``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from pagefeed._base import show_progress
from pagefeed.errors import PagefeedError

__all__ = ["main"]

VERBS = {
    "demo": "real text to shuffled, resumed batches",
    "inspect": "look at a dataset: how it is stored, and what it will cost",
    "head": "show rows: tokens as numbers or text, and any other columns",
    "index": "build the page index of a column and report on it",
    "plan": "say what a run will do before it runs",
    "trace": "say where a batch came from, or write steps anew",
    "verify": "prove that an epoch delivers every sequence exactly once",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb.

    Returns:
        0 if all went well, 1 for an error in the data or the environment; argparse
        exits with 2 for an error in the arguments.
    """
    parser = argparse.ArgumentParser(
        prog="pagefeed", description="LLM training batches straight from Parquet."
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, summary in VERBS.items():
        module = importlib.import_module(f"pagefeed.cli.{verb}")
        verb_parser = verbs.add_parser(
            verb,
            help=summary,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(verb_parser)
        verb_parser.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    try:
        with show_progress(sys.stderr.isatty()):
            return int(options.run(options))
    except PagefeedError as error:
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"pagefeed: {type(error).__name__}: {error}{notes}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
