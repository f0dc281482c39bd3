"""Indexes that processes of a machine share: one builds, the others map its file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from pagefeed import _core
from pagefeed.caches.arrays import warn_of_folder
from pagefeed.caches.lease import UnusableError, check_owned, made_once
from pagefeed.core._base import logger
from pagefeed.core.dataset import Recipe
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    CorruptFileError,
    FileAccessError,
    MissingFileError,
    StaleFileError,
)

_SUFFIX = ".pagefeed-index"


def cached_index(
    recipe: Recipe,
    build: Callable[[str], _core.Index],
    refresh: bool,  # noqa: FBT001 - the core asks by positions
) -> _core.Index:
    """Open the index in the cache folder; if there is none, build and store it.

    One process of a machine builds it, and the others wait.

    Args:
        recipe: The recipe of the index.
        build: Builds it. Its argument says why, for the log.
        refresh: Build the index again even if the cache folder has it.
    """
    file = cache_file(recipe)
    if file is None:
        return build("no cache folder is given")
    if refresh:
        return _saved(build("a new one is asked for"), file, recipe.storage)

    def check(core: _core.Index) -> None:
        if core.column != recipe.column or not core.is_of(recipe.files):
            raise UnusableError("it belongs to other files")
        _check_fresh(core, file)

    def make(problem: str | None) -> _core.Index:
        why = "none is cached"
        if problem is not None:
            why = f"the cached one cannot be used: {problem}"
        return build(why)

    return kept_index(file, recipe.storage, make, check)


def cache_file(recipe: Recipe) -> Path | None:
    """Return the path of an index in the cache folder; None without a folder."""
    if recipe.cache_dir is None:
        return None
    name = f"{_digest(recipe.settings)}-{_digest(recipe.files)}{_SUFFIX}"
    return Path(recipe.cache_dir) / name


def _digest(texts: Iterable[str]) -> str:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=12).hexdigest()


def kept_index(
    file: Path,
    storage: Storage,
    make: Callable[[str | None], _core.Index],
    check: Callable[[_core.Index], object] = lambda _: None,
) -> _core.Index:
    """Open the index stored in a file; if there is none, make it and store it there.

    One process of the machine makes it, and the others wait. As an index is derived
    data, a damaged one, or one of an older release, is made again.

    Args:
        file: The file.
        storage: Storage of the indexed files.
        make: Makes the index. Its argument says why the stored index cannot be used;
            None if there is none.
        check: Called with the stored index. If it raises an UnusableError, the index is
            made again.
    """

    def find() -> _core.Index | None:
        check_owned(file)
        try:
            index = _core.Index.open(file, storage=storage.handle)
        except MissingFileError:
            return None
        except (CorruptFileError, FileAccessError) as problem:
            raise UnusableError(str(problem)) from problem
        check(index)
        logger.debug("index of %r opened: %s", index.column, file)
        return index

    lock = file.with_suffix(".lock")
    return made_once(lock, find, lambda why: _saved(make(why), file, storage))


def _saved(core: _core.Index, file: Path, storage: Storage) -> _core.Index:
    """Save an index; return the mapped file, which processes of the machine share."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        core.save(file)
        logger.info("index of %r saved: %s", core.column, file)
        return _core.Index.open(file, storage=storage.handle)
    except (CorruptFileError, OSError) as problem:
        warn_of_folder(str(file.parent), problem)
        return core


def part_of(recipe: Recipe, core: _core.Index) -> _core.Index:
    """Return the index of some of the files of an index."""
    number_of = {file: position for position, file in enumerate(core.files)}
    missing = next((file for file in recipe.files if file not in number_of), None)
    if missing is not None:
        raise MissingFileError(
            f"{missing} is not in the index of {core.column!r}: write that again with "
            "`pagefeed index --output`"
        ).at(file=missing, column=core.column)
    ranges = [(0, n, n + 1) for n in map(number_of.__getitem__, recipe.files)]
    return _core.Index.concat([core], ranges, storage=recipe.storage.handle)


def _check_fresh(core: _core.Index, cache_file: Path) -> None:
    try:
        core.check_files()
    except StaleFileError as error:
        error.add_note(
            f"the index is {cache_file}; to index the files as they are now, pass "
            "refresh=True (pagefeed index --refresh)"
        )
        raise
