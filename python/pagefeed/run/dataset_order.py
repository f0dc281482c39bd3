"""The orders of a run: one for every epoch, with lanes and a window that fit."""

from __future__ import annotations

from functools import lru_cache

from pagefeed.dataset import BlockKind, Dataset
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


class DatasetOrder:
    """Makes the order of any epoch.

    Args:
        dataset: The dataset.
        fingerprint: What identifies it and how it is cut.
        index: The dataset, cut.
        seed: Seed of the run.
        name: Name of the dataset in a mixture.
        shuffle: The settings.
        world_size: Number of ranks, for which the lanes of later epochs are chosen.
        least_lanes: Fewest of them.
        memory: Bytes that an order may hold of what it reads ahead.
        balance: How ranks are balanced.
        costs: What sequences cost, if it is here that they are dealt.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        fingerprint: str,
        index: SequenceIndex,
        seed: KeyPart,
        shuffle: Shuffle,
        world_size: int,
        memory: int,
        least_lanes: int = 1,
        name: str = "",
        balance: Balance | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._dataset = dataset
        self._fingerprint = fingerprint
        self._index = index
        self._seed = seed
        self._name = name
        self._shuffle = shuffle
        self._most_held = memory // 8
        self._in_order = shuffle.in_order
        kind: BlockKind = "row_group" if shuffle.block == "row_group" else "page"
        self._blocks: Blocks = index.blocks(kind)
        self.num_lanes = choose_num_lanes(
            num_blocks=len(self._blocks),
            block_bytes=self._sequence_bytes
            * index.num_sequences
            / max(1, len(self._blocks)),
            world_size=world_size,
            least=least_lanes,
            file_order=self._in_order,
        )
        """Lanes of an epoch that such a number of ranks begins."""
        self._balance = balance
        self._costs = costs
        self.of = lru_cache(maxsize=2)(self._make)

    @property
    def _sequence_bytes(self) -> float:
        """Mean decoded size of the pages for a sequence, in the column's own type."""
        return self._all_bytes / self._index.num_sequences

    @property
    def _all_bytes(self) -> float:
        """Decoded size of all pages, in the column's own type."""
        spans = self._dataset.spans
        index = spans.index
        if index.value_bytes == 0:  # Text and the like: known from stored sizes only.
            rows_per_page = index.num_rows / max(1, len(index))
            return spans.num_pages * rows_per_page * index.mean_row_bytes
        return spans.page_values * index.value_bytes

    @property
    def is_scattered(self) -> bool:
        """Whether the sequences of a page are delivered anywhere in the epoch."""
        return self._shuffle.block == "row"

    @property
    def page_bytes(self) -> float:
        """Mean bytes of a decoded page, if its tokens fit 16 bits as most do."""
        spans = self._dataset.spans
        if spans.index.value_bytes == 0:
            return self._all_bytes / max(1, spans.num_pages)
        return 2 * spans.page_values / max(1, spans.num_pages)

    @property
    def stretch(self) -> int:
        """Sequences of a rank that are dealt by cost together, about."""
        return 0 if self._balance is None else self._balance.stretch

    def window(self, num_lanes: int) -> int:
        """Return the longest delay of a sequence in its lane, in sequences."""
        return self._shuffle.delay(
            num_units=self._index.num_sequences,
            num_blocks=len(self._blocks),
            unit_bytes=self._sequence_bytes,
            num_lanes=num_lanes,
        )

    def check_window(self) -> None:
        """Refuse a shuffle that is only a window, and one too short to mix anything.

        Raises:
            InvalidArgumentError: Saying how long it must be.
        """
        is_asked_for = self._shuffle.window not in (0, 1, "auto")
        if self._shuffle.block != "buffer" or not is_asked_for:
            return
        if self.window(self.num_lanes) < 2:
            raise InvalidArgumentError(
                f"{self._shuffle!r} mixes nothing, and every epoch would be the same: "
                f"{self.num_lanes} lanes share the window, and each gets less than two "
                f"of its sequences; give window={2 * self.num_lanes} or more, or "
                "another shuffle"
            )

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        """Return the order of an epoch with so many lanes; the last two are kept.

        Args:
            epoch: The epoch.
            num_lanes: Its lanes.
            ranks: Number of ranks that it balances.
        """
        order = self._unbalanced(epoch, num_lanes)
        if self._balance is None or self._costs is None or ranks is None:
            return order
        dealing = Dealing(
            order,
            balance=self._balance,
            key=derive_key(self._seed, epoch, self._name, "balance"),
            costs=self._costs,
            ranks=ranks,
            end=self._index.num_sequences,
        )
        return BalancedOrder(order, dealing)

    def _unbalanced(self, epoch: int, num_lanes: int) -> EpochOrder | SmallOrder:
        if self._in_order:
            # The lanes of a mixture say themselves which place of a file is next.
            num_lanes = 1
        if SmallOrder.is_enough(self._blocks, self._shuffle):
            return SmallOrder(
                self._blocks,
                seed=self._seed,
                epoch=epoch,
                name=self._name,
                shuffle=self._shuffle,
                num_lanes=num_lanes,
                window=self.window(num_lanes),
            )
        return EpochOrder(
            self._blocks,
            seed=self._seed,
            epoch=epoch,
            name=self._name,
            shuffle=self._shuffle,
            num_lanes=num_lanes,
            window=self.window(num_lanes),
            fingerprint=self._fingerprint,
            cache_dir=self._dataset.index.cache_dir,
            is_ahead=True,
            most_held=self._most_held,
            inside=self._balance is not None,
        )
