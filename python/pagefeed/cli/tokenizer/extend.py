r"""Extend a tokenizer with frequent words of a domain.

Prints how many tokens held-out texts take, before and after. In Python,
`pagefeed.prepare.extend_embeddings` gives a model rows for the new tokens.

For example:
  pagefeed tokenizer extend tokenizer.json law/ --column text --new-tokens 2000 \
      --output law.json
  pagefeed tokenizer extend tokenizer.json law/ --column text --output law.json \
      --beside web=web/
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    TOKENIZER,
    arg,
    make_tokenizer,
    open_parquet,
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
from pagefeed.prepare import extend_tokenizer
from pagefeed.reports import Part

ARGUMENTS = {
    "tokenize": arg(str, "tokenizer.json, or tiktoken's ranks", metavar="TOKENIZER"),
    **TEXTS,
    **parameters(extend_tokenizer, "new_tokens min_gain"),
    "--beside": arg([], "other texts to report on", metavar="NAME=PATH"),
    "--pattern": TOKENIZER["--pattern"],
}


def run(options: argparse.Namespace) -> int:
    """Extend and report."""
    tokenizer = make_tokenizer(options)
    beside = pairs_of(options.beside, "--beside NAME=PATH")
    others = {name: open_parquet(options, path) for name, path in beside}
    given = same_named(options, extend_tokenizer) | {"beside": others or None}
    done = extend_tokenizer(tokenizer, make_texts(options), **given)
    report = asdict(done) | {
        "before": as_rows(done.before),
        "held_out": as_rows(done.held_out),
    }
    some = ", ".join(repr(token.text) for token in done.new_tokens[:8])
    parts: list[Part] = [
        (
            f"{done.path}: {len(done.new_tokens):,} new tokens, {done.vocab_size:,} in "
            f"all: {some}, ...; {done.fingerprint}"
        ),
        table_of_rates(done.held_out, done.before),
    ]
    return tell(options, report, parts)
