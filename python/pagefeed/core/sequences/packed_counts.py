"""Numbers of sequences of blocks, where they depend on the lengths of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pagefeed.core._base import ArrayWriter, Int64Array, Work, logger
from pagefeed.core.dataset import Spans, derived_arrays, derived_key

__all__ = ["stored_counts"]

VERSION = 2


def stored_counts(
    spans: Spans,
    settings: str,
    first_span: Int64Array,
    count: Callable[[int], int | tuple[int, ...]],
) -> Int64Array:
    """Count the sequences of every block, by a thread per CPU.

    With a cache folder of the index the counts lie there, and all processes of the
    machine map them; without, every process makes its own.

    Args:
        spans: The rows.
        settings: All that the counts depend on beside the rows and their blocks.
        first_span: First span of each block, and the number of spans.
        count: Counts the sequences of a block; reads its pages. It may return several
            numbers.

    Returns:
        int64 [blocks * numbers].
    """
    borders = np.ascontiguousarray(first_span).tobytes()
    parts = (str(VERSION), spans.fingerprint, settings, borders)
    key = derived_key(spans.index, *parts)

    def write(writer: ArrayWriter) -> None:
        writer.append("counts", [])
        num_blocks = len(first_span) - 1
        logger.info("the sequences of %d blocks are counted, once", num_blocks)
        work = Work("packed sequences", total=num_blocks, unit="blocks")
        for found in work.each(count, range(num_blocks)):
            writer.append("counts", np.atleast_1d(found))

    return derived_arrays(spans.index, "packed", key, write)["counts"]
