"""Arguments that describe a run, shared by the verbs that need one."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pagefeed.cli.common.formats import configure_paths, open_paths
from pagefeed.cli.common.mixing import configure_mixture, make_mixture
from pagefeed.dataset import Dataset, FlatDataset, ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.loader import Loader
from pagefeed.mixture import Mixture
from pagefeed.order import Shuffle
from pagefeed.reports import Damage, sound_part
from pagefeed.sequences import Documents, Packed, SequenceSetting, Windows
from pagefeed.tokenizer import Tokenizer

AnyDataset = ParquetDataset | FlatDataset | Mixture
BESIDE = ("aligned", "metadata", "spans")
"""Columns that come with the tokens, for verbs that take some."""

__all__ = [
    "AnyDataset",
    "configure_run",
    "configure_tokenizer",
    "make_dataset",
    "make_loader",
    "make_sequences",
    "make_sound_dataset",
    "make_tokenizer",
    "named_function",
    "selected",
]


def configure_run(
    parser: argparse.ArgumentParser, *, needs_column: bool = True
) -> None:
    """Declare the arguments of a run."""
    configure_paths(parser, needs_column=needs_column)
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
    parser.add_argument(
        "--balance", choices=["attention", "tokens"], help="ranks by what steps cost"
    )
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
    parser.add_argument("--json", action="store_true", help="print JSON")
    configure_tokenizer(parser, "--tokenize")
    configure_mixture(parser)


def configure_tokenizer(
    parser: argparse.ArgumentParser, option: str, *, required: bool = False
) -> None:
    """Declare the arguments of a tokenizer, which make tokens of a column of texts."""
    parser.add_argument(
        option,
        dest="tokenize",
        required=required,
        metavar="FILE",
        help="for a column of texts: tokenizer.json, .model or tiktoken's ranks",
    )
    parser.add_argument(
        "--pattern", help="of ranks: gpt2, cl100k_base, o200k_base or an expression"
    )
    parser.add_argument(
        "--special-tokens",
        choices=["as_token", "as_text"],
        help="what special tokens in a text are (as the library does it)",
    )


def make_tokenizer(options: argparse.Namespace) -> Tokenizer:
    """Make the tokenizer that was asked for."""
    return Tokenizer(
        options.tokenize,
        pattern=options.pattern,
        special_tokens=options.special_tokens,
    )


def make_sequences(options: argparse.Namespace) -> SequenceSetting:
    """Return how to cut the dataset.

    Raises:
        InvalidArgumentError: If there is no length.
    """
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


def make_loader(
    options: argparse.Namespace,
    dataset: AnyDataset | None = None,
    **settings: Any,  # noqa: ANN401 - those of the loader
) -> Loader:
    """Make the loader of rank 0 of the run.

    Args:
        options: The arguments.
        dataset: Feeds this in place of what they name.
        **settings: Others of the loader, in place of what they say.
    """
    block = None if options.shuffle == "none" else options.shuffle
    window = int(options.window) if options.window.isdecimal() else options.window
    given: dict[str, Any] = {
        "sequences": make_sequences(options),
        "batch_size": options.batch_size,
        "seed": options.seed,
        "shuffle": Shuffle(block=block, window=window, passes=options.passes),
        "balance": options.balance,
        "memory": options.memory,
        "rank": 0,
        "world_size": options.world_size,
    }
    data = make_dataset(options) if dataset is None else dataset
    loader = Loader(data, **given | settings)
    loader.set_epoch(options.epoch)
    return loader


def make_dataset(options: argparse.Namespace) -> AnyDataset:
    """Return the dataset or mixture that the arguments name.

    Raises:
        InvalidArgumentError: If they name none, or both.
        PagefeedError: If a file of it cannot be read.
    """
    _check_paths(options)
    if options.mix:
        return make_mixture(options)
    return selected(options, open_paths(options))


def make_sound_dataset(
    options: argparse.Namespace,
) -> tuple[AnyDataset, list[Damage]]:
    """Return what of it can be read, and what is wrong with the rest.

    Raises:
        PagefeedError: If nothing of it can be read.
    """
    _check_paths(options)
    if not options.mix:
        sound, damage = sound_part(open_paths(options))
        return selected(options, sound), damage
    mixed, found, parts = make_mixture(options), list[Damage](), dict[str, Dataset]()
    for name, dataset in mixed.datasets.items():
        parts[name], damage = sound_part(dataset)
        found += damage
    return replace(mixed, datasets=parts), found


def named_function(name: str, option: str) -> Callable[..., Any]:
    """Return a function that is named as MODULE:NAME, of the folder one is in too.

    Raises:
        InvalidArgumentError: If there is no such function.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{option} {name} is not MODULE:NAME of a function: {error}"
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(found):
        raise InvalidArgumentError(f"{option} {name} is no function")
    return found  # type: ignore[no-any-return]


def selected(
    options: argparse.Namespace, dataset: ParquetDataset | FlatDataset
) -> ParquetDataset | FlatDataset:
    """Return the rows of it that are asked for, tokenized if that is.

    Raises:
        InvalidArgumentError: If it has no columns for that.
    """
    tokenize = getattr(options, "tokenize", None)
    if not isinstance(dataset, ParquetDataset):
        if options.where is not None or tokenize is not None:
            raise InvalidArgumentError(
                f"--where and --tokenize need columns, and {dataset.files[0]} has "
                "tokens alone: only Parquet has them"
            )
        return dataset
    if tokenize is not None:
        dataset = dataset.tokenize(make_tokenizer(options))
    return dataset if options.where is None else dataset.where(options.where)


def _check_paths(options: argparse.Namespace) -> None:
    if bool(options.paths) == bool(options.mix):
        raise InvalidArgumentError(
            "give paths, or --mix with paths of its own: exactly one of them"
        )
    of_paths = options.where is not None or options.tokenize is not None
    beside = any(getattr(options, name, None) for name in BESIDE)
    if options.mix and (of_paths or beside):
        raise InvalidArgumentError(
            "--where, --tokenize and further columns are for paths, not for a --mix"
        )
