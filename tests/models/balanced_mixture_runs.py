"""A state machine of whole runs of a mixture whose ranks are balanced."""

import functools
import json
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize

import pagefeed as pf
from models.machines import SIZES
from models.mixture_runs import FAR, MAX_STEPS, MixtureMachine, mixture_loader
from models.run_model import RunModel
from models.runs import BALANCED, rows_of_file
from pagefeed.core._base import finished
from pagefeed.core.run import gathered
from pagefeed.run import LoaderState

NUM_POSITIONS = 16 * FAR
"""Positions that a timeline has: more than any run comes to."""


@functools.lru_cache(maxsize=64)
def timeline(order: int, told: str) -> "BalancedTimeline":
    return BalancedTimeline(order, json.loads(told))


class BalancedTimeline:
    """What a mixture delivers at each position, as a state says.

    An order is cut where a run ends, so that a state of a run that goes on at other
    sizes has another one, from some place ahead on.
    """

    def __init__(self, order: int, state: dict[str, Any]) -> None:
        run = mixture_loader(FAR, **BALANCED[order]).view().run
        begin = LoaderState.from_dict(state)
        sequences = finished(gathered(run.at(begin).at(range(NUM_POSITIONS))))
        known, which = np.unique(sequences.numbers, return_inverse=True)
        firsts = [self.first_token(run, int(one)) for one in known.tolist()]
        self.tokens = [firsts[one] for one in which.tolist()]

    @staticmethod
    def first_token(run: Any, sequence: int) -> int:
        origin, *_ = run.origins(sequence)
        return int(rows_of_file(origin.file)[origin.row][origin.first_token])

    def token(self, position: int) -> int:
        return self.tokens[position]

    def check(self) -> None:
        """What stands where is held by other tests, against what is not balanced."""


class BalancedMixtureMachine(MixtureMachine):
    """A mixture with balance: what was delivered stays whatever comes later."""

    chosen: int
    """Which order with balance it has."""

    @initialize(sizes=SIZES, chosen=st.integers(0, len(BALANCED) - 1))
    def start(self, sizes: tuple[int, int], chosen: int) -> None:
        self.chosen = chosen
        batch_size, world_size = sizes
        self.begin(
            RunModel(batch_size=batch_size, world_size=world_size, max_steps=MAX_STEPS)
        )
        self.set_timeline()

    def loader(self, max_steps: int, **options: Any) -> pf.Loader:
        return mixture_loader(max_steps, **options, **BALANCED[self.chosen])

    def timeline_of(self, state: dict[str, Any]) -> BalancedTimeline:
        plain = {name: value for name, value in state.items() if name != "ended"}
        plain |= {"position": 0, "step": 0, "skipped": [], "sizes": None}
        return timeline(self.chosen, json.dumps(plain, sort_keys=True))

    def set_timeline(self) -> None:
        self.timeline_epoch = self.model.first_epoch
        fresh = self.make(0, self.model.world_size, self.model.batch_size)
        fresh.set_epoch(self.timeline_epoch)
        self.timeline = self.timeline_of(fresh.state_dict())  # type: ignore[assignment]

    def load_one(self, loader: pf.Loader, state: Any) -> None:
        """What was delivered stays, and what comes up to the end that was known."""
        super().load_one(loader, state)
        now = loader.state_dict()
        later, before = self.timeline_of(now), self.timeline
        if now["first_epoch"] == self.timeline_epoch:
            # Steps of other sizes end elsewhere: up to the end that was known it stays.
            place = max([now["position"], *state.get("cuts", [])])
            assert [later.token(p) for p in range(place)] == [
                before.token(p) for p in range(place)
            ]
        self.timeline, self.timeline_epoch = later, now["first_epoch"]  # type: ignore[assignment]

    def weigh(self, new: dict[str, float]) -> None:
        del new
        state = self.loaders[0].state_dict()
        self.model._move(self.model.position)
        later, place = self.timeline_of(state), state["position"]
        assert [later.token(p) for p in range(place)] == [
            self.timeline.token(p) for p in range(place)
        ]
        self.timeline = later  # type: ignore[assignment]
