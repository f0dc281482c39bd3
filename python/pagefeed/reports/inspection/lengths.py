"""Lengths of documents, from all pages or an even sample of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, Work, require
from pagefeed.core.dataset import Dataset, PageIndex
from pagefeed.errors import MissingDependencyError, UnsupportedError
from pagefeed.reports.sampling import evenly
from pagefeed.reports.soundness import UNREADABLE, Damage, damage_of

MOST_SPANS = 512
QUANTILES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True, kw_only=True)
class DocumentLengths:
    """Lengths of documents."""

    unit: str
    """Unit of the lengths: ``"tokens"``, or ``"bytes"`` of texts."""
    rows_read: int
    """Rows that it is of."""
    is_sample: bool
    """Whether these are some rows only."""
    mean: float
    """Mean of a row."""
    quantiles: dict[str, int]
    """Quantiles of the length by share of the rows, such as ``"0.5"``."""
    histogram: tuple[tuple[int, int, int, int], ...]
    """Bins between powers of two: least and greatest length, rows, sum of lengths."""


def measure_lengths(
    dataset: Dataset, *, whole: bool = False
) -> tuple[DocumentLengths | None, list[Damage]]:
    """Return the lengths of documents, and the pages that cannot be read.

    Args:
        dataset: The dataset.
        whole: Read all pages, however many there are.

    Returns:
        None for a column of neither tokens nor texts.
    """
    spans = dataset.spans
    chosen = evenly(len(spans), len(spans) if whole else MOST_SPANS)
    pages, rows = spans.places(chosen)
    sizes = spans.first_rows(chosen + 1) - spans.first_rows(chosen)
    samples = list(zip(pages.tolist(), rows.tolist(), sizes.tolist(), strict=True))
    read_lengths: list[Int64Array] = []
    damage: list[Damage] = []
    unit = _unit(spans.index, samples)

    def read(sample: tuple[int, int, int]) -> Int64Array | Damage:
        page, row, size = sample
        try:
            if unit == "bytes":
                return _text_lengths(spans.index, page)[row : row + size]
            index = spans.index
            verify = index.recipe.verify_checksums
            offsets = index.row_offsets(page, verify_checksums=verify)
            return np.diff(offsets[row : row + size + 1])
        except UNREADABLE as error:
            return damage_of(error)

    if unit is None:
        return None, damage
    work = Work("lengths of documents", total=len(samples), unit="pages")
    for lengths in work.map(read, samples):
        if isinstance(lengths, Damage):
            damage.append(lengths)
        else:
            read_lengths.append(lengths)
    joined = np.concatenate([np.empty(0, dtype=np.int64), *read_lengths])
    return _lengths(joined, unit, is_sample=len(chosen) < len(spans)), damage


def _unit(index: PageIndex, samples: list[tuple[int, int, int]]) -> str | None:
    """Return the unit of the lengths, by the first row that can be read."""
    for page, _, _ in samples:
        try:
            index.row_offsets(page)
        except UnsupportedError:
            try:
                _text_lengths(index, page)
            except (UnsupportedError, MissingDependencyError):
                return None
            except UNREADABLE:
                continue
            return "bytes"
        except UNREADABLE:
            continue
        return "tokens"
    return None


def _text_lengths(index: PageIndex, page: int) -> Int64Array:
    if not isinstance(index, PageIndex):
        raise UnsupportedError("these rows are not texts")
    pyarrow: Any = require("pyarrow", extra="pyarrow", purpose="lengths of texts")
    compute: Any = require(
        "pyarrow.compute", extra="pyarrow", purpose="lengths of texts"
    )
    texts = pyarrow.array(index.read_page(page))
    try:
        lengths = compute.fill_null(compute.binary_length(texts), 0)
    except pyarrow.ArrowNotImplementedError as error:
        raise UnsupportedError(f"rows of {texts.type} have no length") from error
    return np.asarray(lengths, dtype=np.int64)


def _lengths(
    lengths: Int64Array, unit: str, *, is_sample: bool
) -> DocumentLengths | None:
    if not len(lengths):
        return None
    quantiles = np.quantile(lengths, QUANTILES, method="lower")
    bins = np.frexp(lengths)[1]  # 0 for empty rows, then [1, 1], [2, 3], [4, 7], ...
    histogram = []
    for exponent in range(int(bins.min()), int(bins.max()) + 1):
        inside = lengths[bins == exponent]
        least = 0 if exponent == 0 else 1 << (exponent - 1)
        most = max(0, (1 << exponent) - 1)
        histogram.append((least, most, len(inside), int(inside.sum())))
    return DocumentLengths(
        unit=unit,
        rows_read=len(lengths),
        is_sample=is_sample,
        mean=float(lengths.mean()),
        quantiles={
            str(share): int(value)
            for share, value in zip(QUANTILES, quantiles, strict=True)
        },
        histogram=tuple(histogram),
    )
