"""Context parallelism: every rank of a group gets a part of each sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    Int64Array,
    check_choice,
    check_positive,
    check_whole,
    joined_ranges,
)
from pagefeed.core.batches import Batch
from pagefeed.core.sequences import Cut
from pagefeed.errors import InvalidArgumentError

__all__ = ["ContextParallel"]

LAYOUTS = ("zigzag", "contiguous")
OF_SEQUENCES = ("doc_lens", "lengths")
"""Fields about whole sequences, which are equal on all ranks of a group."""


@dataclass(frozen=True)
class ContextParallel:
    """The part of each sequence for one rank of a context-parallel group.

    All ranks of a group have the same data-parallel rank, and so the same batches. Each
    rank gets its part of every field with one value per token: ``input_ids`` [batch,
    length / size], labels, positions, masks and aligned columns. Labels and positions
    are computed on the whole sequence before it is cut. Fields such as ``cu_seqlens``
    still describe whole sequences.

    With ``Packed(multiple_of=2 * size)`` a rank gets its part of each document, as
    TransformerEngine expects for its format ``thd``. ``cu_seqlens`` then counts the
    tokens of documents without padding, and ``cu_seqlens_padded`` counts them with
    padding.

    Args:
        rank: Rank in the group.
        size: Ranks of the group.
        layout: ``"zigzag"`` cuts a sequence into ``2 * size`` chunks and gives rank i
            the chunks i and ``2 * size - 1 - i``, so that all ranks compute equally
            much causal attention. ``"contiguous"`` cuts it into ``size`` chunks.

    Raises:
        InvalidArgumentError: If the rank is not in the group, or the layout unknown.

    Example:
        >>> ContextParallel(0, 2).columns(8).tolist()
        [0, 1, 6, 7]
        >>> ContextParallel(1, 2, "contiguous").columns(8).tolist()
        [4, 5, 6, 7]
    """

    rank: int
    size: int
    layout: Literal["zigzag", "contiguous"] = "zigzag"

    def __post_init__(self) -> None:
        size = check_positive(self.size, "size")
        rank = check_whole(self.rank, "rank", least=0, most=size - 1)
        check_choice(self.layout, LAYOUTS, "layout")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "rank", rank)

    @classmethod
    def parse(cls, value: object) -> ContextParallel | None:
        """Return a :class:`ContextParallel` unchanged, and None for None.

        Raises:
            InvalidArgumentError: If it is something else.
        """
        if value is None or isinstance(value, cls):
            return value
        raise InvalidArgumentError(
            f"context_parallel={value!r:.60} must be a ContextParallel(rank, size)"
        )

    @classmethod
    def from_mesh(cls, mesh: Any, layout: Any = "zigzag") -> ContextParallel:
        """Return the setting for a one-dimensional device mesh, such as ``mesh["cp"]``.

        Raises:
            InvalidArgumentError: If the mesh does not have exactly one dimension.
        """
        if not hasattr(mesh, "get_local_rank") or mesh.ndim != 1:
            raise InvalidArgumentError(
                f"mesh={mesh!r:.60} must be a device mesh of one dimension: "
                'mesh["cp"] of one of several'
            )
        return cls(mesh.get_local_rank(), mesh.size(), layout)

    @property
    def chunks(self) -> int:
        """Chunks of a sequence: its length is a multiple of their number."""
        return 2 * self.size if self.layout == "zigzag" else self.size

    def check_length(self, length: int) -> None:
        """Raise an error if sequences of this length cannot be cut.

        Raises:
            InvalidArgumentError: If the length is not a multiple of the chunks.
        """
        length = check_whole(length, "length", least=0)
        if length % self.chunks:
            raise InvalidArgumentError(
                f"{self!r} cuts sequences into {self.chunks} chunks, and {length} "
                f"tokens are not a multiple of that: give sequences of "
                f"{length // self.chunks * self.chunks or self.chunks} tokens"
            )

    def check(self, sequences: Cut, length: int) -> None:
        """Raise an error if sequences differ in length or cannot be cut.

        Raises:
            InvalidArgumentError: If so; the message says which cut to give.
        """
        if not sequences.has_one_length:
            raise InvalidArgumentError(
                f"{self!r} cuts sequences of one length, and those of {sequences!r} "
                "differ: give pad='max_length'"
            )
        self.check_length(length)
        multiple_of = sequences.multiple_of
        if multiple_of > 1 and multiple_of % self.chunks:
            raise InvalidArgumentError(
                f"{self!r} cuts each document into {self.chunks} chunks: give Packed a "
                f"multiple_of that is one of {self.chunks}, or none to cut sequences"
            )

    def columns(self, length: int) -> Int64Array:
        """Return which tokens of a sequence are this rank's: int64 [length / size].

        Raises:
            InvalidArgumentError: If the length is not a multiple of the chunks.
        """
        self.check_length(length)
        return self.places(np.array([0, length]))

    def places(self, borders: npt.ArrayLike) -> Int64Array:
        """Return which tokens of joined sequences belong to this rank.

        Args:
            borders: First token of each sequence, then the number of all tokens.

        Returns:
            int64 [tokens / size].

        Raises:
            InvalidArgumentError: If a length is not a multiple of the number of chunks,
                or the borders are not whole numbers in ascending order.

        Example:
            >>> ContextParallel(0, 2).places([0, 4, 12]).tolist()
            [0, 3, 4, 5, 10, 11]
        """
        begin = _whole_numbers(borders)
        lengths = np.diff(begin)
        if begin[:1].sum() < 0 or lengths.min(initial=0) < 0:
            raise InvalidArgumentError(
                f"borders={borders!r:.60} must be a row of whole numbers that do not "
                "fall: the first token of each sequence, and the number of tokens"
            )
        odd = lengths[lengths % self.chunks > 0]
        if len(odd):
            self.check_length(int(odd[0]))
        chunks = [self.rank]
        if self.layout == "zigzag":
            chunks.append(self.chunks - 1 - self.rank)
        size = (lengths // self.chunks)[:, None]
        first = begin[:-1, None] + size * np.array(chunks)
        return joined_ranges(first.ravel(), (first + size).ravel())

    def part(
        self, batch: Batch, length: int, borders: npt.ArrayLike | None = None
    ) -> Batch:
        """Return a batch with this rank's part of each field with a value per token.

        Args:
            batch: The whole batch of arrays.
            length: Tokens of a row.
            borders: Where each sequence to cut begins in the flattened batch, then the
                end of the last. By default every row is a sequence.
        """
        columns = self.columns(length) if borders is None else self.places(borders)

        def cut(name: str, field: Any) -> Any:
            if name in OF_SEQUENCES or not isinstance(field, np.ndarray):
                return field
            if field.ndim < 2 or field.shape[1] != length:
                return field
            if borders is None:
                return field.take(columns, axis=1)
            # As many for every row.
            rows, _, *width = field.shape
            return field.reshape(-1, *width)[columns].reshape(rows, -1, *width)

        return {name: cut(name, field) for name, field in batch.items()}


def _whole_numbers(values: npt.ArrayLike) -> Int64Array:
    """Return a row of whole numbers as int64; -1 alone for something else."""
    try:
        array = np.asarray(values)
    except ValueError:  # Rows of unlike length.
        return np.array([-1])
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        return np.array([-1])
    return array.astype(np.int64)
