"""The orders of a run: one for every epoch, with lanes and a window that fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagefeed.dataset import BlockKind, Dataset, wide_bytes
from pagefeed.errors import InvalidArgumentError
from pagefeed.order import (
    Balance,
    BalancedOrder,
    Costs,
    Dealing,
    EpochOrder,
    KeyPart,
    Ordered,
    Shuffle,
    SmallOrder,
    choose_num_lanes,
    derive_key,
)
from pagefeed.sequences import Blocks, SequenceIndex

__all__ = ["DatasetOrder"]


@dataclass(kw_only=True, eq=False)
class DatasetOrder:
    """Makes the order of any epoch of a dataset."""

    dataset: Dataset
    """The dataset."""
    index: SequenceIndex
    """Its sequences."""
    fingerprint: str
    """What identifies the dataset and how it is cut."""
    seed: KeyPart
    """Seed of the run."""
    shuffle: Shuffle
    """How it is shuffled."""
    world_size: int
    """Number of ranks, by which the lanes of later epochs are chosen."""
    memory: int
    """Bytes that an order may hold of what it reads ahead."""
    least_lanes: int = 1
    """Fewest lanes."""
    name: str = ""
    """Name of the dataset in a mixture."""
    balance: Balance | None = None
    """How ranks are balanced."""
    costs: Costs | None = None
    """What sequences cost, if this order balances ranks."""

    def __post_init__(self) -> None:
        kind: BlockKind = "row_group" if self.shuffle.block == "row_group" else "page"
        self._blocks: Blocks = self.index.blocks(kind)
        num_blocks, num_sequences = len(self._blocks), self.index.num_sequences
        self.num_lanes = choose_num_lanes(
            num_blocks=num_blocks,
            block_bytes=self._sequence_bytes * num_sequences / max(1, num_blocks),
            world_size=self.world_size,
            least=self.least_lanes,
            file_order=self.shuffle.in_order,
        )
        """Lanes of an epoch that begins on so many ranks."""
        self.of = lru_cache(maxsize=2)(self._make)
        """Returns the order of an epoch with so many lanes, for so many ranks."""

    @property
    def _sequence_bytes(self) -> float:
        """Mean decoded size of the pages for a sequence, in the column's own type."""
        return self._all_bytes / self.index.num_sequences

    @property
    def _all_bytes(self) -> float:
        """Decoded size of all pages, in the column's own type."""
        spans = self.dataset.spans
        index = spans.index
        if index.value_bytes == 0:  # Text and the like: known from stored sizes only.
            rows_per_page = index.num_rows / max(1, len(index))
            return spans.num_pages * rows_per_page * index.mean_row_bytes
        return spans.page_values * (index.value_bytes + self._wide_bytes)

    @property
    def _wide_bytes(self) -> int:
        """Bytes of columns with several numbers a token; lanes count no others."""
        return wide_bytes(self.dataset)

    @property
    def is_scattered(self) -> bool:
        """Whether the sequences of a page are delivered anywhere in the epoch."""
        return self.shuffle.block == "row"

    @property
    def page_bytes(self) -> float:
        """Mean bytes of a decoded page, if its tokens fit 16 bits as most do."""
        spans = self.dataset.spans
        if spans.index.value_bytes == 0:
            return self._all_bytes / max(1, spans.num_pages)
        values = spans.page_values * (2 + self._wide_bytes)
        return values / max(1, spans.num_pages)

    @property
    def stretch(self) -> int:
        """Sequences of a rank that are dealt by cost together, about."""
        return 0 if self.balance is None else self.balance.stretch

    def window(self, num_lanes: int) -> int:
        """Return the longest delay of a sequence in its lane, in sequences."""
        return self.shuffle.delay(
            num_units=self.index.num_sequences,
            num_blocks=len(self._blocks),
            unit_bytes=self._sequence_bytes,
            num_lanes=num_lanes,
        )

    def check_window(self) -> None:
        """Refuse a shuffle that is only a window, and one too short to mix anything.

        Raises:
            InvalidArgumentError: Saying how long it must be.
        """
        is_asked_for = self.shuffle.window not in (0, 1, "auto")
        if self.shuffle.block != "buffer" or not is_asked_for:
            return
        if self.window(self.num_lanes) < 2:
            raise InvalidArgumentError(
                f"{self.shuffle!r} mixes nothing, and every epoch would be the same: "
                f"{self.num_lanes} lanes share the window, and each gets less than two "
                f"of its sequences; give window={2 * self.num_lanes} or more, or "
                "another shuffle"
            )

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        order = self._unbalanced(epoch, num_lanes)
        if self.balance is None or self.costs is None or ranks is None:
            return order
        dealing = Dealing(
            order,
            balance=self.balance,
            key=derive_key(self.seed, epoch, self.name, "balance"),
            costs=self.costs,
            ranks=ranks,
            end=self.index.num_sequences,
        )
        return BalancedOrder(order, dealing)

    def _unbalanced(self, epoch: int, num_lanes: int) -> Ordered:
        if self.shuffle.in_order:
            # The lanes of a mixture say themselves which place of a file is next.
            num_lanes = 1
        settings: dict[str, Any] = {
            "seed": self.seed,
            "epoch": epoch,
            "name": self.name,
            "shuffle": self.shuffle,
            "num_lanes": num_lanes,
            "window": self.window(num_lanes),
        }
        if SmallOrder.is_enough(self._blocks, self.shuffle):
            return SmallOrder(self._blocks, **settings)
        return EpochOrder(
            self._blocks,
            **settings,
            fingerprint=self.fingerprint,
            cache_dir=self.dataset.index.cache_dir,
            is_ahead=True,
            most_held=self.memory // 8,
            inside=self.balance is not None,
        )
