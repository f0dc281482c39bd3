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
import json
from dataclasses import asdict

from pagefeed.cli.tokenizer.texts import (
    as_rows,
    configure_texts,
    make_texts,
    tell_rates,
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
    done = train_tokenizer(
        make_texts(options),
        options.output,
        vocab_size=options.vocab_size,
        model=options.model,
        source_column=options.source_column,
        temperature=options.temperature,
        sample=options.sample,
        held_out=options.held_out,
        special_tokens=options.special_tokens,
        pattern=options.pattern,
        byte_fallback=options.byte_fallback,
        character_coverage=options.character_coverage,
        min_frequency=options.min_frequency,
        shuffle=options.shuffle,
        seed=options.seed,
    )
    if options.json:
        print(json.dumps(asdict(done) | {"held_out": as_rows(done.held_out)}, indent=2))
        return 0
    drawn = sum(source.sampled_bytes for source in done.sources)
    print(
        f"{done.path}: {done.model}, {done.vocab_size:,} tokens, learned from "
        f"{drawn:,} bytes of {len(done.sources)} sources; {done.fingerprint}"
    )
    tell_rates(done.held_out)
    return 0
