"""Inspect a dataset: its facts, damage, and advice before training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import Dataset, check_dataset
from pagefeed.errors import MissingDependencyError
from pagefeed.parquet_files import ParquetDataset, changed_files
from pagefeed.reports.inspection.footers import (
    NO_CHECKSUMS,
    FileFacts,
    checksum_share,
    file_facts,
)
from pagefeed.reports.inspection.lengths import DocumentLengths, measure_lengths
from pagefeed.reports.inspection.sizes import small_files_of
from pagefeed.reports.sampling import evenly
from pagefeed.reports.soundness import Damage, damage_of
from pagefeed.reports.tables import parts_of_inspection
from pagefeed.reports.telling import Part, Told

MOST_PAGES = 4096
LARGE_PAGE = 8 << 20


@dataclass(frozen=True, kw_only=True)
class PageSizes:
    """Smallest, median and largest size of pages, from all or an even sample."""

    stored_bytes: tuple[int, int, int]
    """Header and data as stored."""
    rows: tuple[int, int, int]
    """Rows that begin in a page."""
    tokens: tuple[int, int, int] | None
    """Tokens of the rows; None if the column holds no numbers."""


@dataclass(frozen=True, kw_only=True)
class Inspection(Told):
    """Facts about a dataset: how it is stored."""

    column: str
    """The column that would be fed."""
    files: int
    """Files that can be read."""
    stored_bytes: int
    """Bytes of the files, all columns together."""
    rows: int
    """Rows."""
    tokens: int | None
    """Tokens of the rows; None if the column holds no numbers."""
    row_groups: int
    """Row groups."""
    pages: int
    """Data pages of the column."""
    page_sizes: PageSizes | None
    """Sizes of the pages; None without pages."""
    checksum_share: float | None
    """Share of its pages with a checksum, by the headers of some."""
    storage: FileFacts | None
    """Facts from the footers; None without pyarrow, or if files are not Parquet."""
    lengths: DocumentLengths | None
    """Lengths of documents; None if the column holds neither tokens nor texts."""
    advice: list[str]
    """Advice, in sentences."""
    damage: list[Damage]
    """Parts of the data that cannot be read."""
    snapshot: str | None = None
    """Snapshot of the table, if it is one."""
    pruned_files: int = 0
    """Files of the table that are not opened, as it proves that no row of them is
    selected."""

    def _parts(self) -> Iterable[Part]:
        """Return what ``pagefeed inspect`` shows."""
        return parts_of_inspection(self)


def inspect(dataset: Dataset, *, whole: bool = False) -> Inspection:
    """Look at a dataset before training on it.

    For large datasets, it reads an even sample of footers and pages. ``damage`` lists
    what cannot be read, and the rest is inspected.

    Args:
        dataset: What :func:`pagefeed.parquet` returned.
        whole: Read the lengths of all documents, however many there are, and compare
            all bytes with the digests in ``_manifest.json``, where jobs left one.

    Raises:
        PagefeedError: If the dataset cannot be indexed.

    Example:
        >>> found = inspect(web)  # doctest: +SKIP
        >>> found.rows, found.lengths.quantiles["0.5"]  # doctest: +SKIP
        (400, 300)
    """
    check_dataset(dataset, "dataset")
    index, has_tokens = dataset.index, dataset.index.value_bytes > 0
    lengths, damage = measure_lengths(dataset, whole=whole)
    if whole:
        damage += map(damage_of, changed_files(index.storage, index.files))
    sample = evenly(len(index), MOST_PAGES)
    where = [index.locate(page) for page in sample.tolist()]
    sizes = np.array([page.compressed_size for page in where], dtype=np.int64)
    storage = _storage(dataset)
    table = index.recipe.table
    inspection = Inspection(
        column=dataset.column,
        files=len(index.files),
        stored_bytes=sum(index.storage.size(file) for file in index.files),
        rows=dataset.spans.num_rows,
        tokens=dataset.spans.num_values if has_tokens else None,
        row_groups=_num_runs(index.runs("row_group"), len(index)),
        pages=len(index),
        page_sizes=_page_sizes(dataset, sample, sizes) if len(sample) else None,
        checksum_share=checksum_share(index),
        storage=storage,
        lengths=lengths,
        advice=[],
        damage=_distinct(damage),
        snapshot=(table and table.snapshot) or None,
        pruned_files=0 if table is None else len(table.pruned),
    )
    inspection.advice.extend(_advice(inspection))
    small = small_files_of([dataset])
    inspection.advice.extend([] if small is None else [small])
    return inspection


def _storage(dataset: Dataset) -> FileFacts | None:
    if not isinstance(dataset, ParquetDataset):
        return None
    try:
        return file_facts(dataset.index)
    except MissingDependencyError:
        return None


def _page_sizes(dataset: Dataset, pages: Int64Array, sizes: Int64Array) -> PageSizes:
    index = dataset.index
    rows = index.first_rows(pages + 1) - index.first_rows(pages)
    values = index.first_values(pages + 1) - index.first_values(pages)
    return PageSizes(
        stored_bytes=_spread(sizes),
        rows=_spread(rows),
        tokens=_spread(values) if index.value_bytes else None,
    )


def _spread(values: Int64Array) -> tuple[int, int, int]:
    return int(values.min()), int(np.median(values)), int(values.max())


def _num_runs(runs: Int64Array | None, pages: int) -> int:
    return pages if runs is None else len(runs)


def _distinct(damage: list[Damage]) -> list[Damage]:
    """Return each damage once."""
    by_page = {(d.file, d.row_group, d.page): d for d in reversed(damage)}
    return list(reversed(by_page.values()))


def _advice(inspection: Inspection) -> list[str]:
    """Return advice about files and settings, the most useful first."""
    advice = []
    if inspection.damage:
        places = f"{len(inspection.damage)} place{'s' * (len(inspection.damage) > 1)}"
        advice.append(
            f"{places} cannot be read: write these files again, or skip their steps"
        )
    if inspection.storage is not None and inspection.storage.offset_index_share < 1:
        advice.append(
            "some files have no offset index, so token lists are read once to be "
            "indexed: keep the index with --cache-dir, or write files with "
            "write_page_index=True"
        )
    sizes = inspection.page_sizes
    if sizes is not None and sizes.stored_bytes[1] > LARGE_PAGE:
        advice.append(
            "pages are large: a shuffle holds many at once; smaller ones "
            "(data_page_size=65536 to 1048576) mix better in the same memory"
        )
    if inspection.checksum_share is not None and inspection.checksum_share < 1:
        advice.append(NO_CHECKSUMS.format(1 - inspection.checksum_share))
    return advice
