r"""Compare tokenizers on the same texts, source by source.

Prints how many tokens each takes for a byte, a character and a word, how many are
unknown, how many words stay whole, how long texts become, and how many texts decoding
gives back.

For example:
  pagefeed tokenizer compare old.json new.json --data web/ --column text
  pagefeed tokenizer compare a.json b.model --data web/ --column text \
      --source-column lang --hidden 4096
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    FILES,
    PATHS,
    TOKENIZER,
    arg,
    parameters,
    same_named,
    storage_options,
    table_lines,
    tell,
)
from pagefeed.cli.tokenizer.texts import DATASET, as_rows, make_texts, shown
from pagefeed.prepare import compare_tokenizers
from pagefeed.tokenizer import Tokenizer

HEADER = [
    *("source", "tokenizer", "per byte", "per char", "per word", "unknown", "whole"),
    *("median", "p99", "restored"),
]
ARGUMENTS = {
    "tokenizers": arg(
        str,
        "tokenizer.json, .model or tiktoken's ranks",
        nargs="+",
        metavar="TOKENIZER",
    ),
    "--data": PATHS["paths"] | {"nargs": "+", "dest": "paths"},
    **DATASET,
    **{flag: given for flag, given in PATHS.items() if flag != "paths"},
    "--where": FILES["--where"],
    **parameters(compare_tokenizers, "source_column hidden sample seed"),
    **TOKENIZER,
}


def run(options: argparse.Namespace) -> int:
    """Compare and report."""
    named = {
        path: Tokenizer(
            path,
            pattern=options.pattern if path.endswith(".tiktoken") else None,
            special_tokens=options.special_tokens,
            storage_options=storage_options(options, path),
        )
        for path in options.tokenizers
    }
    given = same_named(options, compare_tokenizers) | {"tokenizers": named}
    done = compare_tokenizers(datasets=make_texts(options), **given)
    report = [asdict(each) | {"sources": as_rows(each.sources)} for each in done]
    rows = [
        [
            *(source.source, each.name, shown(source.tokens_per_byte)),
            *(shown(source.tokens_per_character), shown(source.tokens_per_word)),
            *(shown(source.unknown_rate), shown(source.whole_word_rate)),
            *(f"{source.median_tokens:,.0f}", f"{source.p99_tokens:,.0f}"),
            "-"
            if source.num_restored is None
            else f"{source.num_restored:,} of {source.num_rows:,}",
        ]
        for number in range(len(done[0].sources))
        for each in done
        for source in each.sources[number : number + 1]
    ]
    lines = [
        f"{each.name}: {each.kind}, {each.vocab_size:,} ids"
        + (
            ""
            if each.embedding_parameters is None
            else f", {each.embedding_parameters:,} parameters of an embedding"
        )
        for each in done
    ]
    lines += table_lines(HEADER, rows, left=2)
    return tell(options, {"tokenizers": report}, lines)
