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
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pagefeed.dataset import Dataset, mds, megatron, parquet, stream, tokens
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.prepare import convert
from pagefeed.storage import LocalStorage

_FORMATS = ("parquet", "stream", "megatron", "mds", "raw", "npy")
_SIGNS = (
    ("stream", ("stream.json", "stream.bin")),
    ("mds", ("index.json", ".mds")),
    ("megatron", (".idx",)),
    ("parquet", (".parquet", ".parq")),
    ("raw", (".npy", ".bin")),
)
"""By which names of files a format is known, the first that fits."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and folders")
    parser.add_argument("--output", required=True, help="folder, prefix or file")
    parser.add_argument("--to", required=True, choices=_FORMATS)
    parser.add_argument("--from", dest="source", choices=_FORMATS, help="of the paths")
    parser.add_argument("--column", help="the token column (input_ids; of MDS tokens)")
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
    return 0


def _dataset(options: argparse.Namespace) -> Dataset:
    source = options.source or _found(options.paths)
    if options.where is not None and source != "parquet":
        raise InvalidArgumentError("--where needs columns: only Parquet has them")
    named: dict[str, Any] = {"column": options.column or "input_ids"}
    if source == "parquet":
        dataset = parquet(options.paths, **named)
        return dataset if options.where is None else dataset.where(options.where)
    if source == "mds":
        named = {"column": options.column or "tokens"}
        return mds(options.paths, dtype=options.in_dtype, **named)
    if source in ("raw", "npy"):
        raw: Callable[..., Dataset] = tokens
        return raw(options.paths, dtype=options.in_dtype, eos=options.in_eos, **named)
    if source == "stream":
        return stream(options.paths, **named)
    return megatron(options.paths, **named)


def _found(paths: list[str]) -> str:
    """The format of files, by their names."""
    for kind, names in _SIGNS:
        if all(_holds(path, names) for path in paths):
            return kind
    raise InvalidArgumentError(
        f"{paths[0]}: of which format it is cannot be seen from its name: say --from"
    )


def _holds(path: str, names: tuple[str, ...]) -> bool:
    """Whether a path is a file of such a name, the begin of one, or has some below."""
    storage = LocalStorage()
    for meant in (path, *(path + name for name in names)):
        try:
            return all(
                file.endswith(names) for file in storage.list_files(meant, names)
            )
        except MissingFileError:
            continue
    return False
