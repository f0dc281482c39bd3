"""Arrow files and columns, as a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pagefeed.aligned import AlignedColumnNames, parse_aligned
from pagefeed.arrow_files.arrow_pages import ArrowFormat, ArrowPages
from pagefeed.arrow_files.hub_dataset import blocks_of, is_hub_dataset
from pagefeed.core._base import check_column, check_columns
from pagefeed.core.dataset import PageIndex, Spans, cache_folder
from pagefeed.core.storage import (
    Located,
    PathLike,
    Paths,
    Storage,
    is_url,
    located,
    plain_paths,
)
from pagefeed.errors import InvalidArgumentError, MissingFileError, UnsupportedError
from pagefeed.flat import FlatRecipe
from pagefeed.made import MadeRecipe, MadeStorage
from pagefeed.parquet_files import Erasable, Infillable, Selectable, Tokenizable
from pagefeed.parsing import json_value, parsing
from pagefeed.selection import select_rows

SUFFIXES = (".arrow", ".feather", ".ipc")
_STATE = "state.json"
_SPLITS = "dataset_dict.json"
SIGNS = (*SUFFIXES, _STATE, _SPLITS)
"""Ends of the names of Arrow files, and of files that describe some."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ArrowDataset(Tokenizable, Selectable, Erasable, Infillable):
    """Arrow files read as one dataset; made by :func:`pagefeed.arrow`."""

    _records_tokenizer = False

    def _build_index(self, column: str) -> PageIndex:
        pages = ArrowPages(self.files, column)
        cache_dir = cache_folder(self.cache_dir)
        is_alone = column == self.column and not self.aligned
        if is_alone and self.tokenizer is None and pages.are_runs:
            recipe = FlatRecipe(
                files=self.files,
                column=column,
                cache_dir=cache_dir,
                format=ArrowFormat(column),
            )
            return PageIndex.of(recipe, num_threads=1)
        made = MadeRecipe(
            files=self.files,
            column=column,
            cache_dir=cache_dir,
            storage=MadeStorage(pages, self.files, is_of_files=True),
            pages=pages,
        )
        return PageIndex.of(made, num_threads=1)


def arrow(
    paths: Paths | Any,
    *,
    column: str,
    aligned: AlignedColumnNames = (),
    metadata: Iterable[str] = (),
    spans: Iterable[str] = (),
    cache_dir: PathLike | None = None,
) -> ArrowDataset:
    """Return a dataset of Arrow files, which are read in place.

    Streams, files and Feather (version 2) are read, as ``datasets``, pyarrow and polars
    write them. A window of tokens that are not compressed costs one read, as of flat
    files. Compressed record batches are read whole.

    Args:
        paths: Files; folders, for the ``.arrow``, ``.feather`` and ``.ipc`` files
            below them; patterns; or a list of these, whose order is kept. Or a
            ``datasets.Dataset``, or the folder of its ``save_to_disk``. Rows that it
            has after filter, shuffle or select come in the order of the files, as a
            loader shuffles them.
        column: The token column: a list of integers per row, of fixed size or not. Or
            a column of texts, for :meth:`ArrowDataset.tokenize`.
        aligned: Further columns with numbers for every token, see :func:`parquet`.
        metadata: Further columns of the same rows.
        spans: Columns of ranges of tokens in the same rows.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If an argument is invalid, or a folder has several splits.
        UnsupportedError: If a ``datasets.Dataset`` is not one of files as they lie; the
            message says what to do.
        CorruptFileError: When a file is opened that is cut, or no Arrow file; it names
            the record batch.

    Example:
        >>> arrow("corpus/arrow", column="input_ids")  # doctest: +SKIP
    """
    rows = None
    if is_hub_dataset(paths):
        blocks, rows = blocks_of(paths)
        files = Located(Storage(), tuple(block.file for block in blocks))
    else:
        if any(map(is_url, plain_paths(paths))):
            raise UnsupportedError(
                f"{paths!r:.80}: Arrow files are read from this machine alone: copy "
                "them, or make Parquet by pagefeed convert --to parquet, which is read "
                "from where it lies"
            )
        files = located(paths, None, SIGNS)
        files = files._replace(files=tuple(saved_files(files)))
    column = check_column(column, "column")
    others, ranges = check_columns(metadata, "metadata"), check_columns(spans, "spans")
    taken = [column, *others, *ranges]
    if len(set(taken)) < len(taken):
        raise InvalidArgumentError(
            f"column={column!r}, metadata={list(others)}, spans={list(ranges)} must "
            "name different columns"
        )
    dataset = ArrowDataset(
        files=files.files,
        storage=files.storage,
        column=column,
        aligned=parse_aligned(aligned, taken),
        metadata=others,
        span_columns=ranges,
        cache_dir=cache_dir,
    )
    if rows is None:
        return dataset
    every = Spans(lambda: dataset.index)
    return replace(dataset, selection=select_rows(every, rows))


def saved_files(files: Located) -> list[str]:
    """Return the data files, in the order that a folder of ``save_to_disk`` names.

    Raises:
        InvalidArgumentError: If there are several splits, or caches of ``datasets``
            without the files of their data.
        MissingFileError: If there are no data files.
    """
    named = dict.fromkeys(files.files)
    for file in sorted(named, key=lambda file: not file.endswith(_STATE)):
        folder, _, name = file.rpartition("/")
        if name == _SPLITS:
            raise InvalidArgumentError(
                f"{folder} has several splits: give the folder of one of them"
            )
        if name.startswith("cache-") and name.endswith(SUFFIXES) and file in named:
            raise InvalidArgumentError(
                f"{file} is a cache of map() or filter() of datasets: "
                "name the files of the data, or give the datasets.Dataset"
            )
        if name == _STATE:
            state = json_value(files.storage.read_all(file), file)
            of_dataset = state.get("_data_files") if isinstance(state, dict) else None
            if of_dataset:
                with parsing(file, "it does not name the files of a dataset"):
                    own = [f"{folder}/{entry['filename']}" for entry in of_dataset]
                same = (other for other in [*named] if other.startswith(f"{folder}/"))
                for other in same:
                    del named[other]
                named |= dict.fromkeys(own)
    found = [file for file in named if not file.endswith((_STATE, _SPLITS))]
    if not found:
        raise MissingFileError(f"{files.files[0]} names no Arrow files: give some")
    return found
