"""How much is planned at once, and how far ahead."""

from __future__ import annotations

from collections.abc import Iterator

from pagefeed.core._base import Int64Array

__all__ = ["LEAST_SEQUENCES", "MAX_HORIZON", "MOST_SEQUENCES", "in_pieces"]

MAX_HORIZON = 1 << 17
"""Sequences that are planned ahead at most where a page's sequences are anywhere."""

PIECE_STEPS = 16
"""Steps of a piece of a plan: the consumer of one step waits for a whole piece."""

LEAST_SEQUENCES = 1 << 9
"""Sequences of a piece at least, of each dataset: so that NumPy's calls cost little."""

MOST_SEQUENCES = 1 << 13
"""Sequences of a piece at most, where a step has many: planning takes a millisecond."""


def in_pieces(
    sequences: Int64Array, rows: int, planned_each: float, least: int, most: int
) -> Iterator[Int64Array]:
    """Yield the sequences of some steps in pieces that are soon planned.

    Args:
        sequences: int64 [steps * rows].
        rows: Sequences of a step.
        planned_each: Items that are planned for a sequence.
        least: Sequences of a piece at least.
        most: And at most, if these are a step or more.
    """
    size = min(max(PIECE_STEPS * rows, least), MOST_SEQUENCES, most)
    size = max(1, int(size / planned_each) // rows) * rows
    for begin in range(0, len(sequences), size):
        yield sequences[begin : begin + size]
