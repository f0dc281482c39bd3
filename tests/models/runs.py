"""State machines of whole runs, of all kinds of data."""

import atexit
import functools
import itertools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import pagefeed as pf
from made.numbered import (
    first_tokens,
    interleaved,
    numbered_loader,
    rows_of,
    write_numbered,
)
from models.machines import PADDING, SIZES, Fuse, RunMachine
from models.run_model import RunModel

BALANCED: dict[str, Any] = {
    "balance": pf.Balance(attention=1, stretch=2),
    "shuffle": "page",
}


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
def epoch_tokens(epoch: int) -> list[int]:
    """The first tokens of an epoch, one by one on a single rank."""
    loader = numbered_loader(numbered(), batch_size=1)
    loader.set_epoch(epoch)
    return rows_of(loader)


@functools.cache
def rows_of_file(path: str) -> list[list[int]]:
    rows: list[list[int]] = pq.read_table(path)["input_ids"].to_pylist()
    return rows


class EpochMachine(RunMachine):
    """One dataset, epoch after epoch."""

    tokens = staticmethod(epoch_tokens)
    """What tells the sequences of an epoch apart."""

    options: ClassVar[dict[str, Any]] = {}
    """Further settings of the loaders."""

    @initialize(sizes=SIZES, epochs=st.sampled_from([1, 1, 2]), drop_last=st.booleans())
    def start(self, sizes: tuple[int, int], epochs: int, drop_last: bool) -> None:
        batch_size, world_size = sizes
        model = RunModel(
            batch_size=batch_size,
            world_size=world_size,
            epoch_size=len(self.tokens(0)),
            epochs=epochs,
            drop_last=drop_last,
            balanced="balance" in self.options,
        )
        self.begin(model)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            numbered(),
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            epochs=self.model.epochs,
            drop_last=self.model.drop_last,
            padding=PADDING,
            transform=Fuse(),
            **self.options,
        )

    def token(self, position: int) -> int:
        epoch, place = divmod(position, len(self.tokens(0)))
        return self.tokens(epoch)[place]

    def token_at(self, source: Any) -> int:
        return int(rows_of_file(source.file)[source.row][source.first_token])

    def check_place(self, state: dict[str, Any]) -> None:
        super().check_place(state)
        size = len(self.tokens(0))
        position = state["epoch"] * size + state["position"]
        if position not in self.model.skipped:
            assert position == self.model.place


@functools.cache
def balanced_tokens(epoch: int, ranks: int) -> list[int]:
    """The first tokens of an epoch that so many ranks began, by all of them."""
    parts = []
    for rank in range(ranks):
        options: dict[str, Any] = {"rank": rank, "world_size": ranks, **BALANCED}
        loader = numbered_loader(numbered(), batch_size=1, drop_last=False, **options)
        loader.set_epoch(epoch)
        parts.append([first_tokens(batch) for batch in loader])
    return [token for token in interleaved(parts) if token != PADDING]


class BalancedMachine(EpochMachine):
    """The same, each epoch balanced for the number of ranks that began it."""

    options = BALANCED

    def token(self, position: int) -> int:
        epoch, place = divmod(position, len(epoch_tokens(0)))
        return balanced_tokens(epoch, self.model.ranks_of(epoch))[place]


# Budgets of tokens.


class Tag(Fuse):
    """Tells a batch of documents by its largest token."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        tokens = super().__call__(batch)["input_ids"]
        return {"input_ids": np.array([[tokens.max()]])}


def budget_loader(**options: Any) -> pf.Loader:
    documents = pf.Documents([], max_length=50)
    settings = {"sequences": documents, "batch_tokens": 150, "batch_size": None}
    return numbered_loader(numbered(), **settings, **options)


@functools.cache
def budget_tokens(epoch: int) -> list[int]:
    """The tags of an epoch, one by one on a single rank."""
    loader = budget_loader(padding=PADDING, transform=Tag())
    loader.set_epoch(epoch)
    return rows_of(loader)


@functools.cache
def tag_of() -> dict[int, int]:
    """The tag of the batch that each document is in, by its first token."""
    batches = (batch["input_ids"] for batch in budget_loader(padding=PADDING))
    return {first: int(rows.max()) for rows in batches for first in rows[:, 0].tolist()}


class BudgetMachine(EpochMachine):
    """The same in batches of so many tokens: a sequence is a batch."""

    @initialize(
        world_size=st.sampled_from([1, 2, 3, 4]),
        epochs=st.sampled_from([1, 1, 2]),
        drop_last=st.booleans(),
    )
    def start(self, world_size: int, epochs: int, drop_last: bool) -> None:
        model = RunModel(
            batch_size=1,
            world_size=world_size,
            epoch_size=len(budget_tokens(0)),
            epochs=epochs,
            drop_last=drop_last,
        )
        self.begin(model)

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        del batch_size
        super().restore(snapshot, 1, world_size)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        assert batch_size == 1
        return budget_loader(
            rank=rank,
            world_size=world_size,
            epochs=self.model.epochs,
            drop_last=self.model.drop_last,
            padding=PADDING,
            transform=Tag(),
        )

    def token(self, position: int) -> int:
        epoch, place = divmod(position, len(budget_tokens(0)))
        return budget_tokens(epoch)[place]

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
def infilled_tokens(epoch: int) -> list[int]:
    """What tells the sequences of an epoch apart, one by one on a single rank."""
    loader = numbered_loader(infilled(), batch_size=1, transform=FirstOwnToken())
    loader.set_epoch(epoch)
    return rows_of(loader)


class InfilledMachine(EpochMachine):
    """The same with documents that are cut elsewhere in every epoch."""

    tokens = staticmethod(infilled_tokens)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            infilled(),
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            epochs=self.model.epochs,
            drop_last=self.model.drop_last,
            padding=PADDING,
            transform=FirstOwnToken(),
        )


@functools.cache
def growing(num_files: int) -> pf.dataset.ParquetDataset:
    """Data of two files, or of three once they have grown."""
    path = folder() / "growing"
    if not path.exists():
        path.mkdir()
        write_numbered(path, num_files=3, num_rows=40)
    paths = [path / f"part-{number}.parquet" for number in range(num_files)]
    return pf.parquet(paths, column="input_ids")


@functools.cache
def growing_tokens(num_files: int, epoch: int) -> list[int]:
    """The first tokens of an epoch of so many files, one by one on a single rank."""
    loader = numbered_loader(growing(num_files), batch_size=1)
    loader.set_epoch(epoch)
    return rows_of(loader)


Grown = Literal["next-epoch"] | None


@dataclass
class GrowingModel(RunModel):
    """A run whose data grow: what remains of an epoch is that of before."""

    num_files: int = 2
    """Of the epoch that runs."""
    all_files: int = 2
    """Of the next."""

    def begin_again(self, epoch: int) -> None:
        self.num_files = self.all_files
        self.epoch_size = len(growing_tokens(self.num_files, 0))
        super().begin_again(epoch)


class GrowingMachine(EpochMachine):
    """One dataset that grows while a run is stopped."""

    model: GrowingModel

    @initialize(sizes=SIZES, epochs=st.just(1), drop_last=st.booleans())
    def start(self, sizes: tuple[int, int], epochs: int, drop_last: bool) -> None:
        batch_size, world_size = sizes
        model = GrowingModel(
            batch_size=batch_size,
            world_size=world_size,
            epoch_size=len(growing_tokens(2, 0)),
            epochs=epochs,
            drop_last=drop_last,
        )
        self.begin(model)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            growing(self.model.all_files),
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            drop_last=self.model.drop_last,
            padding=PADDING,
            transform=Fuse(),
        )

    def token(self, position: int) -> int:
        epoch, place = divmod(position, self.model.epoch_size or 1)
        return growing_tokens(self.model.num_files, epoch)[place]

    def check_place(self, state: dict[str, Any]) -> None:
        if self.ends_old:
            # The next epoch begins, as soon as something is asked for or later.
            assert {loader.epoch for loader in self.loaders} == {self.model.epoch}
        else:
            RunMachine.check_place(self, state)

    def skip(self, data: st.DataObject) -> None:
        """No rule here: what is skipped is counted in the data of before."""

    def share_the_rest(self, num_workers: int, data: st.DataObject) -> None:
        """Likewise."""

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        all_files = self.model.all_files
        super().restore(snapshot, batch_size, world_size)
        self.set_files(all_files)

    def set_files(self, all_files: int) -> None:
        """What the next epoch is of, or this one if nothing of it was consumed."""
        model = self.model
        model.all_files = all_files
        if model.num_files < all_files and model.is_finished:
            model.begin_again(model.next_epoch)
        elif model.num_files < all_files and model.place == model.start:
            model.begin_again(model.first_epoch)

    @precondition(lambda self: not self.ends_old)
    @rule(data=st.data())
    def locate(self, data: st.DataObject) -> None:
        super().locate(data)

    @precondition(lambda self: not self.ends_old)
    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        super().seek(data)

    @invariant()
    def check_length(self) -> None:
        if not self.ends_old:
            super().check_length()

    @property
    def ends_old(self) -> bool:
        """Whether the loader stands where the data of before end."""
        model = self.model
        return model.is_finished and model.num_files < model.all_files

    @precondition(lambda self: self.model.all_files == 2)
    @rule(sizes=SIZES)
    def grow(self, sizes: tuple[int, int]) -> None:
        """Stop, and go on with more data, at another size."""
        state = json.dumps(self.loaders[0].state_dict())
        self.restore(self.snapshot(), *sizes)
        self.set_files(3)
        self.loaders = self.make_all()
        self.fresh = self.running = None
        self.load_all(state)

    def load_all(self, state: str) -> None:
        grown: Grown = "next-epoch" if self.model.all_files > 2 else None
        for loader in self.loaders:
            loader.load_state_dict(json.loads(state), grown=grown)


# Mixtures.

APART = 10**6
ROWS = {"code": 40, "math": 7, "web": 60}
WEIGHTS = {"code": 0.3, "math": 0.1, "web": 0.6}
MAX_STEPS = 12
FAR = 40


@functools.cache
def datasets() -> dict[str, pf.dataset.ParquetDataset]:
    for number, (name, rows) in enumerate(ROWS.items()):
        (folder() / name).mkdir()
        write_numbered(folder() / name, num_rows=rows, first_token=number * APART)
    return {name: pf.parquet(folder() / name, column="input_ids") for name in ROWS}


def mixture_loader(max_steps: int, **options: Any) -> pf.Loader:
    parts = {name: (datasets()[name], weight) for name, weight in WEIGHTS.items()}
    mixed = pf.mix(parts, unit="sequences", max_steps=max_steps)
    return numbered_loader(mixed, padding=PADDING, **options)


class Timeline:
    """What a mixture delivers at each position, with all the weights set so far.

    Taken from a single rank that goes through it one by one, and held against the
    rules: each lane takes from each dataset the next of the same lane, and no count of
    a dataset is further off its weight than one sequence a lane.
    """

    def __init__(
        self, weights: list[tuple[int, dict[str, float]]], state: dict[str, Any]
    ) -> None:
        self.weights = weights
        self.num_lanes = state["num_lanes"]
        self.tokens: list[int] = []
        self._loader = mixture_loader(FAR, batch_size=16)
        start = {"position": 0, "step": 0, "skipped": [], "sizes": None}
        self._loader.load_state_dict(state | start)
        self._iterator = iter(self._loader)

    def token(self, position: int) -> int:
        while len(self.tokens) <= position:
            self.tokens += first_tokens(next(self._iterator))
        return self.tokens[position]

    def changed(self, position: int, weights: dict[str, float], state: Any) -> Any:
        """The timeline with other weights from a position on."""
        kept = [one for one in self.weights if one[0] < position]
        later = Timeline([*kept, (position, weights)], state)
        assert [later.token(p) for p in range(position)] == [
            self.token(p) for p in range(position)
        ]
        return later

    def check(self) -> None:
        names, size = list(ROWS), self.num_lanes
        expected = dict.fromkeys(names, 0.0)
        taken = {name: [0] * size for name in names}
        seen: dict[tuple[str, int], set[int]] = {}
        weights = self.weights[0][1]
        for position, token in enumerate(self.tokens):
            weights = dict(self.weights).get(position, weights)
            total = sum(weights.values())
            for name, weight in weights.items():
                expected[name] += weight / total
            name, lane = names[token // APART], position % size
            local = taken[name][lane] * size + lane
            taken[name][lane] += 1
            epoch = seen.setdefault((name, local // sequences_of(name)), set())
            assert token not in epoch
            epoch.add(token)
            for each, count in taken.items():
                assert abs(sum(count) - expected[each]) <= size


@functools.cache
def sequences_of(name: str) -> int:
    return numbered_loader(datasets()[name]).num_sequences


class MixtureMachine(RunMachine):
    """A mixture, whose weights change at any step."""

    @initialize(sizes=SIZES)
    def start(self, sizes: tuple[int, int]) -> None:
        batch_size, world_size = sizes
        self.begin(
            RunModel(batch_size=batch_size, world_size=world_size, max_steps=MAX_STEPS)
        )
        self.set_timeline()

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return mixture_loader(
            MAX_STEPS,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            transform=Fuse(),
            fields=("input_ids", "dataset_ids"),
        )

    def check_batch(self, batch: Any) -> None:
        """Tokens tell the dataset, too."""
        tokens = batch["input_ids"][:, 0]
        datasets = np.where(tokens == PADDING, -1, tokens // APART)
        assert batch["dataset_ids"].dtype == np.int32
        assert batch["dataset_ids"].tolist() == datasets.tolist()

    def set_timeline(self) -> None:
        """The timeline of an epoch, with the weights it begins with."""
        self.timeline_epoch = self.model.first_epoch
        fresh = mixture_loader(FAR)
        fresh.set_epoch(self.timeline_epoch)
        self.timeline = Timeline([(0, WEIGHTS)], fresh.state_dict())

    def begin_epoch(self) -> None:
        self.set_timeline()

    def token(self, position: int) -> int:
        if self.model.first_epoch != self.timeline_epoch:
            self.set_timeline()
        return self.timeline.token(position)

    def token_at(self, source: Any) -> int:
        return int(rows_of_file(source.file)[source.row][source.first_token])

    def snapshot(self) -> Any:
        return super().snapshot(), self.timeline, self.timeline_epoch

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        model, self.timeline, self.timeline_epoch = snapshot
        super().restore(model, batch_size, world_size)

    @precondition(lambda self: not self.model.is_finished)
    @rule(weights=st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
    def set_weights(self, weights: list[int]) -> None:
        self.token(0)
        new = {name: float(one) for name, one in zip(ROWS, weights, strict=True)}
        # It may stand before steps that are skipped.
        place = self.loaders[0].state_dict()["position"]
        assert self.model.skipped.issuperset(range(place, self.model.place))
        for loader in self.loaders:
            loader.set_weights(new)
        self.model._move(self.model.position)
        state = self.loaders[0].state_dict()
        self.timeline = self.timeline.changed(place, new, state)

    @rule(sizes=SIZES)
    def replay(self, sizes: tuple[int, int]) -> None:
        """The run again, from its begin and at other sizes, under the same weights."""
        batch_size, world_size = sizes
        end = min(self.model.place, MAX_STEPS * batch_size * world_size)
        kept = [p for p in range(end) if p not in self.model.skipped]
        expected = [self.token(p) for p in kept]
        state, found = self.loaders[0].state_dict(), []
        for rank in range(world_size):
            loader = self.make(rank, world_size, batch_size)
            loader.load_state_dict(state, replay=True)
            steps = -(-len(expected) // (batch_size * world_size))
            batches = itertools.islice(loader, steps)
            found.append([first_tokens(batch) for batch in batches])
        tokens = interleaved(found)
        assert tokens[: len(expected)] == expected[: len(tokens)]

    @precondition(lambda self: self.model.running or not self.model.is_finished)
    @precondition(lambda self: self.model.running or self.model.place > 0)
    @rule()
    def count(self) -> None:
        """The counters tell what was delivered, without what is skipped."""
        self.token(0)
        gone = [p for p in range(self.model.place) if p not in self.model.skipped]
        tokens = [self.token(p) for p in gone]
        for loader in self.loaders:
            stats = loader.stats()
            for number, name in enumerate(ROWS):
                count = sum(token // APART == number for token in tokens)
                assert stats[f"{name}/sequences"] == count

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "timeline"):
            self.timeline.check()


class CoarseMachine(MixtureMachine):
    """The same where later changes are coarse, and one text in the state."""

    def begin(self, model: RunModel) -> None:
        self.patches = [
            patch(f"pagefeed.mixture.{module}.PRECISE_CHANGES", 2)
            for module in ("schedule", "packed_changes")
        ]
        for each in self.patches:
            each.start()
        super().begin(model)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            for each in getattr(self, "patches", []):
                each.stop()
