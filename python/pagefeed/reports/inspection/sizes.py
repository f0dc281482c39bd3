"""Sizes of files, and the cost of many small ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pagefeed.core._base import format_bytes
from pagefeed.core.dataset import Dataset

SMALL_FILE, MANY_FILES = 16 << 20, 16
"""Files below this median size are small, from this number on."""


def file_sizes_of(datasets: Iterable[Dataset]) -> tuple[str, str | None]:
    """Return the sizes of files in words, and advice if they are small.

    Args:
        datasets: Datasets whose files are looked at together.
    """
    indexes = [dataset.index for dataset in datasets]
    sizes = [index.storage.size(file) for index in indexes for file in index.files]
    if not sizes:
        return "no files", None
    median, pages = int(np.median(sizes)), sum(map(len, indexes))
    rows = sum(index.num_rows for index in indexes) / max(1, pages)
    what = (
        f"{len(sizes):,} file{'s' * (len(sizes) > 1)} of {format_bytes(median)} "
        f"(median), {rows:,.0f} rows a page"
    )
    if len(sizes) < MANY_FILES or median >= SMALL_FILE:
        return what, None
    fewer = -(-sum(sizes) // (512 << 20))
    return what, (
        f"{what}: each is opened and indexed by itself, by two requests in a bucket, "
        "and no read spans two of them; `pagefeed convert --to parquet --shard-size "
        f"512MiB` makes {fewer:,} of them (docs/explanation/file-sizes.md)"
    )
