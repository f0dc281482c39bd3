"""Rows of any sequence, as a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.aligned import AlignedColumnNames, parse_aligned
from pagefeed.core._base import Int64Array, check_column, check_columns
from pagefeed.core.dataset import PageIndex, cache_folder
from pagefeed.core.storage import PathLike, Storage, located
from pagefeed.errors import InvalidArgumentError
from pagefeed.made import MadeRecipe, MadeStorage
from pagefeed.own_rows.given import AnyRows, Given
from pagefeed.own_rows.json_lines import SUFFIXES, LineDocuments
from pagefeed.own_rows.row_feed import RowFeed
from pagefeed.own_rows.row_pages import RowPages
from pagefeed.parquet_files import Erasable, Infillable, Selectable, Tokenizable

NO_COLUMN = "rows"
"""Name of the column of a dataset of which no column is read."""


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Rows as the user described them."""

    given: Given
    """The rows."""
    lengths: Int64Array | None
    """Tokens of each row; None if unknown."""
    collate: Callable[[list[Any]], Any] | None
    """Makes a batch of rows."""
    name: str | None
    """Name of the rows; with one, what is counted may be kept."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RowDataset(Tokenizable, Selectable, Erasable, Infillable):
    """Rows of the user's object as a dataset; made by :func:`pagefeed.rows`."""

    own: OwnRows
    """The rows."""

    _records_tokenizer = False

    @property
    def _lines(self) -> LineDocuments | None:
        rows = self.own.given.rows
        return rows if isinstance(rows, LineDocuments) else None

    def _build_index(self, column: str) -> PageIndex:
        given, lines = self.own.given, self._lines
        is_own = column == self.column
        pages = RowPages(
            given,
            None if is_own and column == NO_COLUMN else column,
            self.own.lengths if is_own else None,
            f"{given.name} {given.num_rows}" if lines is None else "lines",
            [given.num_rows] if lines is None else lines.file_rows.tolist(),
        )
        is_kept = lines is not None or self.own.name is not None
        recipe = MadeRecipe(
            files=self.files,
            column=column,
            cache_dir=cache_folder(self.cache_dir) if is_kept else None,
            storage=MadeStorage(pages, self.files, is_of_files=lines is not None),
            pages=pages,
        )
        return PageIndex.of(recipe, num_threads=1)

    def feed(self, settings: Any, run: Any, make: Any) -> Any:  # noqa: ARG002
        """Return a feed of whole rows; None if their columns are to be cut."""
        others = [data for data in run.datasets if not isinstance(data, RowDataset)]
        asks = settings.sequences.delivers == "rows"
        if not asks or others or self.tokenizer is not None:
            return None
        given = [data.own.given for data in run.datasets]
        collates = {data.own.collate for data in run.datasets}
        if len(collates) > 1:
            raise InvalidArgumentError(
                "collate= differs between the datasets of a mixture: give all the same"
            )
        return RowFeed(settings, run, given, collates.pop())

    def _rows_at(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yield the rows of the user; tokens of a dataset of texts."""
        if self.tokenizer is not None or self.erasures or self.infilling is not None:
            yield from super()._rows_at(numbers)
            return
        for number in numbers:
            [row] = self.own.given.take([int(self.spans.rows_of_index(number))])
            yield row


def rows(
    rows: AnyRows | PathLike,
    *,
    column: str | None = None,
    lengths: npt.ArrayLike | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    aligned: AlignedColumnNames = (),
    metadata: Iterable[str] = (),
    name: str | None = None,
    cache_dir: PathLike | None = None,
) -> RowDataset:
    """Return a dataset of the rows of any object with ``len()`` and rows by number.

    A list, a map-style dataset of torch, a ``datasets.Dataset`` with a transform, a
    table of pandas, polars or pyarrow; or a file of JSON lines. It gets what every
    dataset has: each row once over all ranks, a new order each epoch, an exact state,
    ``locate`` and ``skip``.

    With :class:`Documents` a batch holds the columns of its rows, as
    ``default_collate`` of torch makes them, or what ``collate`` returns. Threads take
    the rows ahead of the loop, those of a batch by one call of ``__getitems__`` if
    there is one, ordered by number. With ``column`` the tokens of rows are cut and
    packed by :class:`Windows` and :class:`Packed`, also in mixtures.

    Args:
        rows: The object; or a path of JSON lines, or of a folder of these.
        column: Column of the tokens, a list of integers; or of texts, for
            :meth:`RowDataset.tokenize`. A row that is neither a dict nor a tuple is
            the column ``"row"`` itself; columns of a tuple are ``"0"``, ``"1"``.
        lengths: Number of tokens of each row. Without it all rows are taken and
            counted, once, when they are first needed.
        collate: Makes a batch of a list of rows.
        aligned: Further columns with numbers for every token, see :func:`parquet`.
        metadata: Further columns of the same rows.
        name: Name of the rows in locations, errors and the identity of states. With a
            name and a cache folder, counted lengths are kept: give another name when
            the rows change.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        InvalidArgumentError: If the object has no length or no rows by number, or
            lengths are not those of its rows.
        UnsupportedError: If a file of JSON lines is compressed.
        DataError: When a row cannot be taken; it names the row, and in ``error.steps``
            the steps that need it.

    Example:
        >>> data = rows([{"n": 1}, {"n": 2}])
        >>> len(data), data[1]
        (2, {'n': 2})
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidArgumentError(f"name={name!r} must be a text, and not empty")
    if collate is not None and not callable(collate):
        raise InvalidArgumentError(f"collate={collate!r:.60} must be a function")
    folder = cache_folder(cache_dir)
    if isinstance(rows, str | os.PathLike):
        found = located(rows, None, (*SUFFIXES, *(f"{s}.gz" for s in SUFFIXES)))
        lines = LineDocuments(found.storage, found.files, folder)
        given, files, storage = Given(lines, name), found.files, found.storage
    else:
        given = Given(rows, name)
        files, storage = (given.name,), Storage()
    others = check_columns(metadata, "metadata")
    own = NO_COLUMN if column is None else check_column(column, "column")
    if column is None and (lengths is not None or aligned or others):
        raise InvalidArgumentError(
            "lengths=, aligned= and metadata= describe the tokens of rows: name their "
            "column, as in column='input_ids'"
        )
    return RowDataset(
        files=files,
        storage=storage,
        column=own,
        aligned=parse_aligned(aligned, (own, *others)),
        metadata=others,
        cache_dir=cache_dir,
        own=OwnRows(given, _checked(lengths, given), collate, name),
    )


def _checked(lengths: npt.ArrayLike | None, given: Given) -> Int64Array | None:
    """Return the lengths of rows, checked."""
    if lengths is None:
        return None
    numbers = np.asarray(lengths)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < 0).any():
        raise InvalidArgumentError(
            f"lengths= must be whole numbers, 0 or more, one a row; found "
            f"{numbers.dtype} of shape {numbers.shape}"
        )
    if len(numbers) != given.num_rows:
        raise InvalidArgumentError(
            f"lengths= has {len(numbers)} numbers, and {given.name} has "
            f"{given.num_rows} rows: give one for each"
        )
    return numbers.astype(np.int64)
