r"""Train a tokenizer on texts that are drawn at random straight from Parquet.

Prints how many tokens held-out texts of each source take, for a byte and a word.

For example:
  pagefeed tokenizer train web/ --column text --vocab-size 32000 --output tokenizer.json
  pagefeed tokenizer train web/ --column text --vocab-size 64000 --source-column lang \
      --temperature 2 --sample 2GiB --output tokenizer.json
  pagefeed tokenizer train --dataset web=web/ code=code/ --column text --model unigram \
      --vocab-size 32000 --output unigram.json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    arg,
    pairs_of,
    parameters,
    same_named,
    tell,
)
from pagefeed.cli.tokenizer.texts import (
    TEXTS,
    as_rows,
    make_texts,
    table_of_rates,
)
from pagefeed.prepare import train_tokenizer
from pagefeed.reports import Part

NAMES = "vocab_size model units pattern character_coverage min_frequency memory"
WEIGHTS = "NAME=WEIGHT"
OTHERS = parameters(train_tokenizer, "special_tokens byte_fallback")
OTHERS["--special-tokens"]["nargs"] = "*"
OTHERS["--byte-fallback"]["action"] = argparse.BooleanOptionalAction
OTHERS["--weights"] = arg([], "share of each source", metavar=WEIGHTS)
ARGUMENTS = TEXTS | parameters(train_tokenizer, NAMES) | OTHERS


def run(options: argparse.Namespace) -> int:
    """Train and report."""
    pairs = pairs_of(options.weights, f"--weights {WEIGHTS}")
    weights = {name: _number(weight) for name, weight in pairs}
    given = same_named(options, train_tokenizer) | {"weights": weights or None}
    done = train_tokenizer(make_texts(options), **given)
    drawn = sum(source.sampled_bytes for source in done.sources)
    parts: list[Part] = [
        (
            f"{done.path}: {done.model}, {done.vocab_size:,} tokens, learned from "
            f"{drawn:,} bytes of {len(done.sources)} sources; {done.fingerprint}"
        ),
        table_of_rates(done.held_out),
    ]
    report = asdict(done) | {"held_out": as_rows(done.held_out)}
    return tell(options, report, parts)


def _number(text: str) -> Any:
    """Return a number; other text as it is, which is refused later."""
    try:
        return float(text)
    except ValueError:
        return text
