"""Train a tokenizer on texts that are drawn at random straight from Parquet.

Prints what held-out texts of each source come to, in tokens for a byte and a word.

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

from pagefeed.cli.common import arg, declare, same_named, tell
from pagefeed.cli.tokenizer.texts import (
    as_rows,
    configure_texts,
    make_texts,
    rate_lines,
)
from pagefeed.prepare import train_tokenizer

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    configure_texts(parser)
    table = {
        "--vocab-size": arg(int, "number of ids", required=True),
        "--model": arg("bpe", choices=["bpe", "wordpiece", "unigram"]),
        "--special-tokens": arg(
            str, "which take the first ids", nargs="*", metavar="NAME"
        ),
        "--pattern": arg(
            str, "of BPE and Unigram: gpt2, cl100k_base, o200k_base or an expression"
        ),
        "--byte-fallback": arg(
            bool,
            "of Unigram: other characters are bytes, or unknown (bytes)",
            action=argparse.BooleanOptionalAction,
        ),
        "--character-coverage": arg(
            float, "share of characters with a token, not of BPE (0.9995)"
        ),
        "--min-frequency": arg(2, "of pairs"),
    }
    declare(parser, table)


def run(options: argparse.Namespace) -> int:
    """Train and report."""
    given = same_named(options, train_tokenizer)
    done = train_tokenizer(make_texts(options), **given)
    drawn = sum(source.sampled_bytes for source in done.sources)
    lines = [
        (
            f"{done.path}: {done.model}, {done.vocab_size:,} tokens, learned from "
            f"{drawn:,} bytes of {len(done.sources)} sources; {done.fingerprint}"
        ),
        *rate_lines(done.held_out),
    ]
    report = asdict(done) | {"held_out": as_rows(done.held_out)}
    return tell(options, report, lines)
