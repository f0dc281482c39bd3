r"""Tokenize texts of any input into Parquet files, once and for all.

Reads lines of JSON, CSV, Parquet, Arrow and Feather, folders of save_to_disk,
and .gz and .zst files of most of these.
Start a killed job again to continue it.

For example:
  pagefeed tokenize web/ --tokenizer tokenizer.json --output web-tokens --keep url
  pagefeed tokenize chats.jsonl.zst --messages messages --tokenizer tokenizer.json \
      --output chat-tokens --on-error skip
  pagefeed tokenize books.jsonl --tokenizer cl100k_base.tiktoken \
      --output book-tokens --shard-size 1GiB
  pagefeed tokenize s3://bucket/web/ --tokenizer tokenizer.json --output web-tokens \
      --engine ray
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from pagefeed.cli.common import (
    PATHS,
    STORAGE,
    TOKENIZER,
    TOKENIZER_FILE,
    arg,
    group,
    make_tokenizer,
    parameters,
    same_named,
    tell,
)
from pagefeed.core.storage import Storage
from pagefeed.prepare import tokenize

ROLES = "ROLE=NAME"


def _rejected(text: str) -> float:
    """Return a number of records as an int, and a share of them as a fraction."""
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return float(text) if "." in text else int(text)


SOURCE = {
    "--column": arg("text", "of the texts"),
    "--messages": arg(str, "of chats instead", metavar="COLUMN"),
    "--text": arg(str, "of columns instead: '{title}: {body}'", metavar="TEMPLATE"),
}
ARGUMENTS = {
    "inputs": PATHS["paths"] | {"nargs": "+", "metavar": "INPUT"},
    "--tokenizer": TOKENIZER_FILE | {"required": True},
    **TOKENIZER,
    **parameters(
        tokenize,
        "output tools train_on format on_error column_name shard_size page_size "
        "compression num_threads retries engine min_tokens max_tokens",
    ),
    "--roles": arg([], "names of the data's roles in the template", metavar=ROLES),
    "--mask": arg([], "parts of answers that are not learned", metavar="PART"),
    "--no-require-labels": arg(bool, "take chats that teach nothing"),
    "--chat-template": arg(str, "in place of the tokenizer's", metavar="FILE"),
    "--keep": arg([], "further columns to write", metavar="COLUMN[=TYPE]"),
    "--max-rejected": arg(
        "1%",
        "records that may be rejected, such as 100, or a share",
        type=_rejected,
        metavar="NUMBER|SHARE",
    ),
    "--max-record": arg("64MiB", "bytes of the largest record"),
    **STORAGE,
    **group(SOURCE),
}


def run(options: argparse.Namespace) -> int:
    """Tokenize and report."""
    tokenizer = make_tokenizer(options)
    kinds = (word.partition("=") for word in options.keep)
    started = time.perf_counter()
    given = same_named(options, tokenize) | {
        "tokenizer": tokenizer,
        "roles": dict(word.partition("=")[::2] for word in options.roles) or None,
        "require_labels": not options.no_require_labels,
        "keep": {name: kind or None for name, _, kind in kinds},
        "chat_template": _text(options.chat_template),
    }
    done = tokenize(**given)
    seconds = time.perf_counter() - started
    used = {"tokenizer": tokenizer.name, "engine": tokenizer.engine}
    written = f"{len(done.files)} files of {done.folder}, {seconds:.1f} s"
    amounts = f"{done.num_documents:,} documents, {done.num_tokens:,} tokens"
    lines = [f"{amounts} in {written} with {tokenizer.engine}"]
    if done.num_learned is not None:
        lines += [f"{done.num_learned:,} chats with something to learn"]
    if done.num_rejected:
        lines += [f"{done.num_rejected:,} records rejected: {done.folder}/_rejected"]
    lines += [f"  {count:,} {reason}" for reason, count in done.reasons.items()]
    lines += [f"{n:,} left out: {reason}" for reason, n in done.left_out.items()]
    return tell(options, asdict(done) | used | {"seconds": round(seconds, 3)}, lines)


def _text(path: str | None) -> str | None:
    if path is None:
        return None
    return Storage().read_all(path).decode()
