"""The command line: a module for each verb, with ``ARGUMENTS`` and ``run``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pagefeed._core import version
from pagefeed.cli.common import Parser, add_verbs, check_storage_options, in_flags
from pagefeed.errors import InvalidArgumentError, OutOfRangeError, PagefeedError
from pagefeed.progress import printable_output, show_progress

__all__ = ["VERBS", "main", "make_parser"]

VERBS = (
    *("count", "tokenize", "demo", "inspect", "head", "convert", "tokenizer", "index"),
    *("plan", "bench", "smoke", "doctor", "checklist", "report", "trace", "explain"),
    "verify",
)


def make_parser() -> argparse.ArgumentParser:
    """Return what reads the arguments, of all verbs."""
    parser = Parser(
        prog="pagefeed", description="LLM training batches straight from Parquet."
    )
    parser.add_argument("--version", action="version", version=f"pagefeed {version()}")
    add_verbs(parser, __name__, VERBS, "verb")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb.

    Returns:
        0 for success, 1 for an error in the data or the environment, 2 for an error in
        the arguments. argparse itself exits with 2 for errors that it finds.
    """
    with (
        show_progress(sys.stderr.isatty()),
        printable_output(sys.stdout, sys.stderr),
    ):
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    options = make_parser().parse_args(arguments)
    try:
        check_storage_options(options)
        status = int(options.run(options))
        sys.stdout.flush()  # Here, where a reader that has gone can be told.
    except PagefeedError as error:
        said = "\n  ".join([str(error), *getattr(error, "__notes__", ())])
        is_argument = isinstance(error, InvalidArgumentError | OutOfRangeError)
        if is_argument:
            said = in_flags(said, options)
        print(f"pagefeed: {type(error).__name__}: {said}", file=sys.stderr)
        return 2 if is_argument else 1
    except BrokenPipeError:  # The reader of the output, such as `head`, has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status
