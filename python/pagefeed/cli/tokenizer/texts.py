"""Arguments that name texts and their sources, and tables of token rates."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    FILES,
    PATHS,
    arg,
    open_parquet,
    pairs_of,
    parameters,
)
from pagefeed.core.storage import Paths
from pagefeed.errors import InvalidArgumentError
from pagefeed.parquet_files import ParquetDataset
from pagefeed.prepare import TokenRate, train_tokenizer
from pagefeed.reports import Table

FORM = "NAME=PATH"


DATASET = {
    "--dataset": arg(
        [], "sources by name, in place of PATH", action="extend", metavar=FORM
    )
}
"""The argument that names texts by their sources."""
TEXTS = {
    **PATHS,
    **DATASET,
    "--where": FILES["--where"],
    **parameters(
        train_tokenizer,
        "output source_column sample held_out shuffle seed temperature",
    ),
}
"""The arguments that name texts."""


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
    """Return token rates in the form of JSON."""
    rows = []
    for rate in rates:
        kind = type(rate)
        names = [n for n in dir(kind) if isinstance(getattr(kind, n), property)]
        rows.append(asdict(rate) | {name: getattr(rate, name) for name in names})
    return rows


def table_of_rates(
    after: Sequence[TokenRate], before: Sequence[TokenRate] = ()
) -> Table:
    """Return a table of the tokens for held-out texts, before and after."""
    header = ["source", "rows", "bytes", "tokens", "per byte", "per word", "unknown"]
    header += ["tokens before", "per byte", "fewer"] * bool(before)
    rows = []
    for index, rate in enumerate(after):
        row: list[object] = [rate.source, rate.num_rows, rate.num_bytes]
        row += [rate.num_tokens, _shown(rate.tokens_per_byte)]
        row += [_shown(rate.tokens_per_word), _shown(rate.unknown_rate)]
        if before:
            was = before[index]
            fewer = 1 - rate.num_tokens / was.num_tokens if was.num_tokens else 0
            row += [was.num_tokens, _shown(was.tokens_per_byte), f"{fewer:.1%}"]
        rows.append(row)
    return Table(f"held out: {len(after)} sources", header, rows)


def _shown(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.4f}"
