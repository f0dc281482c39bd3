"""Sequences as a run delivers them: their numbers, and epochs for infilled documents.

Infilled documents are rearranged again in every epoch. So a cursor says for which epoch
each sequence is read, and the engine cuts the documents of its segments accordingly.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, UInt32Array

NO_SEQUENCE = -1
"""Marks a row of padding."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of a run, in the order of delivery.

    Example:
        >>> found = Sequences(np.array([7, 8, 9]), np.array([0, 0, 1], dtype="u4"))
        >>> found[1:].numbers.tolist(), found[1:].epochs.tolist()
        ([8, 9], [0, 1])
    """

    numbers: Int64Array
    """Numbers among the sequences of all datasets; ``NO_SEQUENCE`` for padding."""
    epochs: UInt32Array | None = None
    """Epoch for which each is read, of the same shape. None if no document is infilled.
    """

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return len(self.numbers)

    def __getitem__(self, which: Any) -> Sequences:
        """Return some sequences, indexed as a NumPy array is."""
        numbers, epochs = self.numbers, self.epochs
        return Sequences(numbers[which], None if epochs is None else epochs[which])

    def reshape(self, *shape: int) -> Sequences:
        """Return the sequences in another shape."""
        numbers, epochs = self.numbers.reshape(shape), self.epochs
        return Sequences(numbers, None if epochs is None else epochs.reshape(shape))

    @classmethod
    def placed(
        cls, shape: int | tuple[int, ...], parts: Iterable[tuple[Any, Sequences]]
    ) -> Sequences:
        """Return an array of padding into which parts are written at their indices."""
        numbers, epochs = np.full(shape, NO_SEQUENCE), None
        for which, part in parts:
            numbers[which] = part.numbers
            if part.epochs is not None:
                epochs = np.zeros(shape, np.uint32) if epochs is None else epochs
                epochs[which] = part.epochs
        return cls(numbers, epochs)


def joined(parts: Sequence[Sequences]) -> Sequences:
    """Return several groups of sequences, one after another."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    slots = map(slice, ends[:-1], ends[1:])
    return Sequences.placed(ends[-1], zip(slots, parts, strict=True))


def gathered(parts: Iterable[Sequences | None]) -> Generator[None, None, Sequences]:
    """Join the sequences among ``parts``; pass each None on, a pause for other work."""
    found = []
    for part in parts:
        if part is not None:
            found.append(part)
        yield
    return joined(found)
