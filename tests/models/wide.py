"""What columns with several numbers a token hold, token by token, in plain Python."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import pagefeed as pf

FIRST_TOKEN = 10
"""Tokens of rows are numbers from here on, each once."""


class Wide(NamedTuple):
    """A column: how its files hold it, and what is asked of it."""

    kind: str
    """``fixed``, ``lists``, ``ragged`` or ``flat``."""
    dtype: str
    """Type of the numbers in the files, of NumPy, or ``bfloat16``."""
    k: int
    first: int
    shifted: bool
    scale: float | None
    padding: float
    of_next: bool | None = None

    @property
    def stored(self) -> str:
        """Type in the files."""
        return "uint16" if self.dtype == "bfloat16" else self.dtype

    @property
    def like(self) -> pf.Aligned:
        """What pagefeed is told."""
        is_said = self.kind != "fixed" or self.first > 0
        return pf.Aligned(
            width=self.k if is_said else None,
            padding=self.padding,
            count="count" if self.kind == "ragged" else None,
            shifted=self.shifted,
            first=self.first,
            dtype="bfloat16" if self.dtype == "bfloat16" else None,
            scale=self.scale,
            of_next=self.of_next,
        )

    def count(self, token: int) -> int:
        """Numbers of a token."""
        return token * 7 % (self.k + 1) if self.kind == "ragged" else self.k

    def numbers(self, token: int) -> list[Any]:
        """The numbers of a token in the files."""
        kind = np.dtype(self.stored)
        values = (token * 31 + 5 * np.arange(self.count(token))) % 101
        return [kind.type(value) for value in values.tolist()]

    def row(self, row: list[int] | None) -> Any:
        """A row of the column."""
        if row is None:
            return None
        lists = [self.numbers(token) for token in row[self.first :]]
        return [number for some in lists for number in some] if self.is_flat else lists

    @property
    def is_flat(self) -> bool:
        """Whether rows are lists of numbers."""
        return self.kind == "flat"

    def array(self, rows: list[list[int] | None]) -> pa.Array:
        """All rows."""
        number = pa.from_numpy_dtype(np.dtype(self.stored))
        inner = pa.list_(number, self.k) if self.kind == "fixed" else pa.list_(number)
        kind = pa.list_(number if self.is_flat else inner)
        return pa.array([self.row(row) for row in rows], kind)

    @property
    def is_of_next(self) -> bool:
        """Whether numbers at a token go where infilling puts another behind it."""
        if self.of_next is not None:
            return self.of_next
        return self.k > 1 and not (self.shifted or self.first)

    def expected(
        self,
        tokens: np.ndarray,
        starts: dict[int, int],
        lost: Collection[int] = frozenset(),
    ) -> Any:
        """The numbers of a batch whose places hold, or lead to, these tokens.

        Args:
            tokens: [batch, length]; below ``FIRST_TOKEN`` where there is none.
            starts: The first token of the row of each.
            lost: Tokens whose numbers are of another token than the one behind.

        Returns:
            The numbers, [batch, length] or with k behind, as they are delivered by
            NumPy, and how many there are.
        """
        kind = "float32" if self.scale else self.stored
        if self.dtype == "bfloat16":
            bits = np.array(self.padding, np.float32).view(np.uint32) >> 16
            padding = bits.astype(np.uint16)
        else:
            padding = np.array(self.padding, kind)
        found = np.full((*tokens.shape, self.k), padding)
        counts = np.zeros(tokens.shape, np.int32)
        for place, token in np.ndenumerate(tokens):
            number = int(token)
            if number < FIRST_TOKEN or number - starts[number] < self.first:
                continue
            if self.is_of_next and number in lost:
                continue
            own = np.array(self.numbers(number), self.stored)
            if self.scale:
                own = own.astype(np.float32) * np.float32(self.scale)
            found[place][: len(own)] = own
            counts[place] = len(own)
        return (found[..., 0] if self.k == 1 else found), counts
