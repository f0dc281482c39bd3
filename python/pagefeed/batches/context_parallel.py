"""Context parallelism: every rank of a group gets its part of each sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pagefeed._base import Int64Array, check_choice, check_positive, check_whole
from pagefeed.batches.formats import Batch
from pagefeed.errors import InvalidArgumentError
from pagefeed.sequences import Documents, SequenceSetting

__all__ = ["ContextParallel"]

LAYOUTS = ("zigzag", "contiguous")
OF_SEQUENCES = ("cu_seqlens", "max_seqlen", "doc_lens", "max_doc_lens", "lengths")
"""What tells of whole sequences, and is the same for the whole group."""


@dataclass(frozen=True)
class ContextParallel:
    """The part of each sequence that a rank of a context-parallel group gets.

    All ranks of a group have the same data-parallel rank, and so the same batches; each
    is given its part of every field with a value for every token: ``input_ids`` [batch,
    length / size], labels, positions, masks and aligned columns. Labels and positions
    are those of the whole sequence. ``cu_seqlens`` and the like stay those of whole
    sequences.

    Args:
        rank: Rank in the group.
        size: Ranks of the group.
        layout: ``"zigzag"`` cuts a sequence into ``2 * size`` chunks and gives rank i
            the chunks i and ``2 * size - 1 - i``, so that all have as much causal
            attention to do; ``"contiguous"`` cuts it into ``size``.

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
        """Take a :class:`ContextParallel`, or None for none.

        Raises:
            InvalidArgumentError: If it is something else.
        """
        if value is None or isinstance(value, cls):
            return value
        raise InvalidArgumentError(
            f"context_parallel={value!r:.60} must be a ContextParallel(rank, size)"
        )

    @classmethod
    def from_mesh(cls, mesh: Any, layout: Any = "zigzag") -> ContextParallel:  # noqa: ANN401 - torch may be absent
        """Return that of a one-dimensional device mesh, such as ``mesh["cp"]``."""
        return cls(mesh.get_local_rank(), mesh.size(), layout)

    @property
    def chunks(self) -> int:
        """Chunks of a sequence: its length is a multiple of their number."""
        return 2 * self.size if self.layout == "zigzag" else self.size

    def check_length(self, length: int) -> None:
        """Refuse sequences that cannot be cut.

        Raises:
            InvalidArgumentError: If the length is no multiple of the chunks.
        """
        if length % self.chunks:
            raise InvalidArgumentError(
                f"{self!r} cuts sequences into {self.chunks} chunks, and {length} "
                f"tokens are no multiple of them: give sequences of "
                f"{length // self.chunks * self.chunks or self.chunks} tokens"
            )

    def check(self, sequences: SequenceSetting, length: int) -> None:
        """Refuse sequences that are not of one length, or cannot be cut.

        Raises:
            InvalidArgumentError: Saying what to give.
        """
        if isinstance(sequences, Documents) and sequences.pad != "max_length":
            raise InvalidArgumentError(
                f"{self!r} cuts sequences of one length, and {sequences!r} pads to the "
                "longest of a batch: give Documents pad='max_length'"
            )
        self.check_length(length)

    def columns(self, length: int) -> Int64Array:
        """Return which tokens of a sequence are this rank's: int64 [length / size]."""
        self.check_length(length)
        chunks: Int64Array = np.arange(length).reshape(self.chunks, -1)
        if self.layout == "contiguous":
            of_rank: Int64Array = chunks[self.rank]
            return of_rank
        return np.concatenate([chunks[self.rank], chunks[self.chunks - 1 - self.rank]])

    def part(self, batch: Batch, length: int) -> Batch:
        """Return a batch with this rank's part of all that has a value for each token.

        Args:
            batch: The whole batch: arrays or tensors.
            length: Tokens of a sequence.
        """
        columns = self.columns(length)

        def cut(name: str, field: Any) -> Any:  # noqa: ANN401 - an array or a tensor
            is_whole = name in OF_SEQUENCES or getattr(field, "ndim", 0) < 2
            if is_whole or field.shape[1] != length:
                return field
            if isinstance(field, np.ndarray):
                return field.take(columns, axis=1)
            return field[:, columns]

        return {name: cut(name, field) for name, field in batch.items()}
