"""A state machine of a fleet: any number of ranks asks for any step, between loops."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

import pagefeed as pf
from made.numbered import numbered_loader
from models.machines import PADDING, BrokenTransformError, Fuse
from models.run_model import RunModel
from models.runs import EpochMachine, numbered


@dataclass
class FleetModel(RunModel):
    """A run whose steps have one size for any number of ranks."""

    def number(self, position: int) -> int:
        """The number of the step at a position: skipped ones have none."""
        first, step = self.anchor
        gone = sum(first <= p < position for p in self.skipped)
        return step + (position - first - gone) // self.step_size

    def has_sizes(self, batch_size: int, world_size: int) -> bool:
        """Whether steps are as large, on any number of ranks."""
        return batch_size * world_size == self.step_size

    def lends(self, steps: int, rest: int) -> bool:  # noqa: ARG002
        """Whether full steps lend to the rest: they never do."""
        return False


class FleetMachine(EpochMachine):
    """Loaders whose ranks come and go, epoch after epoch."""

    model_type: ClassVar[type[RunModel]] = FleetModel

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return numbered_loader(
            numbered(),
            batch_size=None,
            transform=Fuse(),
            context_parallel=self.part,
            **self.settings(rank, world_size),
            global_batch_size=world_size * batch_size,
        )

    @rule(data=st.data(), world_size=st.integers(1, 8), fails=st.booleans())
    def ask(self, data: st.DataObject, world_size: int, fails: bool) -> None:
        """A fleet of another size asks for a step, some of them more than once."""
        self.model.settle()
        steps = self.model.known_steps()
        if not steps:
            return
        world_size = min(world_size, self.model.step_size)
        ahead = [step for step in steps if step.number >= self.model.step]
        step = data.draw(st.sampled_from(ahead[:2] * 4 + steps), label="step")
        self.model.seek(step.number)
        self.model.running, self.running = True, None
        expected = [self.token(position) for position in step.positions]
        ranks = data.draw(st.permutations(range(world_size)), label="ranks")
        given: dict[int, list[Any]] = {}
        for number in range(max(len(ranks), len(self.loaders))):
            loader, rank = (
                self.loaders[number % len(self.loaders)],
                ranks[number % len(ranks)],
            )
            if fails:
                self.ask_in_vain(loader, step.number, rank, world_size)
            if number % 3 == 1:
                assert loader.at(step.number, rank=None, world_size=world_size) is None
            batch = loader.at(step.number, rank=rank, world_size=world_size)
            assert batch is not None
            rows = self.tell(batch)
            assert given.setdefault(rank, rows) == rows
            real = sum(row != PADDING for row in rows)
            assert loader.weight == real * world_size / len(expected)
        sizes = [len(rows) for rows in given.values()]
        assert max(sizes) - min(sizes) <= 1
        found = [row for rows in given.values() for row in rows if row != PADDING]
        assert sorted(found) == sorted(expected)
        self.check_state()

    def ask_in_vain(
        self, loader: pf.Loader, step: int, rank: int, world_size: int
    ) -> None:
        """The transform raises, and the step can be asked for again."""
        Fuse.burning = True
        try:
            # It may be held, and then nothing is made.
            loader.at(step, rank=rank, world_size=world_size)
        except BrokenTransformError:
            pass
        finally:
            Fuse.burning = False

    def check_rows(self, rows: list[list[Any]], expected: list[Any]) -> None:
        """Rows of all ranks: dealt by lanes."""
        sizes = [len(own) for own in rows]
        assert max(sizes) - min(sizes) <= 1
        found = sorted(token for own in rows for token in own if token != PADDING)
        assert found == sorted(expected)

    def check_own(self, rows: list[Any], expected: list[Any]) -> None:
        """Rows of rank 0 are some of the step."""
        assert not Counter(token for token in rows if token != PADDING) - Counter(
            expected
        )

    @rule(data=st.data())
    def locate(self, data: st.DataObject) -> None:
        """Where the rows of all ranks come from is known without running."""
        kept = self.snapshot()
        self.model.settle()
        steps = self.model.known_steps()
        full = [s for s in steps if len(s.positions) == self.model.step_size]
        if full:
            step = data.draw(st.sampled_from(full))
            found = []
            for loader in self.loaders:
                rank, world_size = loader.view().rank_and_size
                if rank is None or world_size != len(self.loaders):
                    break
                rows = range(self.model.step_size // world_size)
                origins = [loader.locate(step.number, row) for row in rows]
                found += [self.token_at(each[0]) for each in origins]
            expected = [self.token(position) for position in step.positions]
            assert not Counter(found) - Counter(expected)
        self.put_back(kept)
