"""The orders of a run: one for every epoch, with lanes and a window that fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pagefeed.core._base import lazy
from pagefeed.core.dataset import wide_bytes
from pagefeed.core.order import (
    NODE_BYTES,
    EpochOrder,
    KeyPart,
    Ordered,
    Shuffle,
    choose_num_lanes,
    derive_key,
)
from pagefeed.core.run.route import MAX_HORIZON
from pagefeed.core.run.run import Run
from pagefeed.core.run.state import LoaderState
from pagefeed.core.sequences import Blocks
from pagefeed.errors import InvalidArgumentError


@dataclass(kw_only=True, eq=False)
class DatasetOrder:
    """Makes the orders of the epochs of a dataset."""

    run: Run
    """The run."""
    dataset_number: int
    """Number of the dataset in it."""
    seed: KeyPart
    """Seed of its orders."""
    name: str = ""
    """Name of the dataset in a mixture."""
    least_lanes: int = 1
    """Fewest lanes."""
    auto_bytes: int = NODE_BYTES
    """Decoded size up to which the default is to shuffle the whole epoch."""

    def __post_init__(self) -> None:
        self.dataset = self.run.datasets[self.dataset_number]
        """The dataset."""
        self.index = self.run.indexes[self.dataset_number]
        """The sequences of the dataset."""
        blocks = self.index.blocks(self.run.shuffle.unit)
        # Row groups only if the window can hold one.
        fits = self._bytes_of(blocks) <= NODE_BYTES
        self._blocks = blocks if fits else self.index.blocks("page")
        nodes = self.run.shuffle.nodes
        self.num_lanes = choose_num_lanes(
            num_blocks=len(self._blocks),
            block_bytes=self._bytes_of(self._blocks),
            world_size=math.lcm(
                self.run.world_size, nodes.world_size if nodes is not None else 1
            ),
            least=self.least_lanes,
            file_order=self.run.shuffle.in_order,
        )
        """Lanes of an epoch, which depend on the ranks it begins with."""
        self.of = lru_cache(maxsize=2)(self._make)
        """Returns the order of an epoch, by number of lanes and of ranks."""

    def _bytes_of(self, blocks: Blocks) -> float:
        """Mean decoded size of a block."""
        return self._sequence_bytes * self.index.num_sequences / max(1, len(blocks))

    @lazy
    def shuffle(self) -> Shuffle:
        """Settings of shuffling; the whole epoch if the window can hold it."""
        return self.run.shuffle.of_epoch(
            num_units=self.index.num_sequences,
            unit_bytes=self._sequence_bytes,
            auto_bytes=self.auto_bytes,
        )

    @property
    def _sequence_bytes(self) -> float:
        """Mean decoded size of the pages for a sequence, in the column's own type."""
        value_bytes = self.dataset.index.value_bytes
        return self._decoded_bytes(value_bytes) / self.index.num_sequences

    @property
    def page_bytes(self) -> float:
        """Mean bytes of a decoded page, if its tokens fit 16 bits as most do."""
        return self._decoded_bytes(2) / max(1, self.dataset.spans.num_pages)

    def _decoded_bytes(self, value_bytes: int) -> float:
        """Decoded size of all pages if a token takes ``value_bytes``."""
        spans, index = self.dataset.spans, self.dataset.index
        if index.value_bytes == 0:  # Text and the like: known from stored sizes only.
            rows_per_page = index.num_rows / max(1, len(index))
            return spans.num_pages * rows_per_page * index.mean_row_bytes
        # Other columns count only if they have several numbers a token.
        return spans.page_values * (value_bytes + wide_bytes(self.dataset))

    def ahead(self, state: LoaderState, memory: int, num_ranks: int) -> int:
        """Return how many sequences to plan, so that few pages are read twice.

        With shuffled blocks, plans reach from the first to the last use of a page. With
        ``"row"`` the uses of a page are anywhere in the epoch. Then plans reach as far
        as allowed if all pages fit into ``memory`` bytes. Otherwise they have twice as
        many sequences as pages fit.
        """
        if not self.shuffle.is_exact:
            return 2 * self.reach(state)
        fitting = int(memory / max(1.0, self.page_bytes))
        most = MAX_HORIZON if fitting >= self.dataset.spans.num_pages else 2 * fitting
        most = min(most, MAX_HORIZON) * num_ranks
        return min(most, self.index.num_sequences)

    def reach(self, state: LoaderState) -> int:
        """Return how far the epoch of a state moves sequences, over all lanes."""
        reach = self.mixed(state.num_lanes)
        if self.run.balance is not None:
            reach += self.run.balance.stretch * (state.ranks or 0)
        return reach

    def mixed(self, num_lanes: int) -> int:
        """Return how many sequences are mixed with each other, in all lanes."""
        if self.shuffle.is_exact:
            return self.index.num_sequences
        return self.window(num_lanes) * num_lanes

    def window(self, num_lanes: int) -> int:
        """Return the longest delay of a sequence in its lane, in sequences."""
        return self.shuffle.delay(
            num_units=self.index.num_sequences,
            num_blocks=len(self._blocks),
            unit_bytes=self._sequence_bytes,
            num_lanes=num_lanes,
        )

    def check_window(self) -> None:
        """Raise an error for a shuffle ``"buffer"`` whose window is too short to mix.

        Raises:
            InvalidArgumentError: If it is; the message says how long the window must
                be.
        """
        mixes_alone = self.shuffle.delayed and not self.shuffle.permuted
        if not mixes_alone or self.shuffle.window == "auto":
            return
        if self.window(self.num_lanes) < 2:
            raise InvalidArgumentError(
                f"{self.shuffle!r} mixes nothing, and every epoch would be the same: "
                f"{self.num_lanes} lanes share the window, and each gets less than two "
                f"of its sequences; give window={2 * self.num_lanes} or more, or "
                "another shuffle"
            )

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        order, balance = self._unbalanced(epoch, num_lanes), self.run.balance
        if balance is None or ranks is None:
            return order
        first = self.run.index.first_sequence[self.dataset_number]
        costs = self.run.costs
        return balance.order(
            order,
            key=derive_key(self.seed, epoch, self.name, "balance"),
            costs=lambda sequences: costs(first + sequences),
            ranks=ranks,
            divisions=self.index.num_sequences,
        )

    def _unbalanced(self, epoch: int, num_lanes: int) -> Ordered:
        if not self.shuffle.delayed:
            # A full shuffle needs no lanes. In file order, the lanes of the mixture
            # decide which place of a file is next.
            num_lanes = 1

        def order(blocks: Blocks, seed: KeyPart, lanes: int) -> EpochOrder:
            return EpochOrder(
                blocks,
                seed=seed,
                epoch=epoch,
                name=self.name,
                shuffle=self.shuffle,
                num_lanes=lanes,
                window=self.window(num_lanes),
                most_held=self.run.memory // len(self.run.datasets) // 8,
            )

        if (nodes := self.run.shuffle.nodes) is None:
            return order(self._blocks, self.seed, num_lanes)
        lanes = max(1, num_lanes // nodes.count)
        return nodes.order(
            self._blocks,
            # In a mixture an epoch may end inside a step, so units are counted on.
            epoch * self.index.num_sequences if self.name else 0,
            lambda part, node: order(part, derive_key(self.seed, "node", node), lanes),
        )
