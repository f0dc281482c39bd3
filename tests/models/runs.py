"""State machines of whole runs, of all kinds of data."""

import atexit
import functools
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import initialize

import pagefeed as pf
from made.numbered import (
    first_tokens,
    interleaved,
    numbered_loader,
    rows_of,
    write_numbered,
)
from models.machines import PADDING, PARTS, SIZES, Fuse, RunMachine
from models.run_model import RunModel

WINDOW = pf.Shuffle(window=20)
"""Small data are shuffled in full otherwise."""
PLAIN: list[dict[str, Any]] = [{}, {"shuffle": WINDOW}, {"shuffle": "row"}]
"""Orders without balance."""
BALANCED: list[dict[str, Any]] = [
    {"balance": pf.Balance(attention=1, stretch=2)},
    {"balance": pf.Balance(attention=1, stretch=7, equal=0.5), "shuffle": WINDOW},
    {"balance": pf.Balance(attention=1, tokens=9, stretch=8, bucket=4)},
    {"balance": pf.Balance(attention=1, stretch=3, exact=True), "shuffle": WINDOW},
    {"balance": pf.Balance(attention=1, stretch=6, bucket=3, equal=0.1, exact=True)},
]
"""Orders with balance, of all settings that it has."""
ORDERS = [*PLAIN, *BALANCED]


@functools.cache
def folder() -> Path:
    """Data that all examples share; the folder is removed at the end."""
    path = tempfile.TemporaryDirectory(prefix="pagefeed-runs-")
    atexit.register(path.cleanup)
    return Path(path.name)


@functools.cache
def numbered() -> pf.dataset.ParquetDataset:
    (folder() / "alone").mkdir()
    write_numbered(folder() / "alone", num_rows=60)
    return pf.parquet(folder() / "alone", column="input_ids")


@functools.cache
def epoch_tokens(order: int, epoch: int, ranks: int) -> list[int]:
    """The first tokens of an epoch that so many ranks began, by all of them."""
    parts = []
    for rank in range(ranks):
        loader = numbered_loader(
            numbered(),
            batch_size=1,
            drop_last=False,
            rank=rank,
            world_size=ranks,
            **ORDERS[order],
        )
        loader.set_epoch(epoch)
        parts.append([first_tokens(batch) for batch in loader])
    return [token for token in interleaved(parts) if token != PADDING]


@functools.cache
def rows_of_file(path: str) -> list[list[int]]:
    rows: list[list[int]] = pq.read_table(path)["input_ids"].to_pylist()
    return rows


class EpochMachine(RunMachine):
    """One dataset, epoch after epoch."""

    orders: ClassVar[list[dict[str, Any]]] = PLAIN
    """Orders to choose from."""
    order = 0
    """The one that is chosen."""
    model_type: ClassVar[type[RunModel]] = RunModel
    """What the run should do."""

    @initialize(
        sizes=SIZES,
        epochs=st.sampled_from([1, 1, 2]),
        drop_last=st.booleans(),
        part=PARTS,
        chosen=st.integers(0, len(BALANCED) * len(PLAIN) - 1),
    )
    def start(
        self,
        sizes: tuple[int, int],
        epochs: int,
        drop_last: bool,
        part: pf.ContextParallel | None,
        chosen: int,
    ) -> None:
        self.part = part
        self.begin_with(sizes, epochs, drop_last, chosen)

    def begin_with(
        self, sizes: tuple[int, int], epochs: int, drop_last: bool, chosen: int
    ) -> None:
        """Begin with a batch size and a world size, in one of the orders."""
        batch_size, world_size = sizes
        self.choose_order(chosen)
        model = self.model_type(
            batch_size=batch_size,
            world_size=world_size,
            epoch_size=len(self.tokens(0)),
            epochs=epochs,
            drop_last=drop_last,
            balanced="balance" in ORDERS[self.order],
        )
        self.begin(model)

    def choose_order(self, number: int) -> None:
        self.order = ORDERS.index(self.orders[number % len(self.orders)])

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            numbered(),
            batch_size=batch_size,
            transform=Fuse(),
            context_parallel=self.part,
            **self.settings(rank, world_size),
        )

    def settings(self, rank: int, world_size: int) -> dict[str, Any]:
        """The settings that loaders of all kinds of batches share."""
        return {
            "rank": rank,
            "world_size": world_size,
            "epochs": self.model.epochs,
            "drop_last": self.model.drop_last,
            "padding": PADDING,
            **ORDERS[self.order],
        }

    def tokens(self, epoch: int, ranks: int = 1) -> list[int]:
        """What tells the sequences of an epoch apart, which so many ranks began."""
        return epoch_tokens(self.order, epoch, ranks)

    def token(self, position: int) -> int:
        epoch, place = divmod(position, len(self.tokens(0)))
        ranks = self.model.ranks_of(epoch) if self.model.balanced else 1
        return self.tokens(epoch, ranks)[place]

    def token_at(self, source: Any) -> int:
        return int(rows_of_file(source.file)[source.row][source.first_token])

    def check_place(self, state: dict[str, Any]) -> None:
        super().check_place(state)
        size = len(self.tokens(0))
        position = state["epoch"] * size + state["position"]
        if position not in self.model.skipped:
            assert position == self.model.place


class BalancedMachine(EpochMachine):
    """The same, each epoch balanced for the number of ranks that began it."""

    orders = BALANCED


# Budgets of tokens.


class Tag(Fuse):
    """Tells a batch of documents by its largest token."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        tokens = super().__call__(batch)["input_ids"]
        return {"input_ids": np.array([[tokens.max()]])}


def budget_loader(pad: Any = "longest", **options: Any) -> pf.Loader:
    """A loader of documents in batches of so many tokens."""
    documents = pf.Documents([], max_length=50, pad=pad)
    settings = {"sequences": documents, "batch_tokens": 150, "batch_size": None}
    return numbered_loader(numbered(), **settings, **options)


@functools.cache
def budget_tokens(order: int, epoch: int, ranks: int) -> list[int]:
    """The tags of an epoch that so many ranks began, by all of them."""
    parts = []
    for rank in range(ranks):
        loader = budget_loader(
            padding=PADDING,
            transform=Tag(),
            drop_last=False,
            rank=rank,
            world_size=ranks,
            **ORDERS[order],
        )
        loader.set_epoch(epoch)
        parts.append([first_tokens(batch) for batch in loader])
    return [token for token in interleaved(parts) if token != PADDING]


@functools.cache
def tag_of() -> dict[int, int]:
    """The tag of the batch that each document is in, by its first token."""
    batches = (batch["input_ids"] for batch in budget_loader(padding=PADDING))
    return {first: int(rows.max()) for rows in batches for first in rows[:, 0].tolist()}


class BudgetMachine(EpochMachine):
    """The same in batches of so many tokens: a sequence is a batch."""

    orders = ORDERS

    @initialize(
        world_size=st.sampled_from([1, 2, 3, 4]),
        epochs=st.sampled_from([1, 1, 2]),
        drop_last=st.booleans(),
        chosen=st.integers(0, len(ORDERS) - 1),
    )
    def start(self, world_size: int, epochs: int, drop_last: bool, chosen: int) -> None:
        self.begin_with((1, world_size), epochs, drop_last, chosen)

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        del batch_size
        super().restore(snapshot, 1, world_size)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        assert batch_size == 1
        return budget_loader(transform=Tag(), **self.settings(rank, world_size))

    def tokens(self, epoch: int, ranks: int = 1) -> list[int]:
        return budget_tokens(self.order, epoch, ranks)

    def token_at(self, source: Any) -> int:
        return tag_of()[super().token_at(source)]

    def check_place(self, state: dict[str, Any]) -> None:
        RunMachine.check_place(self, state)


# Infilled documents.

INFILL = pf.Infill(prefix=10**8, middle=10**8 + 1, suffix=10**8 + 2)


class FirstOwnToken(Fuse):
    """Leaves of each row the first token of its documents: those are numbered."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = super().__call__(batch)["input_ids"]
        own = (rows >= 0) & (rows < INFILL.prefix)
        first = rows[range(len(rows)), own.argmax(axis=1)]
        first[~own.any(axis=1)] = PADDING
        return {"input_ids": first[:, None]}


@functools.cache
def infilled() -> pf.dataset.ParquetDataset:
    return numbered().infill(INFILL)


@functools.cache
def infilled_tokens(order: int, epoch: int) -> list[int]:
    """What tells the sequences of an epoch apart, one by one on a single rank."""
    loader = numbered_loader(
        infilled(), batch_size=1, transform=FirstOwnToken(), **ORDERS[order]
    )
    loader.set_epoch(epoch)
    return rows_of(loader)


class InfilledMachine(EpochMachine):
    """The same with documents that are cut elsewhere in every epoch."""

    def tokens(self, epoch: int, ranks: int = 1) -> list[int]:
        assert ranks == 1
        return infilled_tokens(self.order, epoch)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            infilled(),
            batch_size=batch_size,
            transform=FirstOwnToken(),
            **self.settings(rank, world_size),
        )
