"""Arguments that name texts and their sources, and what these come to as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import configure_storage, open_parquet, pairs_of
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare import TokenRate
from pagefeed.storage import Paths

__all__ = ["as_rows", "configure_texts", "make_texts", "rate_lines"]


def configure_texts(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that name texts."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, URLs")
    parser.add_argument("--column", required=True, help="the column of texts")
    parser.add_argument(
        "--dataset",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=PATH",
        help="sources by name, in place of PATH",
    )
    parser.add_argument(
        "--where", metavar="PREDICATE", help='only rows such as "quality > 0.8"'
    )
    parser.add_argument(
        "--source-column", metavar="COLUMN", help="its values are sources, as lang"
    )
    parser.add_argument(
        "--sample", default="256MiB", help="bytes of text to draw (%(default)s)"
    )
    parser.add_argument(
        "--held-out", type=float, default=0.01, help="share of rows (%(default)s)"
    )
    parser.add_argument(
        "--shuffle", default="page", choices=["page", "row"], help="what is drawn"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache-dir", help="folder to keep the index in")
    configure_storage(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def make_texts(
    options: argparse.Namespace,
) -> ParquetDataset | dict[str, ParquetDataset]:
    """Return the texts that the arguments name.

    Raises:
        InvalidArgumentError: If they name none, or both ways.
    """
    if bool(options.paths) == bool(options.dataset):
        raise InvalidArgumentError(
            "give paths, or --dataset NAME=PATH ...: exactly one of them"
        )
    if options.paths:
        return _texts(options, options.paths)
    pairs = pairs_of(options.dataset, "--dataset NAME=PATH")
    return {name: _texts(options, path) for name, path in pairs}


def _texts(options: argparse.Namespace, paths: Paths) -> ParquetDataset:
    texts = open_parquet(options, paths)
    return texts if options.where is None else texts.where(options.where)


def as_rows(rates: Sequence[TokenRate]) -> list[dict[str, Any]]:
    """Return what texts come to, as JSON has it."""
    return [
        asdict(rate)
        | {
            "tokens_per_byte": rate.tokens_per_byte,
            "tokens_per_word": rate.tokens_per_word,
        }
        for rate in rates
    ]


def rate_lines(
    after: Sequence[TokenRate], before: Sequence[TokenRate] = ()
) -> Iterator[str]:
    """Yield what held-out texts of each source come to, and came to before."""
    width = max([len("source"), *(len(rate.source) for rate in after)])
    names = ("rows", "bytes", "tokens", "per byte", "per word")
    earlier = ("tokens before", "per byte", "fewer") if before else ()
    head = "".join(f"{name:>14}" for name in (*names, *earlier))
    yield f"held out: {len(after)} sources\n{'source':{width}}{head}"
    for number, rate in enumerate(after):
        line = f"{rate.source:{width}}{rate.num_rows:>14,}{rate.num_bytes:>14,}"
        line += f"{rate.num_tokens:>14,}{_shown(rate.tokens_per_byte)}"
        line += _shown(rate.tokens_per_word)
        if before:
            was = before[number]
            fewer = 1 - rate.num_tokens / was.num_tokens if was.num_tokens else 0
            line += f"{was.num_tokens:>14,}{_shown(was.tokens_per_byte)}{fewer:>14.1%}"
        yield line


def _shown(rate: float | None) -> str:
    return f"{'-' if rate is None else format(rate, '.4f'):>14}"
