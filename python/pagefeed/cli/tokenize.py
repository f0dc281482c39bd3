"""Tokenize texts of any input into Parquet files, once and for all.

Lines of JSON, CSV, Parquet, Arrow and Feather, folders of save_to_disk, MDS shards, tar
files of WebDataset and plain text are read, .gz and .zst of most of these. Killed and
started again, it goes on where it was.

For example:
  pagefeed tokenize web/ --tokenizer tokenizer.json --output web-tokens --keep url
  pagefeed tokenize chats.jsonl.zst --messages messages --tokenizer tokenizer.json
      --output chat-tokens --on-error quarantine
  pagefeed tokenize books/ --format text --tokenizer cl100k_base.tiktoken
      --output book-tokens --shard-size 1GiB
  pagefeed tokenize s3://bucket/web/ --tokenizer tokenizer.json --output web-tokens
      --engine ray
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from pagefeed.cli.common import (
    configure_storage,
    configure_tokenizer,
    make_tokenizer,
    same_named,
    storage_options,
    tell,
)
from pagefeed.prepare import FORMATS, tokenize
from pagefeed.storage import Storage


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("inputs", nargs="+", metavar="INPUT", help="files, folders, patterns, URLs")
    configure_tokenizer(parser, "--tokenizer", required=True)
    add("--output", required=True, metavar="DIR", help="folder of the Parquet files")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--column", default="text", help="of the texts (text)")
    source.add_argument("--messages", metavar="COLUMN", help="of chats instead")
    source.add_argument(
        "--text",
        metavar="TEMPLATE",
        help="of columns instead, such as '{title}: {body}'",
    )
    add("--tools", metavar="COLUMN", help="of the tools of chats")
    add(
        "--roles",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help="what roles of the data are called in the template",
    )
    add(
        "--no-require-labels", action="store_true", help="take chats that teach nothing"
    )
    add("--chat-template", metavar="FILE", help="in place of the tokenizer's")
    add(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN[=TYPE]",
        help="further columns to write",
    )
    add("--format", choices=FORMATS, help="of the inputs (by their names)")
    add(
        "--on-error",
        default="fail",
        choices=["fail", "skip", "quarantine"],
        help="what is done with records that cannot be read (fail)",
    )
    add(
        "--max-rejected",
        default="1%",
        type=_rejected,
        metavar="NUMBER|SHARE",
        help="records that may be rejected: 100, or 1%% of all (1%%)",
    )
    add("--max-record", default="64MiB", help="bytes of the largest record (64MiB)")
    add("--column-name", default="input_ids", help="of the tokens (input_ids)")
    add("--shard-size", default="256MiB", help="bytes of a file, about (256MiB)")
    add("--page-size", default="64KiB", help="bytes of tokens in a page (64KiB)")
    add(
        "--compression",
        default="zstd",
        choices=["zstd", "lz4", "snappy", "none"],
        help="of pages: the smallest files, none the fastest (zstd)",
    )
    add("--num-threads", type=int, help="(one per CPU)")
    add("--retries", type=int, default=3, help="of a shard, if files fail (3)")
    add("--engine", default="local", choices=["local", "ray"])
    configure_storage(parser)
    add("--json", action="store_true", help="print JSON")


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
        "storage_options": storage_options(options),
    }
    done = tokenize(**given)
    seconds = time.perf_counter() - started
    told = {"tokenizer": tokenizer.name, "engine": tokenizer.engine}
    written = f"{len(done.files)} files of {done.folder}, {seconds:.1f} s"
    made = f"{done.num_documents:,} documents, {done.num_tokens:,} tokens"
    lines = [f"{made} in {written} with {tokenizer.engine}"]
    if done.num_learned is not None:
        lines += [f"{done.num_learned:,} chats with something to learn"]
    if done.num_rejected:
        lines += [f"{done.num_rejected:,} records rejected: {done.folder}/_rejected"]
    lines += [f"  {count:,} {reason}" for reason, count in done.reasons.items()]
    return tell(options, asdict(done) | told | {"seconds": round(seconds, 3)}, lines)


def _rejected(text: str) -> float:
    """Return a number of records as one, and a share of them as a fraction."""
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return float(text) if "." in text else int(text)


def _text(path: str | None) -> str | None:
    if path is None:
        return None
    return Storage().read_all(path).decode()
