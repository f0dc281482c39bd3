"""The settings of a loader, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pagefeed.batches.context_parallel import ContextParallel
from pagefeed.batches.decode import Decode
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import Batch, Format
from pagefeed.dataset import Dataset
from pagefeed.mixture import Mixture
from pagefeed.order import Balance, Shuffle
from pagefeed.sequences import SequenceSetting

__all__ = ["LoaderSettings"]

PLAN_SHARE = 8
"""Plans take at most this part of the memory."""

ORDER_SHARE = 16
"""What orders read ahead takes at most this part of it."""

MAX_ORDER_BYTES = 32 << 20
"""And no more than is of any use."""


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """The arguments of a loader, each checked and of its final type."""

    dataset: Dataset | Mixture
    sequences: SequenceSetting
    batch_size: int
    seed: int
    shuffle: Shuffle
    balance: Balance | None
    context_parallel: ContextParallel | None
    memory: int
    format: Format
    dtype: str
    padding: int
    vocab_size: int | None
    fields: Fields
    transform: Callable[[Batch], Any] | None
    decode: Decode | None
    pin_memory: bool
    epochs: int | None
    drop_last: bool
    rank: int
    world_size: int
    num_threads: int
    uses_recorded: bool = True
    """Whether ids are held against the vocabulary that files record."""

    def share(self, num_shares: int) -> LoaderSettings:
        """Return settings with a part of the memory and threads, without pinning."""
        return replace(
            self,
            pin_memory=False,
            memory=max(1, self.memory // num_shares),
            num_threads=max(1, self.num_threads // num_shares),
        )

    @property
    def plan_bytes(self) -> int:
        """Bytes that plans may take."""
        return self.memory // PLAN_SHARE

    @property
    def order_bytes(self) -> int:
        """Bytes that orders may read ahead."""
        return min(MAX_ORDER_BYTES, self.memory // ORDER_SHARE)

    @property
    def engine_bytes(self) -> int:
        """Bytes that the engine may hold."""
        return self.memory - self.order_bytes
