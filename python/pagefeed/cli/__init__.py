"""The command line: a module for each verb, with ``ARGUMENTS`` and ``run``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from functools import partial
from importlib.util import find_spec

from pagefeed._core import version
from pagefeed.cli.parser import Parser, add_verbs
from pagefeed.errors import InvalidArgumentError, OutOfRangeError, PagefeedError
from pagefeed.progress import printable_output, show_progress

__all__ = ["VERBS", "main", "make_parser"]

VERBS = (
    *("count", "tokenize", "demo", "inspect", "head", "convert", "tokenizer", "index"),
    *("export", "stage"),
    *("plan", "smoke", "doctor", "check", "report", "trace", "explain"),
    "verify",
)


def make_parser(whole: Collection[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser of all verbs.

    Args:
        whole: Verbs that are imported, and get their arguments.
    """
    parser = Parser(
        prog="pagefeed", description="LLM training batches straight from Parquet."
    )
    parser.add_argument("--version", action="version", version=f"pagefeed {version()}")
    add_verbs(parser, __name__, VERBS, "verb", whole)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb.

    Returns:
        0 for success, 1 for an error in the data or the environment, 2 for an error in
        the arguments. argparse itself exits with 2 for errors that it finds.
    """
    with (
        show_progress(sys.stderr.isatty() and find_spec("tqdm") is not None),
        printable_output(sys.stdout, sys.stderr),
    ):
        return _run(arguments)


def _run(words: Sequence[str] | None) -> int:
    is_program, words = words is None, sys.argv[1:] if words is None else words
    options = argparse.Namespace()
    try:
        options = make_parser(words[:1]).parse_args(words)
        options.words = tuple(words)
        from pagefeed.cli.common import check_storage_options, show_warning

        if is_program:
            warnings.showwarning = partial(show_warning, options)

        check_storage_options(options)
        status = int(options.run(options))
        sys.stdout.flush()  # Here, where a closed pipe is noticed.
    except PagefeedError as error:
        said = "\n  ".join([str(error), *getattr(error, "__notes__", ())])
        is_argument = isinstance(error, InvalidArgumentError | OutOfRangeError)
        if is_argument:
            from pagefeed.cli.common import in_flags

            said = in_flags(said, options)
        print(f"pagefeed: {type(error).__name__}: {said}", file=sys.stderr)
        return 2 if is_argument else 1
    except BrokenPipeError:  # The reader of the output, such as `head`, has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status
