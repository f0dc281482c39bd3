"""Count the tokens of texts ahead of training, so that loaders begin at once.

With a cache folder, all processes share the counts. Several machines that share the
files and the folder divide the work.

For example:
  pagefeed count web/ --column text --tokenizer tokenizer.json --cache-dir /shared/cache
  pagefeed count web/ --column text --tokenizer cl100k_base.tiktoken --json
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from pagefeed.cli.common import (
    PATHS,
    SOME_PATHS,
    TOKENIZER,
    TOKENIZER_FILE,
    make_tokenizer,
    open_parquet,
    tell_facts,
)

NEEDED = {"--tokenizer": TOKENIZER_FILE | {"required": True}}
ARGUMENTS = PATHS | SOME_PATHS | NEEDED | TOKENIZER


def run(options: argparse.Namespace) -> int:
    """Count and report."""
    tokenizer = make_tokenizer(options)
    texts = open_parquet(options, options.paths)
    started = time.perf_counter()
    index = texts.tokenize(tokenizer).index
    report: dict[str, Any] = {
        "column": index.column,
        "tokenizer": tokenizer.name,
        "engine": tokenizer.engine,
        "why": tokenizer.engine_reason,
        "files": len(index.files),
        "rows": index.num_rows,
        "tokens": index.num_values,
        "mean_row_tokens": round(index.num_values / max(index.num_rows, 1), 1),
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "cache_dir": index.cache_dir,
        "seconds": round(time.perf_counter() - started, 3),
    }
    return tell_facts(options, report)
