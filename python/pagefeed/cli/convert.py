"""Write token files in another format: Parquet, streams, Megatron's, MDS, raw.

The format of the input is recognized by its files, or given by --from.

For example:
  pagefeed convert corpus/ --column input_ids --to stream --output corpus-stream
  pagefeed convert corpus_text_document.idx --to parquet --output corpus-parquet
  pagefeed convert shard-0.tar shard-1.tar --to parquet --output samples
  pagefeed convert images/ --to parquet --output samples
  pagefeed convert a.bin --in-dtype uint16 --in-eos 0 --to megatron --output a
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    FILES,
    NO_COLUMN,
    PATHS,
    SOME_PATHS,
    open_paths,
    parameters,
    same_named,
    selected,
    tell,
)
from pagefeed.prepare import are_samples, convert

WRITTEN = parameters(convert, "output to dtype eos shard_size page_size compression")
ARGUMENTS = PATHS | SOME_PATHS | NO_COLUMN | FILES | WRITTEN


def run(options: argparse.Namespace) -> int:
    """Convert and report."""
    if are_samples(options.paths):
        done = convert(options.paths, **same_named(options, convert))
        line = f"{done.num_documents:,} samples in {len(done.files):,} files"
        return tell(options, asdict(done), [f"{line}: {', '.join(done.files)}"])
    dataset = selected(options, open_paths(options))
    done = convert(dataset, **same_named(options, convert))
    lines = (
        f"{done.num_documents:,} documents of {done.num_tokens:,} tokens "
        f"({done.dtype}) as {done.format}: {', '.join(done.files)}"
    )
    if done.num_left_out:
        lines += (
            f"\n{done.num_left_out:,} documents without tokens left out: MDS has none, "
            "unless --eos ends them"
        )
    return tell(options, asdict(done), [lines])
