"""A state machine of fleets whose steps have a budget of tokens for all ranks."""

import functools
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import pagefeed as pf
from models.fleet_runs import FleetMachine
from models.machines import PADDING, SIZES, Fuse
from models.runs import ORDERS, budget_loader
from pagefeed.contract import Step


def first_of_documents(batch: dict[str, Any]) -> list[int]:
    """The first tokens of documents that have some."""
    lengths = batch["lengths"]
    begins = (np.cumsum(lengths) - lengths)[lengths > 0]
    first: list[int] = batch["input_ids"][0][begins].tolist()
    return first


@functools.cache
def batches(order: int, epoch: int) -> list[list[int]]:
    """The documents of the batches of an epoch, by a loader of one rank."""
    loader = budget_loader(pad=None, drop_last=False, padding=PADDING, **ORDERS[order])
    loader.set_epoch(epoch)
    return [first_of_documents(batch) for batch in loader]


@functools.cache
def tag_of() -> dict[int, int]:
    """The first document of the batch that each document is in."""
    return {first: batch[0] for batch in batches(0, 0) for first in batch}


class Tags(Fuse):
    """Leaves of each batch that ranks share its first document."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        documents = first_of_documents(super().__call__(batch))
        tags = list[int]()  # One may end an epoch and begin the next one.
        rest = documents
        while rest:
            tags.append(tag_of()[rest[0]])
            rest = rest[len(of_tag(tags[-1])) :]
        whole = [document for tag in tags for document in of_tag(tag)]
        assert documents == whole  # Batches come whole, one after another.
        return {"input_ids": np.array(tags or [PADDING])[:, None]}


@functools.cache
def of_tag(tag: int) -> list[int]:
    return next(batch for batch in batches(0, 0) if batch[0] == tag)


class FleetBudgetMachine(FleetMachine):
    """A fleet whose steps are some batches of a budget: a sequence is a batch."""

    @initialize(
        sizes=SIZES,
        epochs=st.sampled_from([1, 1, 2]),
        drop_last=st.booleans(),
        chosen=st.integers(0, 8),
    )
    def start(
        self, sizes: tuple[int, int], epochs: int, drop_last: bool, chosen: int
    ) -> None:
        self.part = None
        self.begin_with(sizes, epochs, drop_last, chosen)

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return budget_loader(
            pad=None,
            transform=Tags(),
            **self.settings(rank, world_size),
            global_batch_size=world_size * batch_size,
        )

    def tokens(self, epoch: int, ranks: int = 1) -> list[int]:
        assert ranks == 1
        return [batch[0] for batch in batches(self.order, epoch)]

    def token_at(self, source: Any) -> int:
        return tag_of()[super().token_at(source)]

    @rule(data=st.data())
    def locate(self, data: st.DataObject) -> None:
        """Where each document of all ranks comes from is known without running."""
        kept = self.snapshot()
        self.model.settle()
        steps = self.model.known_steps()
        full = [s for s in steps if len(s.positions) == self.model.step_size]
        places = [loader.view().rank_and_size for loader in self.loaders]
        if full and places == [(n, len(places)) for n in range(len(places))]:
            step = data.draw(st.sampled_from(full))
            # Which of its batches a row is of, and so of which epoch, is not told.
            epochs = {self.model.epoch_at(position) for position in step.positions}
            found = list[int]()
            for rank, loader in enumerate(self.loaders):
                rows = loader.view().position.whole.rows(Step(step.number))
                for row in rows:
                    [origin] = loader.locate(step.number, row)
                    if not origin.num_tokens:
                        continue
                    found.append(self.token_at(origin))
                    if len(epochs) == 1:
                        slot = step.number, rank, row
                        self.check_steps_of(loader, [origin], step.positions[0], slot)
            expected = [self.token(position) for position in step.positions]
            assert sorted(found) == sorted(t for t in expected for _ in of_tag(t))
        self.put_back(kept)
