"""Keyed permutations of [0, n): any element on its own, forward and backward, O(1)."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagefeed import _core
from pagefeed.core._base import Int64Array, UInt64Array
from pagefeed.core.order.keys import KeyPart, derive_key, expand_key
from pagefeed.errors import InvalidArgumentError

NUM_ROUNDS = 8
SMALL = 64  # below, 8 rounds do not make all permutations equally likely
SMALL_ROUNDS = 16
Sizes: TypeAlias = int | Int64Array


class Permutation:
    """A keyed permutation of the integers [0, n).

    It is a Feistel network over a grid of about sqrt(n) x sqrt(n) cells, just large
    enough for n. A result in one of the few spare cells is mapped again until it is
    below n. It takes no memory, and every element costs the same.

    Args:
        n: Size of the domain, 0 to 2**63 - 1.
        seed: An int of any size, a str or bytes. Another seed gives another
            permutation.

    Raises:
        InvalidArgumentError: ``n`` is not an integer in that range.

    Example:
        >>> permutation = Permutation(10, seed=7)
        >>> sorted(permutation[range(10)].tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        >>> permutation.inverse(permutation[3])
        3
    """

    def __init__(self, n: int, seed: KeyPart) -> None:
        self._n = operator.index(n)
        if not 0 <= self._n < 1 << 63:
            raise InvalidArgumentError(
                f"a permutation has 0 to 2**63 - 1 elements, found n={n}"
            )
        self._family = PermutationFamily(
            derive_key(seed, "permutation"), num_rounds(self._n)
        )

    def __len__(self) -> int:
        """Return the size of the domain."""
        return self._n

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> int: ...
    @overload
    def __getitem__(self, index: ArrayLike) -> Int64Array: ...
    def __getitem__(self, index: ArrayLike) -> int | Int64Array:
        """Return the image of ``index``: an int for an int, else int64 of its shape.

        Raises:
            IndexError: An index is outside [0, n); negative ones do not count from the
                end.
            InvalidArgumentError: The indices are not integers.
        """
        return self._map(index, inverse=False)

    @overload
    def inverse(self, value: int | np.integer[Any]) -> int: ...
    @overload
    def inverse(self, value: ArrayLike) -> Int64Array: ...
    def inverse(self, value: ArrayLike) -> int | Int64Array:
        """Return the index whose image is ``value``: ``p.inverse(p[i]) == i``.

        Raises:
            IndexError: A value is outside [0, n).
            InvalidArgumentError: The values are not integers.
        """
        return self._map(value, inverse=True)

    def _map(self, index: ArrayLike, *, inverse: bool) -> int | Int64Array:
        array = checked_indices(index, self._n, "index")
        mapped = self._family.map(array.ravel(), self._n, inverse=inverse)
        mapped = mapped.reshape(array.shape)
        return int(mapped) if array.ndim == 0 else mapped

    def __repr__(self) -> str:
        """Return the domain; the key stays out of logs."""
        return f"Permutation(n={self._n})"


class PermutationFamily:
    """Permutations from one key, one for each size and tweak; all calls are vectorised.

    Sizes and tweaks may differ from element to element, so that the units of thousands
    of blocks are permuted inside their blocks in one call.
    """

    def __init__(self, key: bytes, rounds: int = NUM_ROUNDS) -> None:
        self._rounds = [int(round_key) for round_key in expand_key(key, rounds)]

    def map(
        self,
        x: Int64Array,
        n: Sizes,
        tweak: UInt64Array | None = None,
        *,
        inverse: bool = False,
    ) -> Int64Array:
        """Return the images of ``x`` in [0, n), or their inverses.

        Args:
            x: The numbers.
            n: Size of the domain; one, or as many as ``x``.
            tweak: Chooses the permutation: one, or as many as ``x``. By default there
                is one permutation per size.
            inverse: Return the numbers whose images are ``x``.
        """
        mapped = x.astype(np.uint64)
        size, sizes = (n, None) if isinstance(n, int) else (0, n.astype(np.uint64))
        _core.permute(
            mapped,
            size=size,
            sizes=sizes,
            tweaks=tweak,
            rounds=self._rounds,
            inverse=inverse,
        )
        return mapped.view(np.int64)


def num_rounds(n: int) -> int:
    """Rounds that make a permutation of n elements look random."""
    return SMALL_ROUNDS if n < SMALL else NUM_ROUNDS


def checked_indices(index: ArrayLike, size: int, what: str) -> Int64Array:
    """Take indices of any integer kind as int64, all within [0, size).

    Raises:
        IndexError: One is outside.
        InvalidArgumentError: They are not integers.
    """
    if isinstance(index, range):
        array: NDArray[Any] = np.arange(index.start, index.stop, index.step)
    else:
        array = np.asarray(index)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{what}: expected integers, found {array.dtype} in {index!r:.60}"
        )
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest >= size:
        outside = lowest if lowest < 0 else highest
        raise IndexError(
            f"{what} {outside} is outside [0, {size}); negative ones are not supported"
        )
    return array.astype(np.int64, copy=False)
