"""Building the index of a column, or opening that of an earlier build."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from pagefeed import _core
from pagefeed._base import (
    Work,
    check_column,
    check_flag,
    format_bytes,
    warn_of_folder,
)
from pagefeed.errors import (
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    StaleFileError,
    UnsupportedError,
)
from pagefeed.storage import Located, PathLike, Storage, local_path

__all__ = [
    "CACHE_DIR_VARIABLE",
    "IndexRecipe",
    "PageIndexUse",
    "Recipe",
    "build_or_open",
    "check_page_index",
    "default_threads",
    "footer_of",
]

CACHE_DIR_VARIABLE = "PAGEFEED_CACHE_DIR"

_logger = logging.getLogger("pagefeed")

PageIndexUse: TypeAlias = Literal["row_group"] | bool
"""Where pages are found: see ``pagefeed.parquet``."""
MUCH_OF_A_FILE = 1 << 20
"""Bytes of a remote file that its index takes, above which it is said why."""


def check_page_index(value: object) -> PageIndexUse:
    """Return where pages are to be found.

    Raises:
        InvalidArgumentError: If it is nothing that is known.

    Example:
        >>> check_page_index("row_group")
        'row_group'
    """
    if value == "row_group":
        return "row_group"
    if not isinstance(value, bool):
        raise InvalidArgumentError(
            f'page_index={value!r} must be True, False or "row_group"'
        )
    return value


class Recipe(Protocol):
    """All it takes to build the same index again, of whatever files."""

    @property
    def storage(self) -> Storage:
        """Where the files lie."""

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files, in order."""

    @property
    def column(self) -> str:
        """The column as it was asked for."""

    @property
    def cache_dir(self) -> str | None:
        """Folder of the index; None keeps it in memory."""

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums are verified where they are present."""

    def cache_file(self) -> Path | None:
        """Return where the cache folder has it; None without a folder."""

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:
        """Build the index: reads the files, and tells how many were."""

    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return what tells the contents of a file from those of others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRecipe:
    """How the index of a column of Parquet files is built."""

    storage: Storage
    files: tuple[str, ...]
    column: str
    cache_dir: str | None
    page_index: PageIndexUse
    verify_checksums: bool

    @classmethod
    def of(
        cls,
        files: Located,
        column: str,
        cache_dir: PathLike | None,
        page_index: PageIndexUse,
        verify_checksums: bool,  # noqa: FBT001 - as it is asked for
    ) -> IndexRecipe:
        """Check what was asked for; the folder may be named by the environment."""
        if cache_dir is None:
            cache_dir = os.environ.get(CACHE_DIR_VARIABLE) or None
        return cls(
            storage=files.storage,
            files=files.files,
            column=check_column(column, "column"),
            cache_dir=None if cache_dir is None else local_path(cache_dir, "cache_dir"),
            page_index=check_page_index(page_index),
            verify_checksums=check_flag(verify_checksums, "verify_checksums"),
        )

    def cache_file(self) -> Path | None:
        """Return where the cache folder has it; None without a folder."""
        if self.cache_dir is None:
            return None
        parts = [self.column, str(self.page_index), *self.files]
        key = hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
        return Path(self.cache_dir) / f"{key}.pagefeed-index"

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:
        """Read the footers of all files, and of some the page headers."""
        before = self.storage.counts().get("bytes_fetched", 0)
        try:
            core = _core.Index.build(
                list(self.files),
                self.column,
                page_index=self.page_index is True,
                by_row_group=self.page_index == "row_group",
                verify_checksums=self.verify_checksums,
                num_threads=num_threads,
                storage=self.storage.handle,
                advance=advance,
            )
        except UnsupportedError as error:
            if self.page_index == "row_group":
                size = sum(map(self.storage.size, self.files))
                error.add_note(
                    f"to find pages by their headers, up to {format_bytes(size)} of "
                    f"{len(self.files)} files are read, once"
                )
            raise
        fetched = self.storage.counts().get("bytes_fetched", 0) - before
        if fetched > MUCH_OF_A_FILE * len(self.files):
            _logger.warning(
                "index of %r: %s were fetched, as files without an offset index are "
                'indexed by their page headers; page_index="row_group" reads footers '
                'alone, for shuffle="row_group"',
                self.column,
                format_bytes(fetched),
            )
        return core

    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return the footer of a file."""
        return footer_of(storage, self.files[file])


def footer_of(storage: Storage, file: str) -> bytes:
    """Return the footer of a Parquet file, as it lies there."""
    size = storage.size(file)
    end = max(0, size - 8)
    length = int.from_bytes(storage.read(file, end, size)[:4], "little")
    return storage.read(file, max(0, end - length), end)


def default_threads(storage: Storage) -> int:
    """Return how many threads read footers: they mostly wait."""
    local = 4 * len(os.sched_getaffinity(0))
    return local if storage.handle is None else max(local, 64)


def build_or_open(recipe: Recipe, num_threads: int, *, refresh: bool) -> _core.Index:
    """Return the index of the cache folder, or build it and leave it there."""
    cache_file = recipe.cache_file()
    why = "no cache folder is given"
    if cache_file is not None:
        why = "a new one is asked for" if refresh else "none is cached"
    if cache_file is not None and not refresh:
        try:
            core = _core.Index.open(cache_file, storage=recipe.storage.handle)
        except MissingFileError:
            pass
        except (CorruptFileError, FileAccessError) as problem:
            # Derived data: a damaged or older one is simply built again.
            why = f"the cached one cannot be used: {problem}"
        else:
            if (core.column, core.files) == (recipe.column, list(recipe.files)):
                _check_fresh(core, cache_file)
                _logger.debug("index of %r opened: %s", recipe.column, cache_file)
                return core
            why = "the cached one is of other files"
    core = _build(recipe, num_threads, why)
    if cache_file is None:
        return core
    try:
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        core.save(cache_file)
        _logger.info("index of %r saved: %s", recipe.column, cache_file)
        # From here on the mapped file, which all processes of the machine share.
        return _core.Index.open(cache_file, storage=recipe.storage.handle)
    except (CorruptFileError, OSError) as problem:
        warn_of_folder(str(cache_file.parent), problem)
        return core


def _build(recipe: Recipe, num_threads: int, why: str) -> _core.Index:
    what, num_files = f"index of {recipe.column!r}", len(recipe.files)
    _logger.info("%s of %d files is built: %s", what, num_files, why)
    begin = time.monotonic()
    with Work(what, total=num_files, unit="files") as work:
        core = recipe.build(num_threads, work.advance)
    _logger.info(
        "%s built in %.2f s: %d pages, %d rows, %d values",
        what,
        time.monotonic() - begin,
        core.num_pages,
        core.num_rows,
        core.num_values,
    )
    return core


def _check_fresh(core: _core.Index, cache_file: Path) -> None:
    try:
        core.check_files()
    except StaleFileError as error:
        error.add_note(
            f"the index is {cache_file}; to index the files as they are now, pass "
            "refresh=True (pagefeed index --refresh)"
        )
        raise
