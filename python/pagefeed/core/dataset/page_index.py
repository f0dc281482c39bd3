"""The page index: where each page of a column lies, in all files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import (
    Facts,
    Int64Array,
    StoredNumbers,
    UInt32Array,
    check_flag,
    check_positive,
    check_whole,
    distinct,
    lazy,
    looked_up,
    text_of,
)
from pagefeed.core.dataset.folders import FolderColumn, folder_columns
from pagefeed.core.dataset.index_recipe import (
    IndexRecipe,
    PageIndexUse,
    Recipe,
    build_or_open,
    cache_folder,
    default_threads,
)
from pagefeed.core.storage import PathLike, Paths, Storage, located
from pagefeed.errors import (
    InvalidArgumentError,
    StaleFileError,
    shown_path,
)

if TYPE_CHECKING:
    from pagefeed.core.sequences import Cut, SequenceIndex
    from pagefeed.infilling import Infill
    from pagefeed.tokenizer import Rows, Tokenizer

BlockKind = Literal["page", "row_group"]


class RowNumbers(Protocol):
    """A number for each row of the files, such as the cost of its images."""

    def sums(self, sequences: SequenceIndex) -> StoredNumbers | None:
        """Map the sum over the rows of each sequence.

        Returns:
            float32 [sequences]; None if sequences cut rows anywhere.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """Location of one page."""

    file: str
    """Path of the file."""
    row_group: int
    """Row group in the file."""
    page: int
    """Number of the data page within its column chunk."""
    first_row: int
    """First row that begins in the page, counted within the file."""
    num_rows: int
    """Rows that begin in the page."""
    offset: int
    """Offset of the page header in the file, in bytes."""
    compressed_size: int
    """Header and data as stored, in bytes; without the dictionary page."""


OwnTokens: TypeAlias = tuple[int, int, int]
"""A run of consecutive tokens of a document, in a range of its row: the first token,
counted within the document; the number of tokens; and how many tokens of the range come
before the run."""

Pieces = tuple[Int64Array, Int64Array, UInt32Array, UInt32Array, UInt32Array]
"""Ranges of tokens cut at the ends of pages, as :class:`SpanParts` names them."""


class PageIndex:
    """The pages of one column in a list of files, numbered consecutively.

    A row belongs to the page in which it begins. The index takes about 13 bytes per
    page. With a cache folder it is written there once, and every process of the machine
    maps the same file.

    Example:
        >>> index = PageIndex.build("corpus/", column="input_ids")  # doctest: +SKIP
        >>> pyarrow.array(index.read_page(0))  # doctest: +SKIP
    """

    infill: Infill | None = None
    """Infilling of documents; None if they are not infilled."""
    tokenizer: Tokenizer | None = None
    """Tokenizer of a column of texts; None of a column of tokens."""
    rows: Rows | None = None
    """Encoder of rows, where a row is more than one text; None where it is not."""

    def __init__(self, core: _core.Index, recipe: Recipe) -> None:
        self.core = core = recipe.completed(core)
        """The index of the data plane, which answers all questions of this class."""
        self.handle: _core.Index = core
        """Handle by which engines read the column."""
        self.storage: Storage = recipe.storage
        """The storage of the files."""
        self.recipe = recipe
        """Everything needed to build it again."""
        self.column = recipe.column
        """Name of the column, as given by the user."""
        self.cache_dir = recipe.cache_dir
        """Folder of the index and of derived arrays; None keeps them in memory."""
        self.num_rows = core.num_rows
        """Number of rows in all files."""
        self.num_values = core.num_values
        """Number of leaf values that are not null: the tokens of a token column.

        For texts without lists, as the files' statistics count them.
        """
        self.value_bytes = core.value_bytes
        """Bytes of one value in the column's own type; 0 if it is not a number."""
        self.bytes_beside = 0
        """Bytes of further columns that are read with the rows, all together."""
        self.numbers_beside: dict[str, RowNumbers] = {}
        """Numbers of the rows besides tokens, by name, such as the cost of images."""
        self.is_infilled = False
        """Whether pages hold infilled documents, which change every epoch."""
        self.is_borderless = core.is_borderless
        """Whether a file is one row of unknown documents, counted by its pages."""

    @classmethod
    def build(
        cls,
        paths: Paths,
        column: str,
        cache_dir: PathLike | None = None,
        *,
        page_index: PageIndexUse = True,
        verify_checksums: bool = True,
        num_threads: int | None = None,
        refresh: bool = False,
        storage_options: Mapping[str, object] | None = None,
    ) -> PageIndex:
        """Build the index of a column, or open an index that was built before.

        Args:
            paths: Files, folders, patterns and URLs, see ``pagefeed.parquet``.
            column: A top-level column, or the dotted path of a leaf or inner node.
            cache_dir: Folder for the index. By default ``$PAGEFEED_CACHE_DIR``; if that
                is not set, the index stays in memory. It also stays there, with a
                warning, if the folder cannot be used.
            page_index: True uses the offset indexes of the files where they have them.
                False trusts only the pages: it reads page headers instead, and the
                levels of numbers that may be null. This is also done where counts of
                nulls contradict each other, or come from a writer that miscounts them.
                With ``"row_group"`` a page is a whole row group, see
                ``pagefeed.parquet``.
            verify_checksums: Verify checksums of pages where the writer stored them.
            num_threads: Threads that read footers. By default 4 per CPU, since they
                mostly wait; at least 64 for remote files.
            refresh: Build the index again even if the cache folder has it.
            storage_options: Settings of remote storage, see ``pagefeed.parquet``.

        Raises:
            MissingFileError: If a path does not exist.
            ColumnNotFoundError: If a file lacks the column.
            StaleFileError: If a cached index belongs to other versions of the files.
            CorruptFileError: If a file is not what the format promises.
            UnsupportedError: If a file is encrypted or otherwise not supported, or if
                the column has incompatible types in two files; the message names both.
        """
        files = located(paths, storage_options)
        recipe = IndexRecipe(
            files=files.files,
            storage=files.storage,
            column=column,
            cache_dir=cache_folder(cache_dir),
            page_index=page_index,
            verify_checksums=verify_checksums,
        )
        return cls.of(recipe, num_threads, refresh=check_flag(refresh, "refresh"))

    @classmethod
    def of(
        cls, recipe: Recipe, num_threads: int | None = None, *, refresh: bool = False
    ) -> PageIndex:
        """Build the index of a recipe, or open that of an earlier build."""
        if num_threads is None:
            num_threads = default_threads(recipe.storage)
        threads = check_positive(num_threads, "num_threads")
        return PageIndex(build_or_open(recipe, threads, refresh=refresh), recipe)

    def __len__(self) -> int:
        """Return the number of pages."""
        return self.core.num_pages

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "column": self.column,
            "files": len(self.recipe.files),
            "pages": len(self),
            "rows": self.num_rows,
            "values": self.num_values,
            "cache_dir": self.cache_dir,
        }

    def __reduce__(self) -> tuple[Callable[..., PageIndex], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or builds its own index."""
        return _rebuild, (self.recipe, self.fingerprint)

    @lazy
    def mean_row_bytes(self) -> int:
        """Approximate bytes of a row in memory, from counts and sizes of some pages."""
        return self.core.mean_row_bytes

    @lazy
    def fingerprint(self) -> str:
        """Fingerprint of the contents, wherever files are: 32 hexadecimal digits.

        It is a digest of the column and of every file's footer and size, in order.
        Names, folders and times do not count.
        """
        return self.core.fingerprint

    @property
    def plain(self) -> PageIndex:
        """The index of the column as the files have it: this one."""
        return self

    @property
    def files(self) -> list[str]:
        """Paths of the files, in order."""
        return list(self.recipe.files)

    @lazy
    def folder_columns(self) -> Mapping[str, FolderColumn]:
        """Columns in the names of folders (``lang=en/``), or partitions of a table."""
        table = self.recipe.table
        return folder_columns(self.recipe.files) if table is None else table.of_files

    @property
    def page_rows(self) -> Int64Array:
        """Rows that begin in each page: int64 [pages]."""
        return np.diff(self.first_rows(np.arange(len(self) + 1)))

    @property
    def page_values(self) -> Int64Array:
        """Values of the rows that begin in each page: int64 [pages]."""
        return np.diff(self.first_values(np.arange(len(self) + 1)))

    @lazy
    def file_first_page(self) -> Int64Array:
        """First page of each file, and the number of pages: int64 [files + 1]."""
        return np.asarray(self.core.file_first_page(), dtype=np.int64)

    @lazy
    def file_first_row(self) -> Int64Array:
        """First row of each file, and the number of rows: int64 [files + 1]."""
        return self.first_rows(self.file_first_page)

    @lazy
    def file_first_value(self) -> Int64Array:
        """First value of each file, and the number of values: int64 [files + 1]."""
        return self.first_values(self.file_first_page)

    @property
    def null_pages(self) -> Int64Array:
        """Pages of a column of lists in which a list holds a null: int64, rising."""
        return np.frombuffer(self.core.null_pages(), dtype=np.int64)

    def file_identity(self, file: int) -> bytes:
        """Return bytes that differ between files with different contents.

        Raises:
            MissingFileError: If the file no longer exists.
        """
        return self.recipe.file_identity(self.storage, file)

    def stored_bytes(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the stored bytes of ``pages``, each with its share of a dictionary."""
        return self._looked_up("stored_bytes", pages)

    def first_rows(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the number of rows before each page; ``len(index)`` gives all."""
        return self._looked_up("first_rows", pages)

    def first_values(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the number of values before each page; ``len(index)`` gives all."""
        return self._looked_up("first_values", pages)

    def pages_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the page in which each of ``rows`` begins."""
        return self._looked_up("pages_of_rows", rows)

    def pages_before(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the page in which each of ``rows`` begins; ``len(index)`` for none."""
        numbers = np.asarray(rows, dtype=np.int64)
        pages = np.full(numbers.shape, len(self))
        inside = numbers < self.num_rows
        pages[inside] = self.pages_of_rows(numbers[inside])
        return pages

    def files_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of the file of each of ``rows``."""
        return np.searchsorted(self.file_first_row, rows, side="right") - 1

    def pages_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the page that holds each of ``values``."""
        return self._looked_up("pages_of_values", values)

    def _looked_up(self, table: str, numbers: npt.ArrayLike) -> Int64Array:
        return looked_up(partial(self.core.look_up, table), numbers)

    def find_file(self, path: str) -> int | None:
        """Return the number of a file; None if the index does not have it.

        A URL is known without its query, too, unless several differ by queries alone.
        """
        return self._number_of_file.get(self.storage.name_of(path))

    @lazy
    def _number_of_file(self) -> dict[str, int | None]:
        numbers: dict[str, int | None] = {}
        for number, file in enumerate(self.recipe.files):
            shown = shown_path(file)
            numbers |= {shown: None if shown in numbers else number, file: number}
        return numbers

    def check_cut(self, cut: Cut) -> None:
        """Refuse a cut that does not suit the rows; rows of files suit every cut."""

    def check_files(self) -> None:
        """Check that the files have not changed since they were indexed.

        Raises:
            StaleFileError: For the first file that changed.
            MissingFileError: For the first that no longer exists.
        """
        self.core.check_files()

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> Pieces:
        """Cut ranges of tokens, none of them empty, at the ends of pages.

        Args:
            starts: First token of each range, counted through all rows: int64.
            stops: One past the last token of each range, counted likewise: int64.
            per_row: Separators of a row, which count as tokens.

        Returns:
            For each page slice: the number of its range and its page (int64), its first
            token in the page, its number of tokens, and its offset in the range
            (uint32).
        """
        columns = _core.cut_tokens(self.core, starts, stops, per_row)
        of, page = (np.frombuffer(column, np.int64) for column in columns[:2])
        counts = (np.frombuffer(column, np.uint32) for column in columns[2:])
        first_token, num_tokens, offset = counts
        return of, page, first_token, num_tokens, offset

    def list_pages(
        self, first: Int64Array, end: Int64Array
    ) -> tuple[UInt32Array, Int64Array, UInt32Array]:
        """List the pages of ranges, from ``first`` up to ``end``: int64 [ranges].

        Returns:
            The first page of each range among these, and their number (uint32 [ranges +
            1]); each page (int64), and its rows (uint32).
        """
        offsets, page, rows = _core.list_pages(self.core, first, end)
        return (
            np.frombuffer(offsets, np.uint32),
            np.frombuffer(page, np.int64),
            np.frombuffer(rows, np.uint32),
        )

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first page of each run of pages that a shuffle moves together.

        Args:
            kind: ``"row_group"``, or ``"page"``. With ``"page"`` a run is as short as
                possible while the dictionary page is at most a quarter of the bytes
                read; it is one page if all dictionaries together are small (64 MiB).

        Returns:
            int64 [runs], ascending from 0; None if every page is a run.
        """
        if kind == "row_group":
            runs: bytes | None = self.core.row_group_runs()
        else:
            runs = self.core.dictionary_runs()
        return None if runs is None else np.frombuffer(runs, dtype=np.int64)

    def locate(self, page: int) -> Page:
        """Return the location of a page.

        Raises:
            InvalidArgumentError: If there is no such page.
        """
        file, *numbers = self.core.locate(self._check_page(page))
        return Page(shown_path(self.recipe.files[file]), *numbers)

    def error_place(self, page: Page) -> dict[str, str | int]:
        """Return the attributes of an error about a page."""
        names = ("file", "row_group", "page", "offset")
        return {name: getattr(page, name) for name in names} | {"column": self.column}

    def read_page(self, page: int) -> _core.ArrowArray:
        """Read and decode one page.

        Returns:
            An Arrow array of ``page_rows[page]`` rows, for any library with the Arrow
            PyCapsule interface: ``pyarrow.array(index.read_page(0))``. For a path into
            a nested column it is the top-level column with only these leaves.

        Raises:
            StaleFileError: If the file changed since it was indexed.
            CorruptFileError: If the page does not match the index or the format.
        """
        return self.core.read_page(
            self._check_page(page), verify_checksums=self.recipe.verify_checksums
        )

    def row_offsets(self, page: int, *, verify_checksums: bool = False) -> Int64Array:
        """Return where the rows of a page of a token column begin in the page's tokens.

        Args:
            page: Number of the page.
            verify_checksums: Compare the page's checksum, if it has one. Otherwise that
                is left to readers of tokens.

        Returns:
            int64 [rows + 1]: row r holds the tokens ``[offsets[r], offsets[r + 1])``.

        Raises:
            UnsupportedError: If the column is not a list of integers.
            CorruptFileError: If the page does not match the index or the format.
        """
        numbers = np.array([self._check_page(page)], dtype=np.uint64)
        lengths = self.core.row_lengths(numbers, verify_checksums=verify_checksums)
        return np.append(0, np.cumsum(np.frombuffer(lengths, np.int64)))

    def row_lengths(self, pages: Int64Array) -> Int64Array:
        """Return the number of tokens in each row of some pages of a token column.

        Checksums are left to readers of tokens: where these alone are damaged, a run
        continues and passes over the steps that need them.

        Args:
            pages: Numbers of pages: int64.

        Returns:
            int64 [rows of all these pages], one page after another.

        Raises:
            UnsupportedError: If the column is not a list of integers.
            CorruptFileError: If a page does not match the index or the format.
        """
        lengths = self.core.row_lengths(pages.astype(np.uint64), verify_checksums=False)
        return np.frombuffer(lengths, np.int64)

    def values_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of values before each row; ``num_rows`` gives all.

        Reads each page once in which one of the rows lies and is not the first, unless
        its rows are empty, or lists of a fixed size.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        pages = self.pages_before(numbers)
        values, behind = self.first_values(pages), numbers - self.first_rows(pages)
        within = np.nonzero(behind)
        read = distinct(pages[within])
        which = np.searchsorted(read, pages[within])
        borders, size = np.stack([read, read + 1]), self.core.row_size or 0
        num_rows = np.diff(self.first_rows(borders), axis=0)[0]
        num_values = np.diff(self.first_values(borders), axis=0)[0]
        is_even = num_rows * size == num_values
        lengths = np.full(num_rows.sum(), size, dtype=np.int64)
        lengths[np.repeat(~is_even, num_rows)] = self.row_lengths(read[~is_even])
        before = np.append(0, np.cumsum(lengths))
        first = (np.cumsum(num_rows) - num_rows)[which]
        values[within] += before[first + behind[within]] - before[first]
        return values

    def own_tokens(
        self,
        page: int,  # noqa: ARG002 - of pages whose rows hold other tokens, too
        row: int,  # noqa: ARG002
        tokens: range,
        epoch: int,  # noqa: ARG002
        parts: Sequence[range] | None = None,  # noqa: ARG002
    ) -> list[OwnTokens]:
        """Return where tokens of a row lie in the row's document, as runs in row order.

        Args:
            page: Number of the page.
            row: Row in the page.
            tokens: Range of tokens of the row.
            epoch: Epoch for which the row is read.
            parts: Tokens of the row in each sequence, if documents are infilled after
                they are cut.
        """
        return [(tokens.start, len(tokens), 0)]

    def text_range(self, page: int, row: int, tokens: range) -> tuple[int, int] | None:  # noqa: ARG002
        """Return the part of a text from which some tokens come.

        Always None here: this index has no texts.
        """
        return None

    def _check_page(self, page: int) -> int:
        checked = check_whole(page, "page")
        if not 0 <= checked < len(self):
            raise InvalidArgumentError(
                f"page {page} is out of range: the index has {len(self)} pages"
            )
        return checked


def _rebuild(recipe: Recipe, fingerprint: str) -> PageIndex:
    index = PageIndex.of(recipe)
    if index.fingerprint != fingerprint:
        raise StaleFileError(
            "the files changed while the index was sent to another process: "
            f"expected fingerprint {fingerprint}, found {index.fingerprint}"
        )
    return index
