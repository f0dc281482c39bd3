"""Datasets of token files of any format, on the command line."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pagefeed.cli.common.pairs import configure_storage, storage_options
from pagefeed.dataset import FlatDataset, ParquetDataset, parquet
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.prepare import TOKEN_FORMATS
from pagefeed.storage import Paths, Storage

__all__ = ["configure_paths", "open_parquet", "open_paths", "same_named"]

_SAME = ("column", "cache_dir", "aligned", "metadata", "spans")
_FLAGS = {name: name for name in _SAME}
_FLAGS |= {"dtype": "in_dtype", "eos": "in_eos", "storage_options": "storage_option"}
"""Arguments of what opens files, and the flags that are them."""


def configure_paths(
    parser: argparse.ArgumentParser, *, paths: str = "*", needs_column: bool = True
) -> None:
    """Declare the arguments that name a dataset; ``paths`` says how many."""
    parser.add_argument(
        "paths", nargs=paths, metavar="PATH", help="files, folders, URLs"
    )
    parser.add_argument(
        "--from", dest="source", choices=TOKEN_FORMATS, help="format (by their names)"
    )
    parser.add_argument("--column", required=needs_column, help="the token column")
    parser.add_argument(
        "--where", metavar="PREDICATE", help='only rows such as "quality > 0.8"'
    )
    parser.add_argument("--in-dtype", help="type of the tokens of raw files")
    parser.add_argument("--in-eos", type=int, help="last token of documents there")
    parser.add_argument("--cache-dir", help="folder to keep the index in")
    configure_storage(parser)


def open_paths(options: argparse.Namespace) -> ParquetDataset | FlatDataset:
    """Return the dataset of the paths.

    Raises:
        InvalidArgumentError: If what is said of them means nothing in their format.
    """
    source = options.source or _format_of(options.paths) or "parquet"
    make = TOKEN_FORMATS[source].reader
    given = {name: getattr(options, flag, None) for name, flag in _FLAGS.items()}
    given["storage_options"] = storage_options(options)
    given = {name: value for name, value in given.items() if value not in (None, [])}
    for name in sorted(given.keys() - _parameters(source)):
        able = [other for other in TOKEN_FORMATS if name in _parameters(other)]
        raise InvalidArgumentError(
            f"--{_FLAGS[name].replace('_', '-')} is for {', '.join(able)}, and "
            f"{options.paths[0]} is {source}: leave it out"
        )
    if source == "parquet":
        given.setdefault("column", "input_ids")
    found: ParquetDataset | FlatDataset = make(options.paths, **given)
    return found


def open_parquet(options: argparse.Namespace, paths: Paths) -> ParquetDataset:
    """Return the dataset of the column that is asked for, all rows of it."""
    return parquet(
        paths,
        column=options.column,
        cache_dir=options.cache_dir,
        storage_options=storage_options(options),
    )


def same_named(
    options: argparse.Namespace, function: Callable[..., object]
) -> dict[str, Any]:
    """Return what options say under the names that a function has for it."""
    given = vars(options)
    names = inspect.signature(function).parameters
    return {name: given[name] for name in names if name in given}


def _parameters(name: str) -> set[str]:
    return {*inspect.signature(TOKEN_FORMATS[name].reader).parameters}


def _format_of(paths: Sequence[str]) -> str | None:
    """Return the format of files by their names; None if these do not tell."""
    if any("://" in path for path in paths):
        return None  # Read where they lie, flat files are local.
    for name, each in TOKEN_FORMATS.items():
        if all(_holds(path, each.writer.signs) for path in paths):
            return name
    return None


def _holds(path: str, names: tuple[str, ...]) -> bool:
    """Whether a path is a file of such a name, the begin of one, or has some below."""
    storage = Storage()
    for meant in (path, *(path + name for name in names)):
        try:
            return all(
                file.endswith(names) for file in storage.list_files(meant, names)
            )
        except MissingFileError:
            continue
    return False
