r"""Extend a tokenizer with frequent words of a domain.

Prints how many tokens held-out texts take, before and after. With --checkpoint, it adds
rows for the new tokens to a checkpoint. Each row is the mean of the rows of the tokens
that the new one replaces.

For example:
  pagefeed tokenizer extend tokenizer.json law/ --column text --new-tokens 2000 \
      --output law.json
  pagefeed tokenizer extend tokenizer.json law/ --column text --output law.json \
      --beside web=web/ --checkpoint model.safetensors \
      --checkpoint-output law.safetensors
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    TOKENIZER,
    arg,
    group,
    make_tokenizer,
    open_parquet,
    pairs_of,
    parameters,
    same_named,
    storage_options,
    tell,
)
from pagefeed.cli.tokenizer.texts import (
    TEXTS,
    as_rows,
    make_texts,
    rate_lines,
)
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare import ExtendedEmbeddings, extend_embeddings, extend_tokenizer
from pagefeed.tokenizer import Tokenizer

__all__ = ["ARGUMENTS", "run"]


CHECKPOINT = {
    "--checkpoint": arg(
        str, ".safetensors, its .index.json, or torch's", metavar="FILE"
    ),
    "--checkpoint-output": arg(str, "the new one", metavar="FILE"),
    **parameters(extend_embeddings, "tensors multiple_of"),
}
ARGUMENTS = {
    "tokenize": arg(str, "tokenizer.json, or tiktoken's ranks", metavar="TOKENIZER"),
    **TEXTS,
    **parameters(extend_tokenizer, "new_tokens min_gain"),
    "--beside": arg([], "other texts to report on", metavar="NAME=PATH"),
    "--pattern": TOKENIZER["--pattern"],
    **group(CHECKPOINT, "a model's embeddings"),
}


def run(options: argparse.Namespace) -> int:
    """Extend and report."""
    if (options.checkpoint is None) != (options.checkpoint_output is None):
        raise InvalidArgumentError(
            "--checkpoint FILE and --checkpoint-output FILE go together"
        )
    tokenizer = make_tokenizer(options)
    beside = pairs_of(options.beside, "--beside NAME=PATH")
    others = {name: open_parquet(options, path) for name, path in beside}
    given = same_named(options, extend_tokenizer) | {"beside": others or None}
    done = extend_tokenizer(tokenizer, make_texts(options), **given)
    rows = _extended(options, tokenizer)
    report = asdict(done) | {
        "before": as_rows(done.before),
        "held_out": as_rows(done.held_out),
        "embeddings": None if rows is None else asdict(rows),
    }
    some = ", ".join(repr(token.text) for token in done.new_tokens[:8])
    lines = [
        (
            f"{done.path}: {len(done.new_tokens):,} new tokens, {done.vocab_size:,} in "
            f"all: {some}, ...; {done.fingerprint}"
        ),
        *rate_lines(done.held_out, done.before),
    ]
    if rows is not None:
        lines += [
            (
                f"{rows.path}: {rows.num_new:,} rows are means of others, "
                f"{rows.num_rows:,} in all, of {', '.join(rows.tensors)}"
            )
        ]
    return tell(options, report, lines)


def _extended(
    options: argparse.Namespace, tokenizer: Tokenizer
) -> ExtendedEmbeddings | None:
    if options.checkpoint is None:
        return None
    there = storage_options(options, options.output)
    extended = Tokenizer(options.output, storage_options=there)
    return extend_embeddings(
        options.checkpoint,
        options.checkpoint_output,
        old=tokenizer,
        new=tokenizer.replaced(extended.to_json()),
        tensors=options.tensors,
        multiple_of=options.multiple_of,
    )
