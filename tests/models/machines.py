"""A state machine of hypothesis: loaders of all ranks beside a plain model of a run."""

import copy
import json
import pickle
import warnings
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import pagefeed as pf
from made.numbered import first_tokens
from models.run_model import RunModel
from pagefeed.errors import CancelledError, InvalidArgumentError

SIZES = st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 3, 4]))
"""Batch size and world size; the lanes of all these world sizes are the same."""
PARTS = st.sampled_from(
    [
        *([None] * 2),
        pf.ContextParallel(0, 2),
        pf.ContextParallel(0, 4, "contiguous"),
    ]
)
"""Of a group that shares sequences the first rank, whose rows begin as all rows do."""
PADDING = -1


class BrokenTransformError(Exception):
    """What a transform raises that is told to."""


class Fuse:
    """A transform that can be made to raise; it travels by pickle."""

    burning = False

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if Fuse.burning:
            raise BrokenTransformError
        return batch


class RunMachine(RuleBasedStateMachine):
    """Loaders that are moved about, each as its model is."""

    num_epochs: ClassVar[int] = 0
    """Iterations that were begun, by all machines."""
    model: RunModel
    loaders: list[pf.Loader]
    part: pf.ContextParallel | None = None
    """Which part of each sequence the loaders give."""

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        raise NotImplementedError

    @staticmethod
    def tell(batch: dict[str, Any]) -> list[Any]:
        """What tells the sequences of a batch apart."""
        return first_tokens(batch)

    def token(self, position: int) -> Any:
        """What tells the sequence at a position apart."""
        raise NotImplementedError

    def dealt(self, positions: list[int]) -> list[int]:
        """The positions of a step in the order of rows and ranks."""
        return positions

    def begin(self, model: RunModel) -> None:
        self.model = model
        self.loaders = self.make_all()
        self.fresh: list[Any] | None = None
        """Iterators of which nothing was taken yet: so nothing has moved."""
        self.running: list[Any] | None = None
        """Iterators of the loaders' running iteration."""
        self.saved: list[tuple[str, Any]] = []

    def make_all(self) -> list[pf.Loader]:
        sizes = self.model.world_size, self.model.batch_size
        return [self.make(rank, *sizes) for rank in range(self.model.world_size)]

    def teardown(self) -> None:
        Fuse.burning = False

    # Iterating.

    @rule()
    def iterate(self) -> None:
        """Make iterators; whether any is used, other rules decide."""
        self.fresh = [iter(loader) for loader in self.loaders]

    @precondition(lambda self: self.fresh is not None)
    @rule()
    def forget_iterators(self) -> None:
        self.fresh = None

    @precondition(lambda self: self.running is not None)
    @rule()
    def leave(self) -> None:
        """Break out of the loop, without its end."""
        self.running = None

    @precondition(lambda self: self.fresh is not None)
    @rule()
    def begin_iterating(self) -> None:
        """Take the first batch: now the iteration before is over."""
        RunMachine.num_epochs += 1
        before, self.running, self.fresh = self.running, self.fresh, None
        finished = self.model.is_finished
        self.model.iterate()
        self.take_one()
        for iterator in before or []:
            assert ends(iterator, finished=finished)

    @precondition(lambda self: self.running is not None)
    @rule(steps=st.sampled_from([1, 2, 5, 300]))
    def take(self, steps: int) -> None:
        for _ in range(steps):
            if self.running is not None:
                self.take_one()

    def take_one(self) -> None:
        assert self.running is not None
        batches = [next(iterator, None) for iterator in self.running]
        if self.model.is_finished:
            assert batches == [None] * len(batches)
            self.model.finish()
            self.running = None
        else:
            expected = [self.token(p) for p in self.dealt(self.model.take())]
            assert all(batch is not None for batch in batches), "over too early"
            for batch in batches:
                self.check_batch(batch)
            self.check_rows([self.tell(batch or {}) for batch in batches], expected)
            self.follow(batches, expected)
        self.check_state()

    def check_batch(self, batch: Any) -> None:
        """What else a batch tells of its sequences."""

    def follow(self, batches: list[Any], expected: list[Any]) -> None:
        """What a training does with the batches of all ranks."""

    def check_rows(self, rows: list[list[Any]], expected: list[Any]) -> None:
        """Rows of all ranks, in the order of ranks; some padding at the end."""
        found = [token for row in zip(*rows, strict=True) for token in row]
        if len(expected) < self.model.step_size:
            found, expected = (
                sorted(token for token in tokens if token != PADDING)
                for tokens in (found, expected)
            )
        assert found == expected

    @precondition(lambda self: self.running is not None and not self.model.is_finished)
    @rule()
    def fail(self) -> None:
        """A transform raises: its step is not consumed, and comes again."""
        assert self.running is not None
        Fuse.burning = True
        for iterator in self.running:
            try:
                next(iterator)
            except BrokenTransformError:
                continue
            raise AssertionError("the transform's error did not come out")
        Fuse.burning = False
        self.check_state()
        self.take_one()

    # Moving.

    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        self.model.settle()
        known = self.model.known_steps()
        if not known:
            return
        end = known[-1].number + 1
        target = data.draw(st.integers(self.model.anchor[1], end), label="step")
        for loader in self.loaders:
            loader.seek(target)
        self.model.seek(target)

    @precondition(lambda self: not self.model.is_finished)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        ahead = [step.number for step in self.model.steps()]
        first = data.draw(st.integers(0, len(ahead) - 1), label="first")
        count = data.draw(st.integers(1, 4), label="count")
        before = copy.copy(self.model)
        if not self.model.skip(set(ahead[first : first + count])):
            self.model = before
            return
        for loader in self.loaders:
            loader.skip(ahead[first : first + count])

    @rule(epoch=st.integers(0, 3))
    def set_epoch(self, epoch: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It goes back before what was loaded.
            for loader in self.loaders:
                loader.set_epoch(epoch)
        finished = self.model.is_finished
        if self.model.set_epoch(epoch):
            self.check_ended(finished)
            self.begin_epoch()

    def begin_epoch(self) -> None:
        """The run was placed at the begin of an epoch: nothing is left of another."""

    def check_ended(self, finished: bool) -> None:
        """The running iterators were ended; those not begun may still begin."""
        for iterator in self.running or []:
            assert ends(iterator, finished=finished)
        self.running = None

    # Saving and loading.

    @rule()
    def save(self) -> None:
        state = json.dumps(self.loaders[0].state_dict())
        self.saved = [*self.saved[-3:], (state, self.snapshot())]

    def snapshot(self) -> Any:
        return copy.copy(self.model)

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        self.model = snapshot.resized(batch_size, world_size)

    def put_back(self, snapshot: Any) -> None:
        """Undo what the model alone has done since."""
        self.model = snapshot

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), sizes=SIZES)
    def load(self, data: st.DataObject, sizes: tuple[int, int]) -> None:
        """Load a state into new loaders, of other sizes."""
        state, snapshot = data.draw(st.sampled_from(self.saved))
        self.restore(snapshot, *sizes)
        self.loaders = self.make_all()
        self.fresh = self.running = None
        self.load_all(state)

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def load_in_place(self, data: st.DataObject) -> None:
        """Load a state into these loaders: a running loop ends."""
        state, snapshot = data.draw(st.sampled_from(self.saved))
        finished = self.model.is_finished
        self.restore(snapshot, self.model.batch_size, self.model.world_size)
        self.load_all(state)
        self.check_ended(finished)

    def load_all(self, state: str) -> None:
        for loader in self.loaders:
            self.load_one(loader, json.loads(state))

    def load_one(self, loader: pf.Loader, state: Any) -> None:
        loader.load_state_dict(state)

    @rule()
    def travel_by_pickle(self) -> None:
        self.loaders = pickle.loads(pickle.dumps(self.loaders))
        self.fresh = self.running = None
        sizes = self.model.batch_size, self.model.world_size
        self.restore(self.snapshot(), *sizes)

    @precondition(lambda self: not self.model.is_finished)
    @rule(num_workers=st.integers(1, 3), data=st.data())
    def share_the_rest(self, num_workers: int, data: st.DataObject) -> None:
        """Workers take the steps of rank 0 in turn; some are skipped on the way."""
        state = self.state_for_workers()
        workers = [self.make_all()[0] for _ in range(num_workers)]
        kept = copy.copy(self.model)
        self.restore(self.snapshot(), kept.batch_size, kept.world_size)
        iterators = []
        for worker, loader in enumerate(workers):
            self.load_one(loader, state)
            shared = loader.view().iterate(worker=worker, num_workers=num_workers)
            iterators.append(shared)
        rounds = data.draw(st.integers(0, 2), label="rounds")
        for turn in range(8):
            if turn == rounds and len(self.model.steps()) > num_workers + 1:
                gone = self.model.steps()[1].number
                if self.model.skip({gone}):
                    for loader in workers:
                        loader.skip([gone])
            for iterator in iterators:
                if self.model.is_finished:
                    break
                rows = self.tell(next(iterator))
                expected = [self.token(p) for p in self.dealt(self.model.take())]
                self.check_own(rows, expected)
        self.model = kept

    def check_own(self, rows: list[Any], expected: list[Any]) -> None:
        """Rows of rank 0, of a step by rows and ranks."""
        own = expected[:: self.model.world_size]
        rows, own = (
            [token for token in tokens if token != PADDING] for tokens in (rows, own)
        )
        assert rows == own

    def state_for_workers(self) -> dict[str, Any]:
        return self.loaders[0].state_dict()

    # What holds always.

    @rule(data=st.data())
    def locate(self, data: st.DataObject) -> None:
        """Where a row of a step comes from is known without running."""
        kept = self.snapshot()
        self.model.settle()
        steps = self.model.known_steps()
        full = [s for s in steps if len(s.positions) == self.model.step_size]
        if full:
            step = data.draw(st.sampled_from(full))
            row = data.draw(st.integers(0, self.model.batch_size - 1))
            positions = self.dealt(step.positions)
            for rank, loader in enumerate(self.loaders):
                position = positions[row * self.model.world_size + rank]
                origins = loader.locate(step.number, row)
                self.check_origins(origins, self.token(position))
                slot = step.number, rank, row
                self.check_steps_of(loader, origins, position, slot)
        self.put_back(kept)

    def check_origins(self, origins: list[Any], told: Any) -> None:
        """Whether a sequence comes from there."""
        assert self.token_at(origins[0]) == told

    def check_steps_of(
        self, loader: pf.Loader, origins: list[Any], position: int, slot: Any
    ) -> None:
        """Of the epoch that the loader names, steps are told by their documents."""
        model = self.model
        if model.epoch_size and model.epoch_at(position) != loader.epoch:
            return
        for origin in origins:
            try:
                found = loader.steps_of(origin.file, origin.row)
            except InvalidArgumentError:  # Some of it came before another size.
                assert not model.has_one_size
            else:
                assert slot in {(step, rank, row) for step, rank, row in found}

    def token_at(self, source: Any) -> int:
        raise NotImplementedError

    @invariant()
    def check_state(self) -> None:
        states = [loader.state_dict() for loader in self.loaders]
        assert states.count(states[0]) == len(states)
        self.check_place(states[0])

    def check_place(self, state: dict[str, Any]) -> None:
        model = self.model
        assert state["first_epoch"] == model.first_epoch
        # It may stand before a skip; that of the last steps leaves their numbers open.
        if (model.running and not model.is_finished) or not model.skipped:
            assert state["step"] == model.step, (state, model.step, model)
        assert {loader.epoch for loader in self.loaders} == {model.epoch}

    @invariant()
    def check_length(self) -> None:
        assert [len(loader) for loader in self.loaders] == (
            [len(self.model)] * len(self.loaders)
        )


def ends(iterator: Any, *, finished: bool = False) -> bool:
    """Whether an iterator says that it was ended, or that it had come to its end."""
    try:
        next(iterator)
    except CancelledError:
        return True
    except StopIteration:
        return finished
    return False
