"""State machines of whole runs of a mixture."""

import functools
import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import pagefeed as pf
from made.numbered import (
    SEED,
    interleaved,
    numbered_loader,
    write_numbered,
)
from models.dealing import dealt
from models.machines import PADDING, PARTS, SIZES, Fuse, RunMachine
from models.run_model import RunModel
from models.runs import folder, rows_of_file

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
    fields = ("input_ids", "dataset_ids")
    return numbered_loader(mixed, padding=PADDING, fields=fields, **options)


class Timeline:
    """What a mixture delivers at each position, with all the weights set so far.

    Taken from a single rank that goes through it one by one, and held against the
    rules: each lane takes from each dataset the next of the same lane, and no count of
    a dataset is further off its weight than one sequence a lane.
    """

    def __init__(
        self,
        machine: "type[MixtureMachine]",
        weights: list[tuple[int, dict[str, float]]],
        state: dict[str, Any],
    ) -> None:
        self.weights = weights
        self.num_lanes = state["num_lanes"]
        self.epoch = state["first_epoch"]
        self.tokens: list[Any] = []
        self._machine = machine
        self._loader = machine.loader(FAR, batch_size=16)
        plain = {name: value for name, value in state.items() if name != "ended"}
        # A begin is no iteration that could be replayed.
        plain |= {"step": max(1, state["step"]), "skipped": [], "sizes": None}
        self._loader.load_state_dict(plain, replay=True)
        self._iterator = iter(self._loader)

    def token(self, position: int) -> Any:
        while len(self.tokens) <= position:
            self.tokens += self._machine.tell(next(self._iterator))
        return self.tokens[position]

    def changed(self, position: int, weights: dict[str, float], state: Any) -> Any:
        """The timeline with other weights from a position on.

        Weights that were set further on, before a seek back, stay as later stages do.
        """
        changes = sorted((dict(self.weights) | {position: weights}).items())
        later = Timeline(self._machine, changes, state)
        assert [later.token(p) for p in range(position)] == [
            self.token(p) for p in range(position)
        ]
        return later

    def check(self) -> None:
        machine, names, size = self._machine, list(ROWS), self.num_lanes
        expected = dict.fromkeys(names, 0.0)
        taken = {name: [0] * size for name in names}
        seen: dict[tuple[str, int], set[Any]] = {}
        weights = self.weights[0][1]
        for position, token in enumerate(self.tokens):
            weights = dict(self.weights).get(position, weights)
            total = sum(weights.values())
            for name, weight in weights.items():
                expected[name] += weight / total
            name, lane = names[machine.dataset_of(token)], position % size
            local = taken[name][lane] * size + lane
            taken[name][lane] += 1
            number = local // machine.sequences_of(name)
            epoch = seen.setdefault((name, number), set())
            assert token not in epoch
            epoch.add(token)
            machine.check_sequence(token, name, self.epoch, number)
            for each, count in taken.items():
                assert abs(sum(count) - expected[each]) <= size


class MixtureMachine(RunMachine):
    """A mixture, whose weights change at any step."""

    loader = staticmethod(mixture_loader)
    """Makes a loader of so many steps."""

    @classmethod
    @functools.cache
    def sequences_of(cls, name: str) -> int:
        return numbered_loader(datasets()[name]).num_sequences

    @staticmethod
    def dataset_of(token: Any) -> int:
        """The number of the dataset of a sequence."""
        return int(token // APART)

    @classmethod
    def check_sequence(cls, token: Any, name: str, run: int, epoch: int) -> None:
        """Whether a sequence is one of a dataset's epoch, in an epoch of the run."""

    @initialize(sizes=SIZES, part=PARTS)
    def start(self, sizes: tuple[int, int], part: pf.ContextParallel | None) -> None:
        batch_size, world_size = sizes
        self.part = part
        self.begin(
            RunModel(batch_size=batch_size, world_size=world_size, max_steps=MAX_STEPS)
        )
        self.set_timeline()

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return self.loader(
            MAX_STEPS,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            transform=Fuse(),
            context_parallel=self.part,
        )

    def check_batch(self, batch: Any) -> None:
        """Tokens tell the dataset, too."""
        tokens = batch["input_ids"][:, 0]
        datasets = np.where(tokens == PADDING, -1, tokens // APART)
        assert batch["dataset_ids"].dtype == np.int32
        assert batch["dataset_ids"].tolist() == datasets.tolist()

    def dealt(self, positions: list[int]) -> list[int]:
        return self.dealt_to(positions, self.model.world_size)

    def dealt_to(self, positions: list[int], ranks: int) -> list[int]:
        """Positions of turns that are whole, in the order of ranks."""
        if len(positions) % ranks:
            return positions
        lanes = self.loaders[0].state_dict()["num_lanes"]
        return dealt(positions, ranks, lanes, SEED, self.model.first_epoch)

    def set_timeline(self) -> None:
        """The timeline of an epoch, with the weights it begins with."""
        self.timeline_epoch = self.model.first_epoch
        fresh = self.loader(FAR)
        fresh.set_epoch(self.timeline_epoch)
        self.timeline = Timeline(type(self), [(0, WEIGHTS)], fresh.state_dict())

    def begin_epoch(self) -> None:
        self.set_timeline()

    def token(self, position: int) -> Any:
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

    def put_back(self, snapshot: Any) -> None:
        model, self.timeline, self.timeline_epoch = snapshot
        super().put_back(model)

    @precondition(lambda self: not self.model.is_finished)
    @rule(weights=st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
    def set_weights(self, weights: list[int]) -> None:
        self.token(0)
        new = {name: float(one) for name, one in zip(ROWS, weights, strict=True)}
        for loader in self.loaders:
            loader.set_weights(new)
        self.weigh(new)

    def weigh(self, new: dict[str, float]) -> None:
        """The weights were set, from the next step on."""
        # It may stand before steps that are skipped.
        place = self.loaders[0].state_dict()["position"]
        assert self.model.skipped.issuperset(range(place, self.model.place))
        self.model._move(self.model.position)
        state = self.loaders[0].state_dict()
        self.timeline = self.timeline.changed(place, new, state)

    def take_one(self) -> None:
        """After a loop's end its state replays what it has delivered."""
        is_end, before = self.model.is_finished, self.snapshot()
        sizes = self.model.batch_size, self.model.world_size
        super().take_one()
        if is_end:
            now = self.snapshot()
            self.put_back(before)
            self.check_replay(sizes)
            self.put_back(now)

    @precondition(lambda self: self.model.place > 0 or self.model.skipped)
    @rule(sizes=SIZES)
    def replay(self, sizes: tuple[int, int]) -> None:
        """The run again, from its begin and at other sizes, under the same weights."""
        self.check_replay(sizes)

    def check_replay(self, sizes: tuple[int, int]) -> None:
        batch_size, world_size = sizes
        end = min(self.model.place, MAX_STEPS * batch_size * world_size)
        kept = [p for p in range(end) if p not in self.model.skipped]
        kept = kept[: len(kept) // world_size * world_size]
        expected = [self.token(p) for p in self.dealt_to(kept, world_size)]
        state, found = self.loaders[0].state_dict(), []
        for rank in range(world_size):
            loader = self.make(rank, world_size, batch_size)
            loader.load_state_dict(state, replay=True)
            steps = -(-len(expected) // (batch_size * world_size))
            batches = itertools.islice(loader, steps)
            found.append([self.tell(batch) for batch in batches])
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
                count = sum(self.dataset_of(token) == number for token in tokens)
                assert stats[f"{name}/sequences"] == count

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "timeline"):
            self.timeline.check()
