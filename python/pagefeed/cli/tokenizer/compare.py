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
    tell,
)
from pagefeed.cli.tokenizer.texts import DATASET, as_rows, make_texts
from pagefeed.prepare import compare_tokenizers
from pagefeed.reports import Part, Table
from pagefeed.tokenizer import Tokenizer

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
    sources = [(each["name"], own) for each in report for own in each["sources"]]
    names = [
        n for n in sources[0][1] if n.startswith("tokens") or not n.startswith("num")
    ]
    names.remove("source")
    rows = sorted(
        [own["source"], tokenizer, *(_text(own[name]) for name in names)]
        for tokenizer, own in sources
    )
    header = [name.removeprefix("tokens_").replace("_", " ") for name in names]
    parts: list[Part] = [
        f"{each.name}: {each.kind}, {each.vocab_size:,} ids, parameters of an "
        f"embedding: {each.embedding_parameters or '-'}"
        for each in done
    ]
    parts.append(Table("", ["source", "tokenizer", *header], rows, 2))
    return tell(options, {"tokenizers": report}, parts)


def _text(number: float | None) -> str:
    return "-" if number is None else f"{number:.4g}"
