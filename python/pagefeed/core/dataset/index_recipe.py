"""Building the index of a column, or opening that of an earlier build."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from pagefeed import _core
from pagefeed.core._base import (
    Work,
    check_column,
    check_flag,
    format_bytes,
    logger,
    num_processors,
    warn_user,
)
from pagefeed.core.storage import (
    PathLike,
    Storage,
    advice_on_format,
    local_path,
)
from pagefeed.core.wiring import cached_index
from pagefeed.errors import (
    CorruptFileError,
    IndexWarning,
    InvalidArgumentError,
    UnsupportedError,
)

CACHE_DIR_VARIABLE = "PAGEFEED_CACHE_DIR"


PageIndexUse: TypeAlias = Literal["row_group"] | bool
"""Way to locate pages; see ``pagefeed.parquet``."""
MUCH_OF_A_FILE = 1 << 20
"""An index that fetches more bytes of a remote file than this is warned of."""


def check_page_index(value: object) -> PageIndexUse:
    """Return the argument ``page_index``, checked.

    Raises:
        InvalidArgumentError: If it is anything else.

    Example:
        >>> check_page_index("row_group")
        'row_group'
    """
    if isinstance(value, str) and value == "row_group":
        return "row_group"
    if not isinstance(value, bool):
        raise InvalidArgumentError(
            f'page_index={value!r} must be True, False or "row_group"'
        )
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe(ABC):
    """Everything that another process needs to build the same index."""

    files: tuple[str, ...]
    """Paths of the files, in order."""
    column: str
    """The column, as the caller named it."""
    cache_dir: str | None = None
    """Folder of the index: the given one, else the one in the environment. None keeps
    the index in memory."""
    storage: Storage = field(default_factory=Storage)
    """Storage of the files."""
    verify_checksums: bool = False
    """Verify checksums of pages where the writer stored them."""
    table: Any = None
    """Facts from the metadata of a table: its ``snapshot``, the columns ``of_files``,
    and the files that are ``left_out``. None if the files belong to no table."""

    def __post_init__(self) -> None:
        check_column(self.column, "column")

    @property
    @abstractmethod
    def settings(self) -> list[str]:
        """Everything that the index depends on, except the files."""

    @abstractmethod
    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:
        """Build the index; call ``advance`` with the number of files read."""

    def ready(self) -> _core.Index | None:
        """Return the index, if nothing is to be built."""
        return None

    def completed(self, core: _core.Index) -> _core.Index:
        """Return the index, completed with facts that no file has, if there are any."""
        return core

    @abstractmethod
    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return bytes that differ between files with different contents."""


def cache_folder(given: PathLike | None) -> str | None:
    """Return the folder for indexes: the given one, else ``$PAGEFEED_CACHE_DIR``.

    Raises:
        InvalidArgumentError: If it is not a path on this machine.
    """
    if given is not None:
        return local_path(given, "cache_dir")
    folder = os.environ.get(CACHE_DIR_VARIABLE)
    return local_path(folder, CACHE_DIR_VARIABLE) if folder else None


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRecipe(Recipe):
    """Recipe of the index of a column of Parquet files."""

    page_index: PageIndexUse = True

    def __post_init__(self) -> None:
        Recipe.__post_init__(self)
        check_page_index(self.page_index)
        check_flag(self.verify_checksums, "verify_checksums")

    @property
    def settings(self) -> list[str]:
        """Everything that the index depends on, except the files."""
        return [self.column, str(self.page_index), *self._own_settings()]

    def _own_settings(self) -> list[str]:
        """Return settings of this kind of file that the index depends on."""
        return []

    def _naming(self) -> dict[str, Any]:
        """Return how the data plane finds the column, where its name is not enough."""
        return {}

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:
        """Read the footers of all files, and page headers where footers need them."""
        before = self.storage.counts().get("bytes_fetched", 0)
        try:
            core = _core.Index.build(
                list(self.files),
                self.column,
                page_index=self.page_index is True,
                by_row_group=self.page_index == "row_group",
                **self._naming(),
                verify_checksums=self.verify_checksums,
                num_threads=num_threads,
                storage=self.storage.handle,
                advance=advance,
            )
        except CorruptFileError as error:
            advice = advice_on_format(error.file or "")
            error.args = (f"{error.args[0]}{advice}",)
            raise
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
            warn_user(
                f"index of {self.column!r}: {format_bytes(fetched)} were fetched, as "
                "files without an offset index are indexed by their page headers; "
                'page_index="row_group" reads footers alone, for shuffle="row_group"',
                IndexWarning,
            )
        return core

    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return the footer of a file."""
        return footer_of(storage, self.files[file])


def footer_of(storage: Storage, file: str) -> bytes:
    """Return the footer of a Parquet file: its bytes, not parsed."""
    size = storage.size(file)
    end = max(0, size - 8)
    length = int.from_bytes(storage.read(file, end, size)[:4], "little")
    return storage.read(file, max(0, end - length), end)


def default_threads(storage: Storage) -> int:
    """Return the number of threads that read footers, which mostly wait for files."""
    local = 4 * num_processors()
    return local if storage.handle is None else max(local, 64)


def build_or_open(recipe: Recipe, num_threads: int, *, refresh: bool) -> _core.Index:
    """Open the index in the cache folder; if there is none, build and store it."""
    ready = recipe.ready()
    if ready is not None:
        return ready
    return cached_index(recipe, partial(_build, recipe, num_threads), refresh)


def _build(recipe: Recipe, num_threads: int, why: str) -> _core.Index:
    what, num_files = f"index of {recipe.column!r}", len(recipe.files)
    logger.info("%s of %d files is built: %s", what, num_files, why)
    begin = time.monotonic()
    with Work(what, total=num_files, unit="files") as work:
        core = recipe.build(num_threads, work.advance)
    logger.info(
        "%s built in %.2f s: %d pages, %d rows, %d values",
        what,
        time.monotonic() - begin,
        core.num_pages,
        core.num_rows,
        core.num_values,
    )
    return core
