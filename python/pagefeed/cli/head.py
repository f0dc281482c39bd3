"""Show rows: tokens as numbers or text, and any other columns.

Exits with 0, or with 1 if a row cannot be read: it is reported, and the other rows are
shown.

For example:
  pagefeed head train.py:make_loader --rows 3
  pagefeed head corpus/ --column input_ids --tokenizer tokenizer.json
  pagefeed head corpus/ --column text --columns id lang --rows 3 --start 1000
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pagefeed.arrow_files import ArrowDataset
from pagefeed.cli.common import (
    RUN,
    TEXT_TOKENIZER,
    arg,
    make_text_tokenizer,
    open_run,
    tell,
)
from pagefeed.core._base import check_whole, format_bytes
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.dataset import Dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat import FlatDataset
from pagefeed.parquet_files import ParquetDataset
from pagefeed.reports import (
    UNREADABLE,
    Damage,
    TextTokenizer,
    damage_of,
)

MOST_TOKENS = 32
MOST_CHARACTERS = 400

Row = dict[str, Any]


ARGUMENTS = RUN | {
    "--rows": arg(5, "rows to show"),
    "--start": arg(0, "the first of them"),
    "--columns": arg([], "further columns"),
    "--full": arg(bool, "shorten nothing"),
    **TEXT_TOKENIZER,
}


def run(options: argparse.Namespace) -> int:
    """Show rows; 1 if one cannot be read."""
    check_whole(options.rows, "rows", least=1)
    check_whole(options.start, "start", least=0)
    made, damage = open_run(options, sound=True)
    data = made.dataset if isinstance(made, AnyLoader) else made
    tokenizer = make_text_tokenizer(options, data)
    shown, lines = list[Row](), list[str]()
    for name, dataset in data.parts.items():
        with_columns = _with_columns(dataset, tuple(options.columns))
        for index, row in _rows(with_columns, options, damage):
            values = row | _texts(row, tokenizer)
            of_dataset = {"dataset": name} if name else {}
            shown.append(of_dataset | {"row": index} | values)
            lines.append(f"row {index:,}" + f" of {name}" * bool(name))
            lines += _lines(values, full=options.full)
    return tell(options, {"rows": shown}, lines, damage)


def _with_columns(
    dataset: Dataset, columns: tuple[str, ...]
) -> ParquetDataset | ArrowDataset | FlatDataset:
    if isinstance(dataset, ParquetDataset | ArrowDataset):
        return replace(dataset, metadata=columns)
    if not isinstance(dataset, FlatDataset):
        raise InvalidArgumentError(f"{dataset!r:.60} has no rows to show")
    if columns:
        raise InvalidArgumentError(
            f"--columns names {[*columns]}, and {dataset.files[0]} has tokens alone: "
            "only Parquet and Arrow have them"
        )
    return dataset


def _rows(
    dataset: ParquetDataset | ArrowDataset | FlatDataset,
    options: argparse.Namespace,
    damage: list[Damage],
) -> Iterator[tuple[int, Row]]:
    """Yield the rows that can be read, and collect each damage once."""
    seen = set()
    for row in range(options.start, min(len(dataset), options.start + options.rows)):
        try:
            yield row, dataset[row]
        except UNREADABLE as error:
            defect = damage_of(error)
            if defect not in seen:
                seen.add(defect)
                damage.append(defect)


def _texts(row: Row, tokenizer: TextTokenizer | None) -> dict[str, str]:
    """Text of the tokens in a row, under the column's name."""
    if tokenizer is None:
        return {}
    return {
        f"{name} as text": tokenizer.decode(value)
        for name, value in row.items()
        if isinstance(value, list) and all(isinstance(item, int) for item in value)
    }


def _lines(row: Row, *, full: bool) -> Iterator[str]:
    width = max(20, shutil.get_terminal_size().columns - 4)
    for column, value in row.items():
        yield f"  {column}"
        for line in _short(value, full=full).splitlines() or [""]:
            wrapped = textwrap.wrap(line, width) or [""]
            yield from (f"    {words}" for words in wrapped)


def _short(value: object, *, full: bool) -> str:
    if isinstance(value, list):
        some = value if full else value[:MOST_TOKENS]
        more = f" ... {len(value):,} in all" if len(some) < len(value) else ""
        return f"[{', '.join(map(str, some))}{more}]"
    if isinstance(value, bytes):
        return f"{value[:32]!r}, {format_bytes(len(value))}"
    text = str(value)
    if not full and len(text) > MOST_CHARACTERS:
        return f"{text[:MOST_CHARACTERS]} ... {len(text):,} characters in all"
    return text
