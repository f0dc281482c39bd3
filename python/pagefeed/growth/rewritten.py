"""Rows of a snapshot whose files a table rewrote and removed, in their old order.

A compaction puts the same rows into other files. The old order follows from the page
index of the old files, which the cache folder has. A key of rows says where each row is
now. So sequences are cut from the rows in their old order, and read from the present
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    ArrayFolder,
    ArrayWriter,
    Int64Array,
    joined_ranges,
    lazy,
    logger,
)
from pagefeed.core.dataset import (
    BlockKind,
    IndexRecipe,
    PageIndex,
    Spans,
    derived_arrays,
    derived_key,
    identity_of_data,
    part_of,
    snapshot_in,
    what_changed,
    wide_bytes,
)
from pagefeed.errors import StateMismatchError
from pagefeed.parquet_files import DescribedRows
from pagefeed.selection import RowRuns

__all__ = ["RewrittenRows", "rewritten_rows"]

VERSION = 1
SPANS_AT_ONCE = 1 << 15


class _Matches(NamedTuple):
    """Rows of an old index, and where they are now."""

    layout: PageIndex
    old: Int64Array
    """Rows of the earlier index that are left, rising."""
    new: Int64Array
    """Their rows in the index of now."""


class RewrittenRows(RowRuns):
    """Rows in the order of removed files, as runs inside pages of the present files.

    Args:
        index: Index of the present files.
        layout: Index of the removed files.
        fingerprint: Fingerprint of the rows in the removed files.
        stored: The runs: first row in ``index``, old page, rows and values before each.
    """

    in_file_order = False

    def __init__(
        self,
        index: PageIndex,
        layout: PageIndex,
        fingerprint: str,
        stored: ArrayFolder,
    ) -> None:
        super().__init__(index)
        self._layout, self._fingerprint, self._stored = layout, fingerprint, stored
        self._page = stored["page"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as its arguments."""
        return RewrittenRows, (
            self.index,
            self._layout,
            self._fingerprint,
            self._stored,
        )

    @property
    def layout(self) -> PageIndex:
        """The page index of the files that were replaced."""
        return self._layout

    def over(self, spans: Spans) -> Spans:
        """Return itself: its spans are those of the present files.

        Raises:
            StateMismatchError: If ``spans`` are of only some of these files.
        """
        if spans.index.files != self.index.files:
            raise StateMismatchError(
                "the rows of the state were rewritten, and their files are gone: what "
                "was added in its epoch cannot be told from them"
            )
        return self

    @property
    def known_rows(self) -> int | None:
        """Number of rows."""
        return self.num_rows

    @property
    def known_tokens(self) -> int | None:
        """Number of tokens."""
        return self.num_values

    @property
    def fingerprint(self) -> str:
        """Identifies the contents, as the files that are gone had them."""
        return self._fingerprint

    @lazy
    def _row(self) -> Int64Array:
        """First row of each span in the index of now: int64 [spans]."""
        return self._stored["row"]

    @lazy
    def _rows_before(self) -> Int64Array:
        """Rows of the spans before each, and of all: int64 [spans + 1]."""
        return self._stored["rows_before"]

    @lazy
    def values_before(self) -> Int64Array:
        """Values of the spans before each, and of all: int64 [spans + 1]."""
        return self._stored["values_before"]

    @lazy
    def _pages(self) -> Int64Array:
        """Pages of the earlier files that held these rows."""
        return np.unique(self._page)

    @property
    def num_pages(self) -> int:
        """Number of pages that held these rows."""
        return len(self._pages)

    @property
    def page_values(self) -> int:
        """Values of all rows of those pages, which were decoded for the spans."""
        borders = np.stack([self._pages, self._pages + 1])
        return int(np.diff(self._layout.first_values(borders), axis=0).sum())

    @lazy
    def file_first_span(self) -> Int64Array:
        """First span of each earlier file, and the number of spans."""
        return np.searchsorted(self._page, self._layout.file_first_page)

    @lazy
    def _rising(self) -> Int64Array:
        """The spans with rows, by their rows in the index."""
        spans = np.flatnonzero(np.diff(self._rows_before))
        return spans[np.argsort(self._row[spans], kind="stable")]

    def spans_at(self, pages: npt.ArrayLike, rows: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each row of a page; -1 if none does."""
        row = self.index.first_rows(pages) + np.asarray(rows, dtype=np.int64)
        rank = np.searchsorted(self._row[self._rising], row, side="right") - 1
        if len(self._rising) == 0:
            return np.full_like(rank, -1)
        span = self._rising[rank.clip(0)]
        length = self.first_rows(span + 1) - self.first_rows(span)
        inside = (rank >= 0) & (row < self._row[span] + length)
        return np.where(inside, span, -1)

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first span of each run of pages that a shuffle moved together."""
        runs = self._layout.runs(kind)
        run = self._page
        if runs is not None:
            run = np.searchsorted(runs, run, side="right")
        return np.flatnonzero(np.diff(run, prepend=-1))


def rewritten_rows(dataset: DescribedRows, then: str) -> DescribedRows:
    """Return the rows of a state, after a table rewrote and removed their files.

    Args:
        dataset: The present table, with the same selection of rows.
        then: Record of the data in the state, see :func:`identity_of_data`.

    Raises:
        StateMismatchError: If not all rows can be identified; the message says what is
            missing.
    """
    _check_kind(dataset, then)
    why = "the cache folder has no page index of them"
    for layout, is_whole in _layouts(dataset, then):
        why = "nothing that tells their rows was kept"
        table = dataset.table
        past = None if table is None else table.past
        if past is None or table is None:
            break
        if not past.keeps_rows(snapshot_in(then), {*layout.files}):
            raise _refused(
                dataset, then, "the table does not prove that no row changed since"
            )
        for candidate in _parts(dataset, layout, then, is_whole=is_whole):
            if not what_changed(then, identity_of_data(candidate)):
                logger.info(
                    "rows of %s are read from files of %s, which rewrote them",
                    *(snapshot_in(then), table.snapshot),
                )
                return candidate
            why = "not all of their rows are there"
    raise _refused(dataset, then, why)


def _refused(dataset: DescribedRows, then: str, why: str) -> StateMismatchError:
    now = "" if dataset.table is None else f" up to {dataset.table.snapshot}"
    return StateMismatchError(
        f"the rows of {snapshot_in(then)}, the snapshot of the state, were rewritten"
        f"{now}, and its files are gone: {why}. Such a state loads if the run began "
        "over the table with cache_dir= and key=, a column whose values tell rows or "
        "'_row_id', and only compactions and appends came since; else keep the files "
        "of a snapshot until the end of the runs that read it"
    )


def _check_kind(dataset: DescribedRows, then: str) -> None:
    """Refuse datasets whose order does not follow from the column alone."""
    what = ""
    if not dataset.has_columns_of_files:
        what = "texts that are tokenized while they are read, and infilled documents"
    elif wide_bytes(dataset):
        what = "columns of several numbers a token"
    elif dataset.erasures:
        what = "documents erased from the files of now"
    if what:
        raise _refused(dataset, then, f"this is not possible with {what}")


def _layouts(dataset: DescribedRows, then: str) -> Iterator[tuple[PageIndex, bool]]:
    """Yield indexes of the cache folder that may be of the removed files.

    With each, whether it is of exactly these files.
    """
    recipe = dataset.index.recipe
    if not isinstance(recipe, IndexRecipe):
        return
    contents = then.split()[5:6]
    others = []
    for core in recipe.cached():
        layout = PageIndex(core, replace(recipe, files=tuple(core.files)))
        if [layout.fingerprint[:8]] == contents:
            yield layout, True
        elif dataset.selection is not None and layout.files != dataset.index.files:
            others.append(layout)
    yield from ((layout, False) for layout in others)


def _parts(
    dataset: DescribedRows, layout: PageIndex, then: str, *, is_whole: bool
) -> Iterator[DescribedRows]:
    """Yield what the rows of an index may be in the files of now, as datasets."""
    matches = _matched(dataset, layout, then)
    if matches is None:
        return
    if not is_whole:  # Files without selected rows were no files of the dataset.
        matches = _of_files_with_rows(matches)
    if len(matches.old) == matches.layout.num_rows:
        yield _dataset_of(dataset, matches, then, has_all=True)
    yield _dataset_of(dataset, matches, then, has_all=False)


def _matched(dataset: DescribedRows, layout: PageIndex, then: str) -> _Matches | None:
    """Return where rows of an earlier index are now.

    None if nothing identifies rows.
    """
    past = None if dataset.table is None else dataset.table.past
    if past is None:
        return None
    try:
        old = past.keys_of(layout)
    except FileNotFoundError:
        return None
    now = past.keys_of(dataset.index)
    if old is None or now is None or old.dtype != now.dtype:
        return None
    begins, ends = dataset.spans.row_runs.T
    rows = joined_ranges(begins, ends)
    keys = now[rows]
    order = np.argsort(keys, kind="stable")
    rising = keys[order]
    if (rising[1:] == rising[:-1]).any() or not len(rising):
        raise _refused(dataset, then, f"two rows have the same key={past.key!r}")
    nearest = np.searchsorted(rising, old).clip(0, len(rising) - 1)
    left = np.flatnonzero(rising[nearest] == old)
    return _Matches(layout, left, rows[order[nearest[left]]])


def _of_files_with_rows(matches: _Matches) -> _Matches:
    """Return the result without files of which no row is left."""
    layout, first = matches.layout, matches.layout.file_first_row
    file = np.searchsorted(first, matches.old, side="right") - 1
    files_with_rows = np.unique(file)
    files = tuple(layout.files[file_number] for file_number in files_with_rows.tolist())
    recipe = replace(layout.recipe, files=files)
    index = PageIndex(part_of(recipe, layout.core), recipe)
    moved = np.zeros(len(layout.files), dtype=np.int64)
    moved[files_with_rows] = index.file_first_row[:-1] - first[files_with_rows]
    return _Matches(index, matches.old + moved[file], matches.new)


def _dataset_of(
    dataset: DescribedRows, matches: _Matches, then: str, *, has_all: bool
) -> DescribedRows:
    layout, index = matches.layout, dataset.index
    fingerprint = layout.fingerprint if has_all else _fingerprint(matches)
    key = derived_key(
        index, str(VERSION), dataset.fingerprint, layout.fingerprint, fingerprint
    )

    def write(writer: ArrayWriter) -> None:
        _write_runs(writer, index, matches)

    stored = derived_arrays(index, "rewritten", key, write)
    spans = RewrittenRows(index, _of_then(layout, then), fingerprint, stored)
    if has_all and not _has_values(spans):
        raise _refused(
            dataset,
            then,
            "rows have other numbers of tokens than when the state was saved",
        )
    return replace(dataset, selection=spans)


def _of_then(layout: PageIndex, then: str) -> PageIndex:
    """The index of files that are gone, as one of the snapshot of then."""
    table = layout.recipe.table
    if table is None:
        return layout
    table = replace(table, snapshot=snapshot_in(then))
    return PageIndex(layout.core, replace(layout.recipe, table=table))


def _has_values(spans: RewrittenRows) -> bool:
    """Whether pages have as many tokens as they had."""
    pages = np.arange(len(spans.layout) + 1)
    values = spans.first_values(np.searchsorted(spans._page, pages))  # noqa: SLF001
    return bool((values == spans.layout.first_values(pages)).all())


def _begins(matches: _Matches, pages: Sequence[Int64Array]) -> Int64Array:
    """Return where runs of consecutive rows begin: within one page of both indexes."""
    begins = np.ones(len(matches.old), dtype=np.bool_)
    begins[1:] = (np.diff(matches.old) != 1) | (np.diff(matches.new) != 1)
    for page in pages:
        begins[1:] |= np.diff(page) != 0
    return np.flatnonzero(begins)


def _fingerprint(matches: _Matches) -> str:
    """Return a digest of the rows, see ``Selection.fingerprint``."""
    pages = matches.layout.pages_of_rows(matches.old)
    first = _begins(matches._replace(new=matches.old), [pages])
    count = np.diff(first, append=len(matches.old))
    runs = np.stack([matches.old[first], count], axis=1).tobytes()
    digest = blake2b(runs, digest_size=16).hexdigest()
    text = f"{matches.layout.fingerprint} {digest}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _write_runs(writer: ArrayWriter, index: PageIndex, matches: _Matches) -> None:
    """Store the runs, and the values before each; reads pages selected in part."""
    layout = matches.layout
    logger.info("%d rewritten rows are found, once", len(matches.old))
    page = layout.pages_of_rows(matches.old)
    first = _begins(matches, [page, index.pages_of_rows(matches.new)])
    page, row = page[first], matches.new[first]
    num_rows = np.diff(first, append=len(matches.old))
    values = np.zeros(len(row), dtype=np.int64)
    order = np.argsort(row, kind="stable")
    for begin in range(0, len(order), SPANS_AT_ONCE):
        some = order[begin : begin + SPANS_AT_ONCE]
        borders = np.stack([row[some], row[some] + num_rows[some]])
        before, behind = index.values_of_rows(borders)
        values[some] = behind - before
    writer.append("row", row)
    writer.append("page", page)
    writer.append_sums("rows_before", num_rows)
    writer.append_sums("values_before", values)
