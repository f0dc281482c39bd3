"""What sequences cost a model: their tokens, and the squared lengths of documents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import CheckedArray, Int64Array
from pagefeed.core.sequences import JoinedIndex, SequenceIndex, numbers_of
from pagefeed.errors import InvalidArgumentError

__all__ = ["SequenceCosts"]

Float64Array = npt.NDArray[np.float64]


class SequenceCosts:
    """Tokens of sequences, and sums of the squared lengths of their documents.

    A number of 4 bytes for each sequence is kept beside the index. The first process of
    a machine makes them, in a pass over the lengths of all rows.

    Args:
        index: The sequences.

    Raises:
        InvalidArgumentError: If sequences have no documents, or no tokens.
    """

    def __init__(self, index: JoinedIndex) -> None:
        self._index = index
        self._parts = [_stored(part) for part in index.parts]
        # Of documents their tokens are kept, of which all the rest follows.
        self._length = index.length
        self._is_documents = index.tokens_differ

    def tokens(self, sequences: Int64Array) -> Float64Array:
        """Return the tokens of sequences; padding counts, where it has a fixed place.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.minimum(self._known(sequences), self._length)
        return np.full(len(sequences), float(self._length))

    def squares(self, sequences: Int64Array) -> Float64Array:
        """Return the sum of squared lengths of each sequence's documents.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.square(self.tokens(sequences))
        return self._known(sequences)

    def _known(self, sequences: Int64Array) -> Float64Array:
        sequences = numbers_of(sequences)
        if len(self._parts) == 1:
            return self._parts[0][sequences].astype(np.float64)
        part = self._index.dataset_of(sequences)
        known = np.empty(len(sequences))
        for number in np.flatnonzero(np.bincount(part)).tolist():
            here = part == number
            local = sequences[here] - self._index.first_sequence[number]
            known[here] = self._parts[number][local]
        return known


def _stored(index: SequenceIndex) -> CheckedArray:
    """Map what is known of the sequences of a dataset, or make it first."""
    stored = index.stored_squares()
    if stored is None:
        raise InvalidArgumentError(
            "balance= needs tokens, and these documents have columns only: give "
            "Documents a max_length, or leave balance out"
        )
    return stored
