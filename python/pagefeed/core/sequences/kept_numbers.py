"""A number for each sequence, made once in a pass over all rows, and kept."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import ArrayWriter, CheckedArray, Work, logger
from pagefeed.core.dataset import Spans, derived_arrays, derived_key, lengths_of_rows

__all__ = ["SPANS_AT_ONCE", "document_lengths", "stored_numbers"]

VERSION = 1
SPANS_AT_ONCE = 256
Float64Array = npt.NDArray[np.float64]

_HELD: WeakValueDictionary[str, CheckedArray] = WeakValueDictionary()
"""Those that some run of this process holds: it makes none twice."""


def stored_numbers(
    spans: Spans,
    make: Callable[[int], Float64Array],
    num_pieces: int,
    cut: str,
    borders: bytes,
) -> CheckedArray:
    """Map a number for each sequence, or make them first.

    Args:
        spans: The rows they are made of.
        make: Makes those of a piece.
        num_pieces: Number of the pieces, which follow each other.
        cut: What tells these numbers from others of the rows.
        borders: Where pieces begin, if only that tells.

    Returns:
        float32 [sequences], verified where they are read.
    """
    key = derived_key(spans.index, str(VERSION), spans.fingerprint, cut, borders)

    def write(writer: ArrayWriter) -> None:
        logger.info("the costs of sequences are made of %d rows, once", spans.num_rows)
        number = 0
        writer.append_bytes("costs", b"")  # There may be none.
        work = Work("costs of sequences", total=num_pieces, unit="pieces")
        for found in work.each(make, range(num_pieces)):
            writer.append_bytes("costs", found.astype(np.float32).tobytes())
            number += len(found)
        writer.append("number", [number])

    if (held := _HELD.get(key)) is not None:
        spans.index.check_files()
        return held
    stored = derived_arrays(spans.index, "costs", key, write, lazily=True)
    _HELD[key] = made = stored.checked("costs", int(stored["number"][0]))
    return made


def document_lengths(spans: Spans) -> CheckedArray:
    """Map the tokens of each row, or count them first: float32 [rows]."""
    num_pieces = -(-len(spans) // SPANS_AT_ONCE)
    return stored_numbers(
        spans, lambda piece: _of_rows(spans, piece), num_pieces, "Documents", b""
    )


def _of_rows(spans: Spans, piece: int) -> Float64Array:
    """Tokens of the rows of some spans."""
    stop = min((piece + 1) * SPANS_AT_ONCE, len(spans))
    return lengths_of_rows(spans, piece * SPANS_AT_ONCE, stop).astype(np.float32)
