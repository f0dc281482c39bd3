"""Indexes of the data plane that are kept in files: found, or made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pagefeed import _core
from pagefeed.core._base import UnusableError, logger, made_once, warn_of_folder
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError, FileAccessError, MissingFileError

__all__ = ["kept_index", "saved_index"]


def kept_index(
    file: Path,
    storage: Storage,
    make: Callable[[str | None], _core.Index],
    check: Callable[[_core.Index], object] = lambda _: None,
) -> _core.Index:
    """Open the index in a file; make it if there is none, and keep it there.

    One process of the machine makes it, and the others wait. An index is derived data:
    one that is damaged or of an older release is made anew.

    Args:
        file: The file.
        storage: Where the indexed files are.
        make: Makes the index. Its argument says why the one in the file cannot be used;
            None if there is none.
        check: Called with the index that was found; an UnusableError has it made anew.
    """

    def find() -> _core.Index | None:
        try:
            found = _core.Index.open(file, storage=storage.handle)
        except MissingFileError:
            return None
        except (CorruptFileError, FileAccessError) as problem:
            raise UnusableError(str(problem)) from problem
        check(found)
        logger.debug("index of %r opened: %s", found.column, file)
        return found

    def make_and_save(why: str | None) -> _core.Index:
        return saved_index(make(why), file, storage)

    return made_once(file.with_suffix(".lock"), find, make_and_save)


def saved_index(core: _core.Index, file: Path, storage: Storage) -> _core.Index:
    """Save an index; return the mapped file, which processes of the machine share."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        core.save(file)
        logger.info("index of %r saved: %s", core.column, file)
        return _core.Index.open(file, storage=storage.handle)
    except (CorruptFileError, OSError) as problem:
        warn_of_folder(str(file.parent), problem)
        return core
