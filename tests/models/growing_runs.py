"""A state machine of runs whose data grow, and lose documents, in between."""

import functools
import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered
from models.machines import PADDING, SIZES, Fuse
from models.run_model import RunModel
from models.runs import EpochMachine, folder, rows_of_file
from pagefeed.errors import StateMismatchError

APART = 10**6
ROWS = (50, 30, 2, 25)
"""Rows of each file, in the order in which they are added."""
Layout = Literal["list", "folder"]
"""Files come as they were added, or in the order of their names."""
Window = tuple[int, ...]
Erasure = tuple[int, tuple[int, ...]]
"""A file, and some of its rows."""


@functools.cache
def files() -> list[Path]:
    """All files, as they were added: each has a folder, whose name sorts it anew."""
    found = []
    for number, (name, rows) in enumerate(zip("mczq", ROWS, strict=True)):
        path = folder() / "growing" / name
        path.mkdir(parents=True)
        write_numbered(path, num_files=1, num_rows=rows, first_token=number * APART)
        found.append(path / "part-0.parquet")
        os.utime(found[-1], ns=(number * 10**9, number * 10**9))
    return found


@functools.lru_cache(maxsize=64)
def dataset(
    layout: Layout, first: int, end: int, *erasures: Erasure
) -> pf.dataset.ParquetDataset:
    if erasures:
        *before, (number, rows) = erasures
        return dataset(layout, first, end, *before).erase(
            rows={str(files()[number]): rows}
        )
    paths = files()[first:end]
    return pf.parquet(paths if layout == "list" else sorted(paths), column="input_ids")


def alone(layout: Layout, first: int, end: int) -> pf.Loader:
    """A loader for a single rank."""
    return numbered_loader(dataset(layout, first, end), drop_last=False, batch_size=16)


@functools.cache
def num_sequences(num_files: int) -> int:
    tokens = sum(
        len(row) for path in files()[:num_files] for row in rows_of_file(str(path))
    )
    return -(-tokens // LENGTH)


@functools.cache
def windows(layout: Layout, num_files: int, epoch: int) -> list[Window]:
    """The sequences of an epoch, one by one on a single rank."""
    loader = alone(layout, 0, num_files)
    loader.set_epoch(epoch)
    rows = (tuple(row) for batch in loader for row in batch["input_ids"].tolist())
    return [row for row in rows if row[0] != PADDING]


@functools.cache
def rows_by_token(number: int) -> list[int]:
    """The first token of each row of a file, and the last one's end."""
    lengths = [len(row) for row in rows_of_file(str(files()[number]))]
    return list(itertools.accumulate(lengths, initial=number * APART))


@dataclass
class GrowingModel(RunModel):
    """A run whose data grow: what remains of an epoch is of the data of before."""

    data: int = 1
    """Files of the epoch that runs."""
    num_files: int = 1
    """All files there are."""

    @property
    def is_behind(self) -> bool:
        """Whether files were added that the epoch does not have."""
        return self.data < self.num_files

    def begin_again(self, epoch: int) -> None:
        self.data = self.num_files
        self.epoch_size = num_sequences(self.data)
        super().begin_again(epoch)

    def _restart(self) -> None:
        super()._restart()
        self.take_all()

    def seek(self, number: int) -> None:
        super().seek(number)
        self.take_all()

    def skip(self, numbers: set[int]) -> bool:
        done = super().skip(numbers)
        self.take_all()
        return done

    def take_all(self) -> None:
        """An epoch that is over, or of which nothing was delivered, is of all data."""
        if not self.running and self.is_behind and self.is_finished:
            self.begin_again(self.next_epoch)
        elif self.is_behind and not self.is_begun:
            self.begin_again(self.first_epoch)

    @property
    def is_begun(self) -> bool:
        return self.position > self.start or bool(self.skipped)


class GrowingMachine(EpochMachine):
    """One dataset that is added to and erased from while a run is stopped."""

    model: GrowingModel

    @initialize(
        sizes=SIZES,
        drop_last=st.booleans(),
        layout=st.sampled_from(["list", "folder"]),
        num_files=st.integers(1, 2),
    )
    def start(
        self, sizes: tuple[int, int], drop_last: bool, layout: Layout, num_files: int
    ) -> None:
        self.layout: Layout = layout
        self.calls: list[Erasure] = []
        """What was erased, by each call."""
        self.erased: set[int] = set()
        """The tokens of these documents."""
        self.is_other = False
        """Whether data were added since the state that is loaded."""
        batch_size, world_size = sizes
        self.begin(
            GrowingModel(
                batch_size=batch_size,
                world_size=world_size,
                epoch_size=num_sequences(num_files),
                drop_last=drop_last,
                data=num_files,
                num_files=num_files,
            )
        )

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            dataset(self.layout, 0, self.model.num_files, *self.calls),
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            drop_last=self.model.drop_last,
            padding=PADDING,
            transform=Fuse(),
        )

    def left_of(self, window: Window) -> Window:
        return tuple(PADDING if token in self.erased else token for token in window)

    def windows(self, epoch: int) -> list[Window]:
        return windows(self.layout, self.model.data, epoch)

    def token(self, position: int) -> int:
        epoch, place = divmod(position, self.model.epoch_size or 1)
        return first_left(self.left_of(self.windows(epoch)[place]))

    @staticmethod
    def tell(batch: dict[str, Any]) -> list[Any]:
        if not batch:
            return []
        return [first_left(row) for row in batch["input_ids"].tolist()]

    def check_batch(self, batch: Any) -> None:
        """Of erased documents nothing is there, of all others every token."""
        epoch = self.model.first_epoch
        whole = {first_left(w): w for w in map(self.left_of, self.windows(epoch))}
        for row in map(tuple, batch["input_ids"].tolist()):
            assert row == whole.get(first_left(row), (PADDING,) * LENGTH)

    def check_place(self, state: dict[str, Any]) -> None:
        super(EpochMachine, self).check_place(state)
        size = self.model.epoch_size or 0
        position = state["epoch"] * size + state["position"]
        if position not in self.model.skipped:
            assert position == self.model.place

    def check_origins(self, origins: list[Any], told: Any) -> None:
        assert (self.token_at(origins[0]) if origins else PADDING) == told

    def token_at(self, source: pf.run.Origin) -> int:
        number = [str(path) for path in files()].index(source.file)
        return rows_by_token(number)[source.row] + source.first_token

    @precondition(lambda self: self.model.drop_last and not self.model.is_finished)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        """Without padded steps: these borrow, and sizes change too often to count."""
        super().skip(data)

    # What happens while it stands still.

    @precondition(lambda self: self.model.num_files < len(ROWS))
    @rule(sizes=SIZES)
    def append(self, sizes: tuple[int, int]) -> None:
        """Add a file, and go on at another size."""
        self.go_on(sizes, num_files=self.model.num_files + 1)

    @rule(sizes=SIZES, data=st.data())
    def erase(self, sizes: tuple[int, int], data: st.DataObject) -> None:
        """Erase documents, and go on at another size."""
        number = data.draw(st.integers(0, self.model.num_files - 1), label="file")
        some = st.sets(st.integers(0, ROWS[number] - 1), min_size=1, max_size=4)
        rows = sorted(data.draw(some, label="rows"))
        self.calls.append((number, tuple(rows)))
        begins = rows_by_token(number)
        for row in rows:
            self.erased |= {*range(begins[row], begins[row + 1])}
        self.go_on(sizes, num_files=self.model.num_files)

    def go_on(self, sizes: tuple[int, int], num_files: int) -> None:
        state, snapshot = json.dumps(self.loaders[0].state_dict()), self.snapshot()
        self.model.num_files = num_files
        self.restore(snapshot, *sizes)
        self.loaders = self.make_all()
        self.fresh = self.running = None
        self.load_all(state)

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        num_files = self.model.num_files
        super().restore(snapshot, batch_size, world_size)
        self.model.num_files = num_files
        self.is_other = self.model.is_behind
        self.model.take_all()

    def load_one(self, loader: pf.Loader, state: Any) -> None:
        before = loader.state_dict()
        if self.is_other:
            with pytest.raises(StateMismatchError, match="grown="):
                loader.load_state_dict(state)
        assert loader.state_dict() == before
        loader.load_state_dict(state, grown="next-epoch")

    @precondition(lambda self: self.saved and self.calls)
    @rule(data=st.data())
    def forget_what_is_erased(self, data: st.DataObject) -> None:
        """What was erased once stays so, or its states are refused."""
        state = json.loads(data.draw(st.sampled_from(self.saved))[0])
        if "erased" in state:
            bare = alone(self.layout, 0, self.model.num_files)
            with pytest.raises(StateMismatchError, match="documents were erased"):
                bare.load_state_dict(state, grown="next-epoch")


def first_left(row: Iterable[int]) -> int:
    """The first token that is no padding."""
    return next((token for token in row if token != PADDING), PADDING)
