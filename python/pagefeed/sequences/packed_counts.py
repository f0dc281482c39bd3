"""How many sequences a block packs into, where only the lengths of its rows tell."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable

import numpy as np

from pagefeed._base import ArrayWriter, Int64Array, Work, in_order, stored_arrays
from pagefeed.dataset import Spans

__all__ = ["stored_counts"]

VERSION = 1
_logger = logging.getLogger("pagefeed")


def stored_counts(
    spans: Spans, settings: str, first_span: Int64Array, count: Callable[[int], int]
) -> Int64Array:
    """Count the sequences of every block, by a thread per CPU.

    With a cache folder of the index the counts lie there, and all processes of the
    machine map them; without, every process makes its own.

    Args:
        spans: The rows.
        settings: All that the counts depend on beside the rows and their blocks.
        first_span: First span of each block, and the number of spans.
        count: Counts the sequences of a block; reads its pages.

    Returns:
        int64 [blocks].
    """
    key = _key(spans, settings, first_span)

    def write(writer: ArrayWriter) -> None:
        writer.append("counts", [])
        num_blocks = len(first_span) - 1
        _logger.info("the sequences of %d blocks are counted, once", num_blocks)
        with Work("packed sequences", total=num_blocks, unit="blocks") as work:
            for found in in_order(count, range(num_blocks)):
                writer.append("counts", [found])
                work.advance()
        # What was read may not be what was indexed.
        spans.index.core.check_files()

    spans.index.core.check_files()
    name = f"packed-{key}"
    return stored_arrays(spans.index.cache_dir, name, key, write)["counts"]


def _key(spans: Spans, settings: str, first_span: Int64Array) -> str:
    """What tells these counts from all others: of which contents, cut how."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(VERSION), spans.fingerprint, settings):
        digest.update(f"{len(part)} {part}".encode())
    digest.update(np.ascontiguousarray(first_span).tobytes())
    # A file may be rewritten with rows of other lengths under an equal footer.
    for file in spans.index.files:
        state = os.stat(file)
        digest.update(f"{state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()
