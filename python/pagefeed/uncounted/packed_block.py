"""The documents of a block, packed when they are encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.sequences import Packed, pack_lengths
from pagefeed.uncounted.blocks import EncodedBlock

__all__ = ["PackedBlock"]


class PackedBlock:
    """The sequences that the documents of a block pack into.

    Args:
        block: The documents.
        cut: How they are packed.
    """

    def __init__(self, block: EncodedBlock, cut: Packed) -> None:
        self._block, self._layout = block, cut.layout
        lengths = np.diff(block.starts, append=block.size)
        self._packing = pack_lengths(lengths, cut.length, cut.layout)
        last = self._packing.sequence[-1:]
        self.size = int(last[0]) + 1 if len(last) else 0
        """Number of sequences."""

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds."""
        return self._block.num_bytes + 5 * self._packing.sequence.nbytes

    def sequence(
        self, index: int
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], Int64Array]:
        """Return a sequence: its tokens without padding, and where documents begin.

        Returns:
            uint16 or uint32 [tokens]; rising int64.
        """
        packing, tokens = self._packing, self._block.tokens
        here = slice(*np.searchsorted(packing.sequence, [index, index + 1]))
        first = packing.first_token[here]
        end = first + packing.num_tokens[here]
        document = self._block.starts[packing.row[here]]
        pieces = []
        for begin, stop, again in zip(
            (document + self._own(first)).tolist(),
            (document + self._own(end)).tolist(),
            self._repeats_bos(first).tolist(),
            strict=True,
        ):
            if again:
                pieces.append(np.array([self._layout.bos], dtype=tokens.dtype))
            pieces.append(tokens[begin:stop])
        return np.concatenate(pieces), packing.offset[here]

    def _own(self, tokens: Int64Array) -> Int64Array:
        """Return the token at each position, counted without repetitions."""
        if not self._layout.bos_every:
            return tokens
        own: Int64Array = self._layout.without_bos(tokens) + (tokens > 0)
        return own

    def _repeats_bos(self, first: Int64Array) -> npt.NDArray[np.bool_]:
        repeats: npt.NDArray[np.bool_] = (first > 0) & (self._layout.bos_every > 0)
        return repeats
