"""Sizes of files, and the cost of many small ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pagefeed.core._base import format_bytes
from pagefeed.core.dataset import Dataset

SMALL_FILE, MANY_FILES = 16 << 20, 16
"""Files below this median size are small, from this number on."""


def small_files_of(datasets: Iterable[Dataset]) -> str | None:
    """Return what many small files cost, and the verb that joins them; else None.

    Args:
        datasets: Datasets whose files are looked at together.
    """
    indexes = [dataset.index for dataset in datasets]
    sizes = [index.storage.size(file) for index in indexes for file in index.files]
    if len(sizes) < MANY_FILES or np.median(sizes) >= SMALL_FILE:
        return None
    median, pages = int(np.median(sizes)), sum(map(len, indexes))
    rows = sum(index.num_rows for index in indexes) / max(1, pages)
    fewer = -(-sum(sizes) // (512 << 20))
    return (
        f"{len(sizes):,} files of {format_bytes(median)} (median), {rows:,.0f} rows a "
        "page: each is opened and indexed by itself, by two requests in a bucket, and "
        "no read spans two of them; `pagefeed convert --to parquet --shard-size "
        f"512MiB` makes {fewer:,} of them (docs/explanation/file-sizes.md)"
    )
