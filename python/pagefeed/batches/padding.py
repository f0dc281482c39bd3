"""Padding that nothing in a batch tells from tokens: a word about it."""

from __future__ import annotations

import warnings

from pagefeed.batches.fields import Fields
from pagefeed.errors import PaddingWarning
from pagefeed.run import Route
from pagefeed.sequences import AnyIndex

__all__ = ["PaddingWatch", "padding_share"]

TELLING = {"labels", "loss_mask", "attention_mask", "document_ids"}
"""Fields by which padding carries no loss, or is known."""

LEAST_SHARE = 0.001
"""Less is not worth a word: the last window of a large dataset."""


class PaddingWatch:
    """Warns, once, if a model would be trained on padding.

    Args:
        index: What the sequences are.
        fields: What a batch carries.
        tells_lengths: Whether it carries the lengths of its rows, too.
    """

    def __init__(self, index: AnyIndex, fields: Fields, *, tells_lengths: bool) -> None:
        self._index = index
        self._is_done = tells_lengths or bool(TELLING & set(fields.names))

    def look(self, route: Route, stacklevel: int) -> None:
        """Look at an iteration that begins."""
        if self._is_done:
            return
        self._is_done = True
        share = padding_share(self._index, route)
        if share < LEAST_SHARE:
            return
        warnings.warn(
            f"{share:.1%} of the tokens of an epoch are padding, and batches carry "
            "neither labels nor a mask that would tell: a loss over input_ids alone "
            "learns it. Ask for fields=('input_ids', 'labels'), 'attention_mask', "
            "'loss_mask' or 'document_ids'; or leave padding out (Windows with "
            "tail='drop' and join='dataset', drop_last=True)",
            PaddingWarning,
            stacklevel=stacklevel + 1,
        )


def padding_share(index: AnyIndex, route: Route) -> float:
    """Return the share of padding in the batches of an iteration, on all ranks.

    Args:
        index: What the sequences are.
        route: The iteration; of one that never ends, that of its sequences.
    """
    if not index.num_sequences or not index.length:
        return 0.0
    in_sequence = index.num_padding_tokens / (index.num_sequences * index.length)
    if route.end is None or route.drop_last or route.end <= route.start:
        return in_sequence
    sequences = route.end - route.start
    rows = -(-sequences // route.step_sequences) * route.step_sequences
    return 1 - (1 - in_sequence) * sequences / rows
