"""The dataset, the mixture and the loader that arguments describe."""

from __future__ import annotations

import argparse
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pagefeed.cli.common.arguments import (
    BESIDE,
    pairs_of,
    parse_number,
    storage_options,
    whole_number,
)
from pagefeed.core.dataset import Dataset
from pagefeed.core.loader import Loader
from pagefeed.core.order import Shuffle
from pagefeed.core.sequences import Cut, Packed, Windows
from pagefeed.core.storage import Paths, Storage, is_url, plain_paths
from pagefeed.documents import Documents
from pagefeed.errors import FileAccessError, InvalidArgumentError, MissingFileError
from pagefeed.flat import FlatDataset
from pagefeed.mixture import Mixture, Stage, mix
from pagefeed.parquet_files import ParquetDataset, parquet
from pagefeed.parsing import json_value
from pagefeed.prepare import TOKEN_FORMATS
from pagefeed.reports import Damage, TextTokenizer, load_tokenizer, sound_part
from pagefeed.tokenizer import Tokenizer

AnyDataset = ParquetDataset | FlatDataset | Mixture

_FLAGS = {
    name: name for name in ("column", "cache_dir", "aligned", "metadata", "spans")
}
_FLAGS |= {"dtype": "in_dtype", "eos": "in_eos", "storage_options": "storage_option"}
"""The arguments of the functions that open files, and their flags."""


def open_paths(options: argparse.Namespace) -> ParquetDataset | FlatDataset:
    """Return the dataset of the paths.

    Raises:
        InvalidArgumentError: If an argument has no meaning for their format.
    """
    source = options.source or _format_of(options.paths) or "parquet"
    make = TOKEN_FORMATS[source].reader
    given = {name: getattr(options, flag, None) for name, flag in _FLAGS.items()}
    given["storage_options"] = storage_options(options, *options.paths)
    given = {name: value for name, value in given.items() if value not in (None, [])}
    for name in sorted(given.keys() - _parameters(source)):
        able = [other for other in TOKEN_FORMATS if name in _parameters(other)]
        raise InvalidArgumentError(
            f"--{_FLAGS[name].replace('_', '-')} is for {', '.join(able)}, and "
            f"{options.paths[0].partition('?')[0]} is {source}: leave it out"
        )
    if source == "parquet":
        given.setdefault("column", "input_ids")
    return make(options.paths, **given)


def open_parquet(options: argparse.Namespace, paths: Paths) -> ParquetDataset:
    """Return all rows of the dataset of ``--column``."""
    return parquet(
        paths,
        column=options.column,
        cache_dir=options.cache_dir,
        storage_options=storage_options(options, *plain_paths(paths)),
    )


def same_named(
    options: argparse.Namespace, function: Callable[..., object]
) -> dict[str, Any]:
    """Return the options whose names are parameters of a function.

    Settings of remote storage are among them only if one of its paths is a URL.
    """
    names = inspect.signature(function).parameters
    arguments = {name: given for name, given in vars(options).items() if name in names}
    if "storage_options" in names:
        paths = [arguments.get(name) or [] for name in ("paths", "inputs", "output")]
        listed = [[path] if isinstance(path, str) else path for path in paths]
        arguments["storage_options"] = storage_options(options, *chain(*listed))
    return arguments


def _parameters(name: str) -> set[str]:
    return {*inspect.signature(TOKEN_FORMATS[name].reader).parameters}


def _format_of(paths: Sequence[str]) -> str | None:
    """Return the format of files by their names; None if names do not show it."""
    for name, token_format in TOKEN_FORMATS.items():
        if all(_holds(path, token_format.writer.signs) for path in paths):
            return name
    return None


def _holds(path: str, names: tuple[str, ...]) -> bool:
    """Return whether a path is a file with such a name, a prefix of one, or its folder.

    For a URL only the name is checked. Readers of local formats refuse URLs themselves.
    """
    if is_url(path):
        return path.partition("?")[0].endswith(names)
    storage = Storage()
    for meant in (path, *(path + name for name in names)):
        try:
            return all(
                file.endswith(names) for file in storage.list_files(meant, names)
            )
        except MissingFileError:
            continue
    return False


def _make_mixture(options: argparse.Namespace) -> Mixture:
    """Make the mixture.

    Raises:
        InvalidArgumentError: If an argument cannot be read.
    """
    datasets: dict[str, Any] = {}
    for name, source in pairs_of(options.mix, "--mix NAME=PATH[:WEIGHT]"):
        path, colon, weight = source.rpartition(":")
        try:
            share = parse_number(weight if colon else "")
        except InvalidArgumentError:  # A path without a weight.
            if colon and Path(path).exists() > Path(source).exists():
                raise
            datasets[name] = open_parquet(options, source)
        else:
            datasets[name] = open_parquet(options, path), share
    caps = pairs_of(options.max_epochs, "--max-epochs NAME=N")
    given = same_named(options, mix) | {
        "stages": [_stage(words) for words in options.stage],
        "max_epochs": {name: whole_number(count) for name, count in caps},
    }
    return mix(datasets, **given)


def _stage(words: list[str]) -> Stage:
    given = dict(pairs_of(words, "--stage step=N NAME=WEIGHT ..."))
    starts = {
        name: whole_number(given.pop(key))
        for key, name in (("step", "start_step"), ("tokens", "start_tokens"))
        if key in given
    }
    anneal = whole_number(given.pop("anneal", "0"))
    weights = {name: parse_number(weight) for name, weight in given.items()}
    return Stage(weights=weights, anneal=anneal, **starts)


def make_tokenizer(options: argparse.Namespace) -> Tokenizer:
    """Make the tokenizer that was asked for."""
    return Tokenizer(
        options.tokenize,
        pattern=options.pattern,
        special_tokens=getattr(options, "special_tokens", None),
        storage_options=storage_options(options, options.tokenize),
    )


def make_sequences(options: argparse.Namespace) -> Cut:
    """Return how to cut the dataset.

    Raises:
        InvalidArgumentError: If there is no length.
    """
    if options.documents:
        return Documents(max_length=options.length)
    if options.length is None:
        raise InvalidArgumentError(
            "--length is missing: give the number of tokens in a sequence (only "
            "--documents does without it)"
        )
    cut = Packed if options.packed else Windows
    return cut(**same_named(options, cut))


def make_loader(
    options: argparse.Namespace, dataset: AnyDataset | None = None, **settings: Any
) -> Loader:
    """Make the loader of the run, of rank 0 where the verb has no ``--rank``.

    Args:
        options: The arguments.
        dataset: A dataset to use instead of the one that the arguments name.
        **settings: Settings of the loader that replace those of the arguments.
    """
    data = make_dataset(options) if dataset is None else dataset
    block = None if options.shuffle == "none" else options.shuffle
    window = int(options.window) if options.window.isdecimal() else options.window
    sizes = options.batch_size, options.batch_tokens, options.global_batch_size
    given = {"rank": 0} | same_named(options, Loader)
    given |= {
        "global_batch_size": _step_sizes(options.global_batch_size),
        "sequences": make_sequences(options),
        "batch_size": 8 if sizes == (None, None, None) else options.batch_size,
        "shuffle": Shuffle(block=block, window=window, passes=options.passes),
    }
    loader = Loader(data, **given | settings)
    loader.set_epoch(options.epoch)
    return loader


def _step_sizes(sizes: list[Any] | None) -> Any:
    """Return the one size of all steps, or stages."""
    return sizes[0] if sizes and isinstance(sizes[0], int) and not sizes[1:] else sizes


def make_dataset(options: argparse.Namespace) -> AnyDataset:
    """Return the dataset or mixture that the arguments name.

    Raises:
        InvalidArgumentError: If they name none, or both.
        PagefeedError: If a file of it cannot be read.
    """
    _check_paths(options)
    if options.mix:
        return _make_mixture(options)
    return selected(options, open_paths(options))


def make_sound_dataset(options: argparse.Namespace) -> tuple[AnyDataset, list[Damage]]:
    """Return the readable files of a dataset, and the damage in the others.

    Raises:
        PagefeedError: If nothing can be read.
    """
    _check_paths(options)
    if not options.mix:
        sound, damage = sound_part(open_paths(options))
        return selected(options, sound), damage
    mixed, all_damage = _make_mixture(options), list[Damage]()
    datasets: dict[str, Any] = {}
    for name, dataset in mixed.datasets.items():
        datasets[name], damage = sound_part(dataset)
        all_damage += damage
    return replace(mixed, datasets=datasets), all_damage


def make_sound_loader(
    options: argparse.Namespace, **settings: Any
) -> tuple[Loader, list[Damage]]:
    """Return a loader of the readable files, and the damage in the others."""
    data, damage = make_sound_dataset(options)
    return make_loader(options, data, **settings), damage


def named_function(name: str, option: str) -> Callable[..., Any]:
    """Return the function MODULE:NAME; the module may be in the current folder.

    Raises:
        InvalidArgumentError: If there is no such function.
    """
    sys.path.insert(0, os.getcwd())
    try:
        function = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{option} {name} is not MODULE:NAME of a function: {error}"
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(function):
        raise InvalidArgumentError(f"{option} {name} is not a function")
    return function


def selected(
    options: argparse.Namespace, dataset: ParquetDataset | FlatDataset
) -> ParquetDataset | FlatDataset:
    """Return the rows of a dataset that ``--where`` keeps, tokenized if asked for.

    Raises:
        InvalidArgumentError: If the dataset has no columns.
    """
    tokenize = getattr(options, "tokenize", None)
    if not isinstance(dataset, ParquetDataset):
        if any((options.where, tokenize, getattr(options, "erase", []))):
            raise InvalidArgumentError(
                "--where, --erase and --tokenize need columns, and "
                f"{dataset.files[0]} has tokens alone: only Parquet has them"
            )
        return dataset
    if tokenize is not None:
        dataset = dataset.tokenize(make_tokenizer(options))
    if options.where is not None:
        dataset = dataset.where(options.where)
    for predicate in getattr(options, "erase", []):
        dataset = dataset.erase(where=predicate)
    return dataset


def _check_paths(options: argparse.Namespace) -> None:
    if bool(options.paths) == bool(options.mix):
        raise InvalidArgumentError("give either paths, or --mix with its paths")
    of_paths = any((options.where, options.tokenize, getattr(options, "erase", [])))
    beside = any(getattr(options, flag[2:], None) for flag in BESIDE)
    if options.mix and (of_paths or beside):
        raise InvalidArgumentError(
            "--where, --erase, --tokenize and further columns are for paths, not for a "
            "--mix"
        )


def make_text_tokenizer(
    options: argparse.Namespace, data: Dataset | Mixture
) -> TextTokenizer | None:
    """Return the tokenizer of ``--tokenizer`` that shows tokens as text, if given."""
    path = options.tokenizer
    return load_tokenizer(path, data, storage_options(options, path)) if path else None


def read_json(file: str, wrong: str) -> dict[str, Any]:
    """Return the JSON object in a local file.

    Args:
        file: Its path.
        wrong: How the message begins if the file holds no JSON object.

    Raises:
        InvalidArgumentError: If the file holds no JSON object.
    """
    try:
        data = Storage().read_all(file)
    except FileAccessError as error:
        raise InvalidArgumentError(f"{wrong}: {error}") from error
    content = json_value(data, None, wrong, InvalidArgumentError)
    if isinstance(content, dict):
        return content
    raise InvalidArgumentError(f"{wrong}: {type(content).__name__}, and no object")


def range_of(words: str, form: str) -> range:
    """Return the range that is written as FIRST:END.

    Raises:
        InvalidArgumentError: If it is not of that form.
    """
    first, colon, end = words.partition(":")
    if not colon or not first.isdecimal() or not end.isdecimal():
        raise InvalidArgumentError(f"{words!r} is not of the form {form}")
    return range(int(first), int(end))
