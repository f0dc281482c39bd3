"""Costs of sequences: tokens, squared lengths of documents, and images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pagefeed.balance.squares import stored_squares
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
        self._arrays = [_stored(of_dataset) for of_dataset in index.parts]
        self._beside: dict[str, list[CheckedArray | None]] = {}
        # Of documents their tokens are kept, of which all the rest follows.
        self._length = index.length
        self._is_documents = index.tokens_differ

    def tokens(self, sequences: Int64Array) -> Float64Array:
        """Return the tokens of sequences, including padding of a fixed size.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.minimum(self._values(sequences), self._length)
        return np.full(len(sequences), float(self._length))

    def squares(self, sequences: Int64Array) -> Float64Array:
        """Return the sum of squared document lengths in each sequence.

        Returns:
            float64 [sequences].
        """
        if self._is_documents:
            return np.square(self.tokens(sequences))
        return self._values(sequences)

    def beside(self, name: str, sequences: Int64Array) -> Float64Array:
        """Return what the rows of sequences bring along, by its name; 0 if nothing.

        Returns:
            float64 [sequences].

        Raises:
            InvalidArgumentError: If no dataset has such rows.
        """
        if name not in self._beside:
            sums = [of_dataset.stored_sums(name) for of_dataset in self._index.parts]
            if all(values is None for values in sums):
                raise InvalidArgumentError(
                    f"balance=Balance({name}=...) has nothing to weigh: no dataset has "
                    f"{name}, or the sequences cut rows; leave {name}= out"
                )
            self._beside[name] = sums
        return self._of(self._beside[name], sequences)

    def _values(self, sequences: Int64Array) -> Float64Array:
        return self._of(self._arrays, sequences)

    def _of(
        self, arrays: Sequence[CheckedArray | None], sequences: Int64Array
    ) -> Float64Array:
        """Return numbers of sequences; 0 for datasets that have none."""
        sequences = numbers_of(sequences)
        if len(arrays) == 1 and arrays[0] is not None:
            return arrays[0][sequences].astype(np.float64)
        dataset = self._index.dataset_of(sequences)
        values = np.zeros(len(sequences))
        for index in np.flatnonzero(np.bincount(dataset)).tolist():
            here, stored = dataset == index, arrays[index]
            if stored is not None:
                local = sequences[here] - self._index.first_sequence[index]
                values[here] = stored[local]
        return values


def _stored(index: SequenceIndex) -> CheckedArray:
    """Map the costs of the sequences of a dataset.

    Compute them if they are not stored.
    """
    stored = stored_squares(index)
    if stored is None:
        raise InvalidArgumentError(
            "balance= needs tokens, and these documents have columns only: give "
            "Documents a max_length, or leave balance out"
        )
    return stored
