"""Numbers of sequences and blocks, made once in a pass over all rows, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from pagefeed.caches.arrays import ArrayFolder, ArrayWriter, CheckedArray
from pagefeed.caches.derived import derived_arrays, derived_key
from pagefeed.core._base import Int64Array, Work, logger
from pagefeed.core.dataset import Spans, lengths_of_rows
from pagefeed.core.sequences import SequenceIndex

VERSION = 2
"""Version of stored numbers of sequences."""
COUNTS_VERSION = 2
"""Version of stored counts of sequences in blocks."""
SPANS_AT_ONCE = 256
SEQUENCES_AT_ONCE = 1 << 12
Float64Array = npt.NDArray[np.float64]

_HELD: WeakValueDictionary[str, CheckedArray] = WeakValueDictionary()
"""Arrays that runs of this process use, so that none is made twice."""


def stored_numbers(
    spans: Spans,
    make: Callable[[int], Float64Array],
    num_pieces: int,
    size: int,
    cut: str,
    borders: bytes,
    most: float = np.inf,
) -> CheckedArray:
    """Map a number for each sequence; compute them first if they are not stored.

    Args:
        spans: The rows that sequences are made of.
        make: Function that computes the numbers of a piece.
        num_pieces: Number of consecutive pieces.
        size: How many numbers the pieces have together.
        cut: Text that identifies these numbers among others of the same rows.
        borders: Where pieces begin, if the numbers depend on it.
        most: What no number exceeds; none is below 0.

    Returns:
        float32 [sequences], verified where they are read.
    """
    key = derived_key(spans.index, str(VERSION), spans.fingerprint, cut, borders)

    def write(writer: ArrayWriter) -> None:
        logger.info("the costs of sequences are made of %d rows, once", spans.num_rows)
        writer.append_bytes("costs", b"")  # There may be none.
        work = Work("costs of sequences", total=num_pieces, unit="pieces")
        for costs in work.map(make, range(num_pieces)):
            writer.append_bytes("costs", costs.astype(np.float32).tobytes())

    def is_sound(stored: ArrayFolder) -> bool:
        return stored.sizes == {"costs": -(-size // 2)}

    if (numbers := _HELD.get(key)) is not None:
        spans.index.check_files()
        return numbers
    stored = derived_arrays(spans.index, "costs", key, write, is_sound, lazily=True)
    _HELD[key] = numbers = stored.checked("costs", size, most)
    return numbers


class NumbersOfRows(NamedTuple):
    """A number for each row of the files, to be summed over sequences."""

    name: str
    """Name of the numbers, such as ``"images"``."""
    identity: str
    """Digest of the numbers."""
    of_rows: Callable[[Int64Array], Float64Array]
    """Function that returns the numbers of some rows of the files: float64 [rows]."""

    def sums(self, sequences: SequenceIndex) -> CheckedArray | None:
        """Map the sum over the rows of each sequence. Add up if it is not stored.

        Returns:
            float32 [sequences]; None if sequences cut rows anywhere.
        """
        key, spans = sequences.documents_key, sequences.spans
        size = sequences.num_sequences
        if key is None:
            return None

        def add_up(piece: int) -> Float64Array:
            begin = piece * SEQUENCES_AT_ONCE
            count = min(SEQUENCES_AT_ONCE, size - begin)
            rows, which = sequences.documents_of(np.arange(begin, begin + count))
            of_rows = self.of_rows(spans.rows_of_index(rows))
            return np.bincount(which, of_rows, count).astype(np.float64)

        num_pieces = -(-size // SEQUENCES_AT_ONCE)
        cut, borders = key
        identity = f"{self.name} {self.identity} {cut}"
        return stored_numbers(spans, add_up, num_pieces, size, identity, borders)


def stored_counts(
    spans: Spans,
    settings: str,
    first_span: Int64Array,
    count: Callable[[int], int | tuple[int, ...]],
    most: Int64Array,
) -> Int64Array:
    """Count the sequences of every block, by a thread per CPU.

    With a cache folder of the index the counts are stored there, and all processes of
    the machine map them. Otherwise every process makes its own.

    Args:
        spans: The rows.
        settings: Everything that the counts depend on besides the rows and their
            blocks.
        first_span: First span of each block, and the number of spans.
        count: Counts the sequences of a block; reads its pages. It may return several
            numbers.
        most: What the counts do not exceed: int64 [blocks] or [blocks, numbers].

    Returns:
        int64, of the shape of ``most``.
    """
    borders = np.ascontiguousarray(first_span).tobytes()
    parts = (str(COUNTS_VERSION), spans.fingerprint, settings, borders)
    key = derived_key(spans.index, *parts)

    def write(writer: ArrayWriter) -> None:
        writer.append("counts", [])
        num_blocks = len(first_span) - 1
        logger.info("the sequences of %d blocks are counted, once", num_blocks)
        work = Work("packed sequences", total=num_blocks, unit="blocks")
        for counts in work.map(count, range(num_blocks)):
            writer.append("counts", np.atleast_1d(counts))

    def is_sound(stored: ArrayFolder) -> bool:
        counts = stored["counts"]
        are_many = stored.sizes == {"counts": most.size}
        return are_many and bool(((counts >= 0) & (counts <= most.ravel())).all())

    stored = derived_arrays(spans.index, "packed", key, write, is_sound)
    return stored["counts"].reshape(most.shape)


def document_lengths(spans: Spans) -> CheckedArray:
    """Map the number of tokens in each row: float32 [rows]. Count if not stored."""
    num_pieces = -(-len(spans) // SPANS_AT_ONCE)
    return stored_numbers(
        spans,
        lambda piece: _of_rows(spans, piece),
        num_pieces,
        spans.num_rows,
        "Documents",
        b"",
        most=spans.index.num_values,
    )


def _of_rows(spans: Spans, piece: int) -> Float64Array:
    """Number of tokens in each row of some spans."""
    stop = min((piece + 1) * SPANS_AT_ONCE, len(spans))
    return lengths_of_rows(spans, piece * SPANS_AT_ONCE, stop).astype(np.float32)
