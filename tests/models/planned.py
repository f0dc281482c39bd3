"""Whole runs without their data: which sequences ranks are given, and states.

A seed decides the data's setting, and how often the run is killed and goes on at other
sizes, skips steps or changes its weights. States travel as JSON. What the ranks of a
part are given is compared with a plain model, and with the order that one rank alone
goes through one by one. Nothing is decoded, so that a run takes some milliseconds.
"""

import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import made.shuffles
import pagefeed as pf
from made.flat_files import stream
from made.numbered import SEED, numbered_loader
from models.dealing import dealt
from models.mixture_runs import FAR, MAX_STEPS, ROWS, mixture_loader
from models.run_model import RunModel
from models.runs import folder, infilled, numbered
from pagefeed.core._base import finished
from pagefeed.core.run import Run, gathered
from pagefeed.run import LoaderState

SHUFFLES = [*made.shuffles.SHUFFLES, pf.Shuffle(window=20, passes=2)]
BUDGETS = {"batch_tokens": 150, "batch_size": None}
CUTS: dict[str, dict[str, Any]] = {
    "windows": {},
    "packed": {"sequences": pf.Packed(64)},
    "documents": {"sequences": pf.Documents([], max_length=50)},
    "padded": {"sequences": pf.Documents([], max_length=50), **BUDGETS},
    "joined": {"sequences": pf.Documents([], max_length=50, pad=None), **BUDGETS},
}
BALANCES: list[Any] = [
    None,
    pf.Balance(attention=1, stretch=2),
    pf.Balance(tokens=1, attention=1, stretch=6, bucket=3),
    pf.Balance(attention=1, stretch=3, exact=True),
    pf.Balance(attention=1, stretch=8, equal=0.5),
    pf.Balance(tokens=1, attention=1, stretch=6, bucket=2, equal=0.1, exact=True),
]
LETTERS = pf.Tokenizer(lambda text: list(text.encode()), vocab_size=256, name="letters")


class Setting(NamedTuple):
    """What a run delivers, and in which order."""

    data: str
    cut: str
    shuffle: Any
    balance: pf.Balance | None

    @property
    def is_mixture(self) -> bool:
        return self.data == "mixture"

    @property
    def has_budget(self) -> bool:
        """Whether a sequence is a batch of so many tokens."""
        return "batch_tokens" in CUTS[self.cut]


def texts() -> Any:
    """Texts that are counted, some of them empty or missing."""
    made = ["some words " * (row % 9) if row % 13 else None for row in range(120)]
    (folder() / "texts").mkdir()
    path = folder() / "texts" / "0.parquet"
    pq.write_table(pa.table({"text": made}), path, data_page_size=500)
    return pf.parquet(folder() / "texts", column="text").tokenize(LETTERS)


def streamed() -> Any:
    """A stream of several shards."""
    (folder() / "stream").mkdir()
    documents = [range(1, row * row % 53 + 2) for row in range(150)]
    return stream(folder() / "stream", documents)


DATA: dict[str, Callable[[], Any]] = {
    "numbered": numbered,
    "selected": lambda: numbered().split(some=0.6, others=0.4, seed=1)["some"],
    "infilled": infilled,
    "texts": texts,
    "stream": streamed,
    "mixture": dict,
}
SEEDS = 100
"""Of one setting, so that what is made once serves them all."""
ERASED = "numbered", "infilled", "stream"
"""Data that documents are erased of."""


def setting_of(seed: int) -> Setting:
    """What loaders accept; in 168 settings every two parts meet."""
    number = seed // SEEDS
    names = list(DATA), list(CUTS), SHUFFLES, BALANCES
    data, cut, shuffle, balance = (
        each[at % len(each)]
        for each, at in zip(names, (*[number] * 3, number // 6), strict=True)
    )
    setting = Setting(data, cut, shuffle, balance)
    # Batches are made of the lengths in the files, and those of infilled ones differ.
    if data == "infilled" and setting.has_budget:
        return setting._replace(data="numbered")
    # Balanced mixtures take twenty times as long as all others.
    if data == "mixture" and number // 36 % 5:
        return setting._replace(balance=None)
    return setting


@functools.cache
def data_of(name: str, *, erased: bool) -> Any:
    if not erased:
        return DATA[name]()
    data = data_of(name, erased=False)
    return data.erase(rows={data.files[0]: range(20, 45)})


@functools.lru_cache(maxsize=400)
def run_of(setting: Setting, sizes: tuple[int, int], **options: Any) -> Run:
    """What loaders of a setting and of these sizes deliver, on all ranks."""
    batch_size, world_size = sizes
    erased = options.pop("erased", False)
    given = {"batch_size": batch_size, "world_size": world_size, **CUTS[setting.cut]}
    given |= {"shuffle": setting.shuffle, "balance": setting.balance}
    if setting.is_mixture:
        loader = mixture_loader(options.pop("max_steps"), **given)
    else:
        data = data_of(setting.data, erased=erased)
        loader = numbered_loader(data, **given, **options)
    return loader.view().run


def given_to_all(run: Run, state: LoaderState, steps: int) -> tuple[Any, LoaderState]:
    """The next sequences of all ranks by their positions, and the state after them."""
    cursors = [run.at(state, rank=rank) for rank in range(run.world_size)]
    shape = steps, run.batch_size
    parts = [cursor.sequences(0, steps).reshape(shape) for cursor in cursors]
    after = [cursor.state_after(steps) for cursor in cursors]
    assert after.count(after[0]) == len(after)
    return np.stack(parts, axis=-1).reshape(steps, -1), after[0]


@functools.lru_cache(maxsize=400)
def order_of(setting: Setting, epoch: int, ranks: int) -> list[int]:
    """The sequences of an epoch by their positions: each is there once."""
    run = run_of(setting, (1, ranks), epochs=1, drop_last=False)
    begin = run.beginning(epoch)
    steps = run.at(begin).route.num_steps
    found, _ = given_to_all(run, begin, steps or 0)
    order: list[int] = found[found >= 0].tolist()
    assert sorted(order) == list(range(run.index.num_sequences))
    return order


@functools.lru_cache(maxsize=8)
def order_of_mixture(setting: Setting, state: LoaderState) -> list[int]:
    """The sequences of an epoch under the weights of its first state, one by one."""
    size = (1, 16) if setting.has_budget else (16, 1)
    run = run_of(setting, size, max_steps=FAR)
    # What ends the run there is no end of this order.
    begin = run.accept(state).having(cuts=state.parts.get("cuts"))
    num_lanes = 1 if setting.shuffle is None else state.num_lanes
    cursor: Any = run.at(begin)
    order: list[int] = joined(cursor.at(range(16 * FAR)))
    if setting.balance is None:
        check_lanes(run, order, num_lanes)
        return order
    before = joined(cursor.unbalanced(range(len(order))))
    check_lanes(run, before, num_lanes)
    # What stands before a place was dealt before it, but for a stretch: twice as long
    # is the last one of some weights.
    most = 2 * setting.balance.stretch * (state.ranks or 1)
    for end in range(0, len(order) + 1, 40):
        assert (Counter(before[:end]) - Counter(order[:end])).total() <= most
    return order


def joined(parts: Iterator[Any]) -> list[int]:
    """What is found in parts, and nothing in between."""
    found = finished(gathered(parts)).numbers
    return [int(one) for one in found]


def check_lanes(run: Run, order: list[int], num_lanes: int) -> None:
    """Each lane takes the next of its own from each dataset, epoch after epoch."""
    numbers = np.array(order)
    datasets = run.index.dataset_of(numbers)
    lanes = np.arange(len(order)) % num_lanes
    for number, index in enumerate(run.indexes):
        size = index.num_sequences
        seen = set[tuple[int, int]]()
        taken = dict[int, int]()
        for at in np.flatnonzero(datasets == number).tolist():
            lane = int(lanes[at])
            local = taken.get(lane, 0) * num_lanes + lane
            taken[lane] = taken.get(lane, 0) + 1
            place = local // size, order[at]
            assert place not in seen
            seen.add(place)


class PlannedRun:
    """A run that is killed and goes on, as a seed decides."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.setting = setting_of(number)
        self.is_mixture = self.setting.is_mixture
        self.options: dict[str, Any] = {"max_steps": MAX_STEPS}
        if not self.is_mixture:
            self.options = {
                "epochs": self.chance.choice([1, 1, 2]),
                "drop_last": self.chance.random() < 0.5,
            }
        sizes = self.any_sizes()
        self.run = run_of(self.setting, sizes, **self.options)
        self.model = RunModel(*sizes, **self.model_options())
        first = self.chance.randrange(3) * self.model.epochs
        self.state = self.run.beginning(first)
        self.model.begin_again(first)
        self.seen: dict[int, int] = {}
        """What was delivered of the epoch of a mixture, by position."""
        self.seen_in = first

    def any_sizes(self) -> tuple[int, int]:
        batch_size = 1 if self.setting.has_budget else self.chance.randint(1, 6)
        # Lanes of a mixture may be fewer than ranks, or divide unevenly.
        if self.is_mixture and self.chance.random() < 0.3:
            return 1, self.chance.choice([5, 9, 20])
        return batch_size, self.chance.choice([1, 2, 3, 4])

    def model_options(self) -> dict[str, Any]:
        if self.is_mixture:
            return {"max_steps": MAX_STEPS}
        return {
            "epoch_size": self.run.index.num_sequences,
            "balanced": self.setting.balance is not None,
            **self.options,
        }

    def live(self) -> int:
        """Live through the run; returns the number of its parts."""
        parts = self.chance.randint(1, 6)
        for _ in range(parts):
            self.go_on()
            # The number of an incomplete last step is not the model's after a skip.
            if self.model.drop_last and self.chance.random() < 0.3:
                self.skip()
            if self.is_mixture and self.chance.random() < 0.4:
                self.set_weights()
            self.take()
            self.resume()
        return parts

    def go_on(self) -> None:
        """The end of an iteration is the beginning of the next."""
        self.state = self.run.going_on(self.state)
        self.model.settle()
        self.model.running = True
        assert self.run.at(self.state).step == self.model.step

    def take(self) -> None:
        """Some steps, or all that are left."""
        steps = self.model.steps()
        num_taken = min(len(steps), self.chance.choice([1, 2, 5, 300]))
        order = self.order_now() if self.is_mixture else []
        found, self.state = given_to_all(self.run, self.state, num_taken)
        for row, step in zip(found.tolist(), steps, strict=False):
            expected = (
                [order[p] for p in self.dealt(step.positions)]
                if order
                else (self.sequences(step.positions))
            )
            if order:
                self.seen |= {p: order[p] for p in step.positions}
            if len(expected) == self.model.step_size:
                assert row == expected
            else:
                assert sorted(each for each in row if each >= 0) == sorted(expected)
        if num_taken:
            self.model.position = steps[num_taken - 1].positions[-1] + 1
            self.model.taken = True
        assert self.state.first_epoch == self.model.first_epoch
        if not self.model.is_finished:
            assert self.run.at(self.state).step == self.model.step

    def dealt(self, positions: list[int]) -> list[int]:
        """The positions of a step in the order of rows and ranks."""
        lanes, epoch = self.state.num_lanes, self.state.first_epoch
        return dealt(positions, self.model.world_size, lanes, SEED, epoch)

    def order_now(self) -> list[int]:
        """The order of a mixture's epoch; what was delivered stays where it was."""
        if self.state.first_epoch != self.seen_in:
            self.seen, self.seen_in = {}, self.state.first_epoch
        plain: dict[str, Any] = {"skipped": (), "sizes": None, "ended": None}
        first = replace(self.state, position=0, step=0, **plain)
        order = order_of_mixture(self.setting, first)
        assert {p: order[p] for p in self.seen} == self.seen
        return order

    def sequences(self, positions: list[int]) -> list[int]:
        """What stands at positions of epochs of one dataset."""
        found = []
        for position in positions:
            epoch, place = divmod(position, self.model.epoch_size or 1)
            ranks = self.model.ranks_of(epoch) if self.model.balanced else 1
            found.append(order_of(self.setting, epoch, ranks)[place])
        return found

    def skip(self) -> None:
        ahead = [step.number for step in self.model.steps()]
        first = self.chance.randrange(len(ahead))
        gone = ahead[first : first + self.chance.randint(1, 4)]
        anchor = self.model.anchor
        if len(gone) < len(ahead) and self.model.skip(set(gone)):
            self.state = self.state.skipping(self.run.at(self.state).route, gone)
            self.model.anchor = anchor  # The state stays where it is.

    def set_weights(self) -> None:
        weights = {name: float(self.chance.randint(0, 5)) for name in ROWS}
        if any(weights.values()):
            self.state = self.run.reweighted(self.state, weights, 0)

    def resume(self) -> None:
        """Killed; the state goes to loaders of other sizes, some rows perhaps gone."""
        sizes = self.any_sizes()
        if self.setting.data in ERASED and self.chance.random() < 0.1:
            self.options = {**self.options, "erased": True}
        text = json.dumps(self.state.to_dict())
        assert len(text) < 3000
        self.run = run_of(self.setting, sizes, **self.options)
        self.state = self.run.accept(LoaderState.from_dict(json.loads(text)))
        is_open = self.model.is_finished and self.model.skipped
        self.model = self.model.resized(*sizes)
        if is_open:  # A skip of the last steps leaves the number after them open.
            self.model.anchor = self.model.place, self.state.step
