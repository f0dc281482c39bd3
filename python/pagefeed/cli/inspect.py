"""Look at a dataset before training: how it is stored, and what it will cost.

Of large datasets an even sample of footers and pages is read; --whole reads the lengths
of all documents. Exits with 0, or with 1 if something cannot be read: that is told, and
the rest is looked at.

For example:
  pagefeed inspect corpus/ --column input_ids
  pagefeed inspect corpus/ --column input_ids --length 4096 --packed --json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from pagefeed._base import format_bytes
from pagefeed.cli.common import (
    arg,
    as_json,
    configure_run,
    declare,
    make_sequences,
    make_sound_dataset,
    tell,
)
from pagefeed.mixture import Mixture
from pagefeed.reports import Inspection, inspect

BAR = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    configure_run(parser)
    declare(parser, {"--whole": arg(bool, "read the lengths of all documents")})


def run(options: argparse.Namespace) -> int:
    """Look and report; 1 if something cannot be read."""
    data, damage = make_sound_dataset(options)
    cut = make_sequences(options) if options.length else None
    datasets = data.datasets if isinstance(data, Mixture) else {"": data}
    found = {
        name: inspect(
            dataset, sequences=cut, memory=options.memory, whole=options.whole
        )
        for name, dataset in datasets.items()
    }
    damage = [*damage, *(one for each in found.values() for one in each.damage)]
    made: dict[str, Any] = {name: asdict(one) for name, one in found.items()}
    lines = [
        line
        for name, one in found.items()
        for line in [f"{name}:"] * bool(name) + _lines(one)
    ]
    shown = made if options.mix else made[""]
    return tell(options, shown | as_json(damage), lines, damage)


def _lines(found: Inspection) -> list[str]:
    return [
        *_size_lines(found),
        *_storage_lines(found),
        *_length_lines(found),
        *_cost_lines(found),
        *(f"- {advice}" for advice in found.advice),
    ]


def _size_lines(found: Inspection) -> list[str]:
    what = "texts" if found.tokens is None else f"{found.tokens:,} values"
    lines = [
        f"files      {found.files:,}, {format_bytes(found.stored_bytes)}",
        f"rows       {found.rows:,}, {what} of {found.column}",
        f"row groups {found.row_groups:,}, {found.pages:,} pages",
    ]
    sizes = found.page_sizes
    if sizes is not None:
        stored = " / ".join(format_bytes(size) for size in sizes.stored_bytes)
        rows = " / ".join(f"{rows:,}" for rows in sizes.rows)
        values = " / ".join(f"{values:,}" for values in sizes.tokens or ())
        values = values and f"; {values} values"
        lines.append(
            f"a page     {stored}; {rows} rows{values} (least / median / most)"
        )
    return lines


def _storage_lines(found: Inspection) -> list[str]:
    storage = found.storage
    if storage is None:
        return [
            "columns    known of Parquet alone, with pip install 'pagefeed[pyarrow]'"
        ]
    with_checksum = "unknown"
    if found.checksum_share is not None:
        with_checksum = f"{found.checksum_share:.0%}"
    writers = ", ".join(f"{name} ({n:,})" for name, n in storage.writers.items())
    indexed = f"offset index in {storage.offset_index_share:.0%} of the chunks"
    lines = [
        f"indexes    {indexed}; checksums on {with_checksum} of the pages",
        f"written by {writers}",
    ]
    for key, value in storage.tokenizer.items():
        lines.append(f"tokenizer  {_told(key, value)}")
    width = max(len(column.name) for column in storage.columns) + 2
    lines += ["", f"{'column':{width}}{'stored':>12}{'decoded':>12}  type, codec"]
    lines += [
        f"{column.name:{width}}{format_bytes(column.stored_bytes):>12}"
        f"{format_bytes(column.decoded_bytes):>12}  {column.type}, "
        f"{' '.join(column.codecs)}, {' '.join(column.encodings)}"
        for column in storage.columns
    ]
    return lines


def _length_lines(found: Inspection) -> list[str]:
    lengths = found.lengths
    if lengths is None:
        return []
    of = f"{lengths.rows_read:,} rows" + " (a sample)" * lengths.is_sample
    quantiles = ", ".join(
        f"{float(share):.0%}: {value:,}" for share, value in lengths.quantiles.items()
    )
    lines = ["", f"{lengths.unit} of a document, mean {lengths.mean:,.0f}, by {of}"]
    lines.append(f"  at most, by share of documents: {quantiles}")
    most = max(rows for _, _, rows, _ in lengths.histogram)
    total = max(1, sum(each for _, _, _, each in lengths.histogram))
    for least, greatest, rows, each in lengths.histogram:
        bar = "#" * -(-BAR * rows // most)
        span = f"{least:,}-{greatest:,}"
        lines.append(f"  {span:>21} {rows:>10,}{each / total:>7.1%}  {bar}")
    return lines


def _cost_lines(found: Inspection) -> list[str]:
    if not found.costs:
        return []
    lines = [
        "",
        (
            f"{'an epoch with shuffle':22}{'reads':>12}{'bytes':>12}{'CPU':>10}"
            f"{'memory':>12}{'same file':>11}"
        ),
    ]
    lines += [
        f"{cost.shuffle:22}{cost.reads:12,}{format_bytes(cost.read_bytes):>12}"
        f"{cost.cpu_seconds:8.1f} s{format_bytes(cost.needed_bytes):>12}"
        f"{cost.same_file_pairs:10.2f}x"
        for cost in found.costs
    ]
    lines.append("(same file: pairs of a batch from one file, against a random order)")
    if found.rewritings:
        lines += ["", f"{'written anew as':40}{'bytes a token':>14}{'saves':>8}"]
        lines += [
            f"{one.setting:40}{one.bytes_per_token:14.2f}{one.gain:8.0%}"
            for one in found.rewritings
        ]
    return [*lines, ""]


def _told(key: str, value: str) -> str:
    """What files say of a tokenizer, in a line."""
    try:
        record = json.loads(value)
        return (
            f"{record['name']}, {record['vocab_size']:,} ids, eos {record['eos']}, "
            f"fingerprint {record['fingerprint']}"
        )
    except (ValueError, KeyError, TypeError):  # What another program wrote.
        return f"{key}: {value[:60]}"
