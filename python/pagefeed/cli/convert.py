"""Write token files in another format: Parquet, streams, Megatron's, MDS, raw.

The format of what is read is seen from its files, or said by --from.

For example:
  pagefeed convert corpus/ --column input_ids --to stream --output corpus-stream
  pagefeed convert corpus_text_document.idx --to parquet --output corpus-parquet
  pagefeed convert a.bin --in-dtype uint16 --in-eos 0 --to megatron --output a
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from pagefeed.cli.common import format_of, make_flat
from pagefeed.dataset import Dataset, parquet
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare import convert

_FORMATS = ("parquet", "stream", "megatron", "mds", "raw", "npy")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and folders")
    parser.add_argument("--output", required=True, help="folder, prefix or file")
    parser.add_argument("--to", required=True, choices=_FORMATS)
    parser.add_argument("--from", dest="source", choices=_FORMATS, help="of the paths")
    parser.add_argument("--column", help="the token column (input_ids)")
    parser.add_argument(
        "--where", metavar="PREDICATE", help="only rows of Parquet such"
    )
    parser.add_argument("--in-dtype", help="type of the tokens of raw files")
    parser.add_argument("--in-eos", type=int, help="last token of documents there")
    parser.add_argument("--dtype", help="type of the tokens written")
    parser.add_argument("--eos", type=int, help="token to write behind documents")
    parser.add_argument("--shard-size", default="512MiB")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Convert and report."""
    done = convert(
        _dataset(options),
        options.output,
        to=options.to,
        dtype=options.dtype,
        eos=options.eos,
        shard_size=options.shard_size,
    )
    if options.json:
        print(json.dumps(asdict(done), indent=2))
        return 0
    print(
        f"{done.num_documents:,} documents of {done.num_tokens:,} tokens "
        f"({done.dtype}) as {done.format}: {', '.join(done.files)}"
    )
    if done.num_left_out:
        print(
            f"{done.num_left_out:,} documents without tokens left out: MDS has none, "
            "unless --eos ends them"
        )
    return 0


def _dataset(options: argparse.Namespace) -> Dataset:
    source = options.source or format_of(options.paths)
    if source is None:
        raise InvalidArgumentError(
            f"{options.paths[0]}: of which format it is cannot be seen from its name: "
            "say --from"
        )
    if source == "parquet":
        dataset = parquet(options.paths, column=options.column or "input_ids")
        return dataset if options.where is None else dataset.where(options.where)
    if options.where is not None:
        raise InvalidArgumentError("--where needs columns: only Parquet has them")
    return make_flat(
        source,
        options.paths,
        column=options.column,
        dtype=options.in_dtype,
        eos=options.in_eos,
    )
