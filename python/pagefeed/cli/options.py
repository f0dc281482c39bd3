"""Arguments that describe a run, shared by the verbs that need one."""

from __future__ import annotations

import argparse

from pagefeed.cli.mixing import configure_mixture, make_mixture
from pagefeed.cli.pairs import configure_storage, storage_options
from pagefeed.dataset import ParquetDataset, parquet
from pagefeed.errors import InvalidArgumentError
from pagefeed.loader import Loader
from pagefeed.mixture import Mixture
from pagefeed.order import Shuffle
from pagefeed.sequences import Documents, Packed, SequenceSetting, Windows

__all__ = ["configure_run", "make_loader"]


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a run."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, URLs")
    parser.add_argument("--column", required=True, help="the token column")
    parser.add_argument(
        "--where", metavar="PREDICATE", help='only rows such as "quality > 0.8"'
    )
    parser.add_argument("--length", type=int, help="sequence length")
    parser.add_argument("--batch-size", type=int, default=8, help="per rank (8)")
    parser.add_argument("--world-size", type=int, default=1, help="ranks (1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument(
        "--shuffle",
        default="page",
        choices=["page", "row_group", "row", "buffer", "none"],
    )
    parser.add_argument("--window", default="auto", help='sequences or bytes, "auto"')
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--memory", default="1GiB")
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--packed", action="store_true", help="pack whole documents into sequences"
    )
    cut.add_argument(
        "--documents", action="store_true", help="rows as they are, each a sequence"
    )
    parser.add_argument("--eos", type=int, help="token behind every document")
    parser.add_argument("--bos", type=int, help="token before every document")
    parser.add_argument("--overlap", type=int, default=0, help="of windows (0)")
    parser.add_argument("--tail", default="pad", choices=["pad", "drop"])
    parser.add_argument("--join", default="dataset", choices=["dataset", "file"])
    parser.add_argument("--cache-dir", help="folder to keep the index in")
    configure_storage(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    configure_mixture(parser)


def _sequences(options: argparse.Namespace) -> SequenceSetting:
    if options.documents:
        return Documents(max_length=options.length)
    if options.length is None:
        raise InvalidArgumentError(
            "--length is missing: how many tokens a sequence has (only with "
            "--documents it may stay out)"
        )
    separators = {"eos": options.eos, "bos": options.bos}
    if options.packed:
        return Packed(options.length, join=options.join, **separators)
    return Windows(
        options.length,
        options.tail,
        overlap=options.overlap,
        join=options.join,
        **separators,
    )


def make_loader(options: argparse.Namespace) -> Loader:
    """Make the loader of rank 0 of the run."""
    block = None if options.shuffle == "none" else options.shuffle
    window = int(options.window) if options.window.isdecimal() else options.window
    loader = Loader(
        _dataset(options),
        sequences=_sequences(options),
        batch_size=options.batch_size,
        seed=options.seed,
        shuffle=Shuffle(block=block, window=window, passes=options.passes),
        memory=options.memory,
        rank=0,
        world_size=options.world_size,
    )
    loader.set_epoch(options.epoch)
    return loader


def _dataset(options: argparse.Namespace) -> ParquetDataset | Mixture:
    if bool(options.paths) == bool(options.mix):
        raise InvalidArgumentError(
            "give paths, or --mix with paths of its own: exactly one of them"
        )
    if options.mix:
        if options.where is not None:
            raise InvalidArgumentError("--where is for paths, not for a --mix")
        return make_mixture(options)
    dataset = parquet(
        options.paths,
        column=options.column,
        cache_dir=options.cache_dir,
        storage_options=storage_options(options),
    )
    return dataset if options.where is None else dataset.where(options.where)
