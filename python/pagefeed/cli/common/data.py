"""The dataset, the mixture and the loader that arguments describe."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from pagefeed.arrow_files import ArrowDataset
from pagefeed.cli.common.arguments import (
    OF_DATA,
    OF_LOADER,
    READERS,
    flags_of,
    storage_options,
)
from pagefeed.cli.common.code import called, is_code
from pagefeed.core.any_loader import AnyLoader, remade
from pagefeed.core.dataset import Dataset, Source
from pagefeed.core.loader import Loader
from pagefeed.core.ranks import resolve_rank
from pagefeed.core.sequences import Cut, Packed, Windows
from pagefeed.core.storage import Paths, Storage, is_url, plain_paths
from pagefeed.documents import Documents
from pagefeed.errors import FileAccessError, InvalidArgumentError, MissingFileError
from pagefeed.flat import FlatDataset
from pagefeed.mixture import Mixture
from pagefeed.parquet_files import ParquetDataset, parquet
from pagefeed.parsing import json_value
from pagefeed.reports import Damage, TextTokenizer, load_tokenizer, sound_part
from pagefeed.tokenizer import Tokenizer

HOW = "name the function that makes the loader, such as train.py:make_loader"
AnyRows = ParquetDataset | ArrowDataset | FlatDataset
AnyDataset = AnyRows | Mixture

_FLAGS = {name: name for name in ("column", "cache_dir")}
_FLAGS |= {"dtype": "in_dtype", "eos": "in_eos", "document": "in_document"}
_FLAGS |= {"storage_options": "storage_option"}
"""The arguments of the functions that open files, and their flags."""


def open_paths(options: argparse.Namespace) -> AnyRows:
    """Return the dataset of the paths.

    Raises:
        InvalidArgumentError: If an argument has no meaning for their format.
    """
    given_format = getattr(options, "source", None)
    source = given_format or _format_of(options.paths) or "parquet"
    make, _ = READERS[source]
    given = {name: getattr(options, flag, None) for name, flag in _FLAGS.items()}
    given["storage_options"] = storage_options(options, *options.paths)
    given = {name: value for name, value in given.items() if value not in (None, [])}
    for name in sorted(given.keys() - _parameters(source)):
        able = [other for other in READERS if name in _parameters(other)]
        raise InvalidArgumentError(
            f"--{_FLAGS[name].replace('_', '-')} is for {', '.join(able)}, and "
            f"{options.paths[0].partition('?')[0]} is {source}: leave it out"
        )
    if source in ("parquet", "arrow"):
        given.setdefault("column", "input_ids")
    dataset: AnyRows = make(options.paths, **given)
    return dataset


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
    return {*inspect.signature(READERS[name][0]).parameters}


def _format_of(paths: Sequence[str]) -> str | None:
    """Return the format of files by their names; None if names do not show it."""
    for name, (_, signs) in READERS.items():
        if all(_holds(path, signs) for path in paths):
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


def make_tokenizer(options: argparse.Namespace) -> Tokenizer:
    """Make the tokenizer that was asked for."""
    return Tokenizer(
        options.tokenize,
        pattern=getattr(options, "pattern", None),
        special_tokens=getattr(options, "special_tokens", None),
        storage_options=storage_options(options, options.tokenize),
    )


def make_sequences(options: argparse.Namespace) -> Cut:
    """Return how to cut the dataset.

    Raises:
        InvalidArgumentError: If there is no length.
    """
    if options.documents and options.packed:
        raise InvalidArgumentError("give --packed or --documents, not both")
    if options.documents:
        return Documents(max_length=options.length)
    if options.length is None:
        raise InvalidArgumentError(
            "--length is missing: give the number of tokens in a sequence (only "
            "--documents does without it)"
        )
    cut = Packed if options.packed else Windows
    return cut(**same_named(options, cut))


def open_run(
    options: argparse.Namespace, *, sound: bool = False
) -> tuple[AnyLoader | AnyDataset, list[Damage]]:
    """Return what the user's function makes, or the dataset of the paths.

    Args:
        options: The arguments.
        sound: Leave out files that cannot be read.

    Returns:
        A loader of the rank and world size asked for, or a dataset or mixture; and the
        damage in the files that were left out.

    Raises:
        InvalidArgumentError: If an argument cannot be right.
        PagefeedError: If nothing can be read.
    """
    if not options.paths:
        raise InvalidArgumentError(f"nothing is named: {HOW}; or paths and --column")
    if not any(map(is_code, options.paths)):
        if options.set:
            raise InvalidArgumentError("--set is for a function: " + HOW)
        data = open_paths(options)
        damage = list[Damage]()
        if sound:
            data, damage = sound_part(data)
        return selected(options, data), damage
    word, *others = options.paths
    if others:
        raise InvalidArgumentError(f"{word} and {others[0]}: give one function alone")
    made = called(word, options.set)
    if not isinstance(made, AnyLoader | Source):
        raise InvalidArgumentError(
            f"{word} made {made!r:.60}: let it return the loader, or the mixture or "
            "dataset"
        )
    own = OF_DATA | OF_LOADER if isinstance(made, AnyLoader) else OF_DATA
    for flag in own.keys() & flags_of(options):
        raise InvalidArgumentError(
            f"{flag} is for paths: {word} says it itself. Give the function a "
            f"parameter, and --set NAME=VALUE"
        )
    if isinstance(made, AnyLoader):
        return _on_rank(options, made), []
    return _sound(made) if sound else (cast("AnyDataset", made), [])


def _on_rank(options: argparse.Namespace, loader: AnyLoader) -> AnyLoader:
    """Return the loader for the rank, world size and epoch that were asked for."""
    asked = flags_of(options)
    if asked & {"--world-size", "--rank"}:
        size = options.world_size
        size = loader.world_size if size is None else size
        rank, size = resolve_rank(getattr(options, "rank", 0), size)
        loader = remade(loader, rank=rank, world_size=size)
    if "--epoch" in asked:
        loader.set_epoch(options.epoch)
    return loader


def _sound(data: Any) -> tuple[AnyDataset, list[Damage]]:
    if not isinstance(data, Mixture):
        return sound_part(data)
    datasets, all_damage = dict[str, Any](), list[Damage]()
    for name, dataset in data.datasets.items():
        datasets[name], damage = sound_part(dataset)
        all_damage += damage
    return replace(data, datasets=datasets), all_damage


def make_loader(options: argparse.Namespace, **settings: Any) -> Loader:
    """Make the loader of the run, of rank 0 where the verb has no ``--rank``.

    Args:
        options: The arguments.
        **settings: Settings of a loader of paths that replace those of the arguments.
    """
    return make_sound_loader(options, sound=False, **settings)[0]


def make_sound_loader(
    options: argparse.Namespace, *, sound: bool = True, **settings: Any
) -> tuple[Loader, list[Damage]]:
    """Return a loader of the readable files, and the damage in the others."""
    made, damage = open_run(options, sound=sound)
    if isinstance(made, AnyLoader):
        # It may be a TextLoader: functions that need a Loader refuse it.
        return cast("Loader", made), damage
    if options.eos is None and made.tokenizer is not None:
        options.eos = made.tokenizer.eos
    given = {"rank": 0} | same_named(options, Loader)
    given |= {
        "sequences": make_sequences(options),
        "batch_size": 8 if options.batch_size is None else options.batch_size,
        "shuffle": None if options.shuffle == "none" else options.shuffle,
        "world_size": 1 if options.world_size is None else options.world_size,
    }
    loader = Loader(made, **given | settings)
    loader.set_epoch(options.epoch)
    return loader, damage


def selected(options: argparse.Namespace, dataset: AnyRows) -> AnyRows:
    """Return the rows of a dataset that ``--where`` keeps, tokenized if asked for.

    Raises:
        InvalidArgumentError: If the dataset has no columns.
    """
    tokenize = getattr(options, "tokenize", None)
    if isinstance(dataset, ParquetDataset | ArrowDataset) and tokenize is not None:
        dataset, tokenize = dataset.tokenize(make_tokenizer(options)), None
    if not isinstance(dataset, ParquetDataset):
        if options.where or tokenize:
            raise InvalidArgumentError(
                "--where and --tokenize need columns, and those of "
                f"{dataset.files[0]} do not suit: only Parquet has them"
            )
        return dataset
    if options.where is not None:
        dataset = dataset.where(options.where)
    return dataset


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
