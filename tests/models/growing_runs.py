"""A state machine of whole runs whose data grow while a run is stopped."""

import functools
import json
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import pagefeed as pf
from made.numbered import (
    numbered_loader,
    rows_of,
    write_numbered,
)
from models.machines import PADDING, SIZES, Fuse, RunMachine
from models.run_model import RunModel
from models.runs import EpochMachine, folder


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
