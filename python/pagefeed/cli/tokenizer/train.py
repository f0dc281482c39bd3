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

from pagefeed.cli.common import same_named, tell
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
    parser.add_argument("--output", required=True, help="path of the tokenizer.json")
    parser.add_argument("--vocab-size", type=int, required=True, help="number of ids")
    parser.add_argument(
        "--model", default="bpe", choices=["bpe", "wordpiece", "unigram"]
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        help="sources of n bytes give n^(1/T): 1 is proportional, 2 more even (1)",
    )
    parser.add_argument(
        "--special-tokens", nargs="*", metavar="NAME", help="which take the first ids"
    )
    parser.add_argument(
        "--pattern",
        help="of BPE and Unigram: gpt2, cl100k_base, o200k_base or an expression",
    )
    parser.add_argument(
        "--byte-fallback",
        action=argparse.BooleanOptionalAction,
        help="of Unigram: other characters are bytes, or unknown (bytes)",
    )
    parser.add_argument(
        "--character-coverage",
        type=float,
        help="share of characters with a token, of Unigram and WordPiece (0.9995)",
    )
    parser.add_argument("--min-frequency", type=int, default=2, help="of pairs (2)")


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
