"""Every state that a run can reach survives JSON, and resumes to the same sequences."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.flat_files import write_arrow
from made.shuffles import PAGES
from models.released import write_dataset
from pagefeed.core._base import finished
from pagefeed.core.run import gathered
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from scaled import scaled

Make = Callable[[int, int], pf.Loader]
"""Makes a loader of a batch size and a world size."""

NAMES = ("code", "math", "web")
AHEAD = 100
"""Sequences that are compared from a state on."""
TAKEN = 3
"""Steps of real batches that are compared."""


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for number, name in enumerate(NAMES):
        write_dataset(folder / name, seed=number, first_token=10**6 * number)
    found = {name: pf.parquet(folder / name, column="input_ids") for name in NAMES}
    few = found["math"].split(few=0.05, many=0.95, seed=1)["few"]
    rows = [row["input_ids"] for row in found["code"]]
    lists = {"input_ids": pa.list_(pa.int64())}
    path = write_arrow(folder / "code.arrow", {"input_ids": rows}, lists)
    table = [{"input_ids": row["input_ids"]} for row in found["web"]]
    own = pf.rows(table, column="input_ids", lengths=[*map(_length, table)])
    return {"code": pf.arrow(path, column="input_ids"), "math": few, "web": own}


def _length(row: dict[str, list[int]]) -> int:
    return len(row["input_ids"])


WEIGHTS = st.fixed_dictionaries(
    {name: st.sampled_from([0, 0.1, 1, 3]) for name in NAMES}
).filter(lambda weights: any(weights.values()))
STARTS = st.sampled_from([0, 0, 1, 4, 9])
ANNEALS = st.sampled_from([0, 1, 5, 40])
SIZES = st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4]))
SEQUENCES = st.sampled_from(
    [
        pf.Windows(8),
        pf.Windows(8, tail="drop", eos=1),
        pf.Packed(8, eos=1),
        pf.Documents(columns=["input_ids"], max_length=8),
    ]
)
ENDS: list[dict[str, Any]] = [
    {},
    {"max_steps": 12},
    {"max_tokens": 900},
    {"stop": "first_exhausted"},
    {"stop": "all_exhausted"},
    {"max_epochs": {"math": 1}},
    {"max_epochs": dict.fromkeys(NAMES, 2)},
]


@st.composite
def stages(draw: st.DrawFn) -> list[pf.Stage]:
    starts = sorted(draw(st.sets(STARTS, max_size=3)))
    unit, scale = draw(st.sampled_from([("start_step", 1), ("start_tokens", 40)]))
    return [
        pf.Stage(
            weights=draw(WEIGHTS),
            anneal=draw(ANNEALS) * scale,
            **{unit: start * scale},
        )
        for start in starts
    ]


@st.composite
def mixtures(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "weights": draw(WEIGHTS),
        "stages": draw(stages()),
        "unit": draw(st.sampled_from(["tokens", "sequences"])),
        **draw(st.sampled_from(ENDS)),
    }


BALANCES = [pf.Balance(attention=1, stretch=8, exact=exact) for exact in (False, True)]
RUNS = st.fixed_dictionaries(
    {
        "sequences": SEQUENCES,
        "shuffle": st.sampled_from(["page", "row", None, PAGES]),
        "balance": st.sampled_from([None, *BALANCES]),
        "drop_last": st.booleans(),
    }
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 9)),
        st.tuples(st.just("finish"), st.none()),
        st.tuples(st.just("seek"), st.integers(0, 40)),
        st.tuples(st.just("skip"), st.sets(st.integers(0, 12), min_size=1, max_size=4)),
        st.tuples(st.just("set_epoch"), st.integers(0, 3)),
        st.tuples(st.just("set_weights"), st.tuples(WEIGHTS, ANNEALS)),
        st.tuples(st.just("resume"), SIZES),
    ),
    max_size=6,
)


def moved(loader: pf.Loader, make: Make, move: tuple[str, Any]) -> pf.Loader:
    """The loader after a move; it stays where a refused one left it."""
    what, value = move
    try:
        if what == "take":
            list(itertools.islice(loader, value))
        elif what == "finish" and loader.num_steps_left is not None:
            loader.seek(loader.step + loader.num_steps_left)
        elif what == "skip":
            loader.skip({loader.step + ahead for ahead in value})
        elif what == "set_weights":
            loader.set_weights(value[0], anneal=value[1])
        elif what == "resume":
            other = make(*value)
            state = json.loads(json.dumps(loader.state_dict()))
            return other if loads(other, state) else loader
        elif what == "seek":
            loader.seek(value)
        elif what == "set_epoch":
            loader.set_epoch(value)
    except InvalidArgumentError:
        pass
    return loader


def loads(loader: pf.Loader, state: dict[str, Any]) -> bool:
    """Load a state, unless these sizes make ``max_steps`` end before it."""
    try:
        loader.load_state_dict(state)
    except StateMismatchError as error:
        if "this loader ends after" in str(error):
            return False
        raise
    return True


def ahead(loader: pf.Loader) -> list[int]:
    """Sequences at the positions that follow the loader's state."""
    session = loader.view()
    track = session.run.at(session.position.saved)
    stop = track.start + AHEAD
    stop = stop if track.end is None else min(stop, track.end)
    if loader.balance is not None and not isinstance(loader.dataset, pf.Mixture):
        # The next epoch is balanced for the ranks that begin it.
        size = loader.num_sequences
        stop = min(stop, (track.start // size + 1) * size)
    found = finished(gathered(track.at(range(track.start, stop))))
    return [int(one) for one in found.numbers]


def batches(loader: pf.Loader) -> list[list[list[int]]]:
    return [b["input_ids"].tolist() for b in itertools.islice(loader, TAKEN)]


def without_cuts(state: dict[str, Any]) -> dict[str, Any]:
    """A state without where its order is cut, nor that of the iteration before."""
    ended = {k: v for k, v in state.get("ended", {}).items() if k != "cuts"}
    return {k: v for k, v in state.items() if k != "cuts"} | {"ended": ended}


def check(make: Make, moves: list[tuple[str, Any]], sizes: tuple[int, int]) -> None:
    """Load the state after each move into new loaders, of the same and other sizes."""
    loader = make(2, 1)
    for move in [("take", 0), *moves]:
        loader = moved(loader, make, move)
        state = json.loads(json.dumps(loader.state_dict()))
        same, other = make(loader.batch_size, loader.world_size), make(*sizes)
        same.load_state_dict(state)
        assert same.state_dict() == state
        assert ahead(same) == ahead(loader)
        if loads(other, state):
            resumed = other.state_dict()
            cuts = resumed.get("cuts"), state.get("cuts", [])
            assert without_cuts(resumed) == without_cuts(state)
            both = list(zip(ahead(other), ahead(loader), strict=False))
            if cuts[0] and cuts[0] != cuts[1]:
                # Steps of other sizes end elsewhere. Up to the end that was known the
                # order stays, and behind it balance moves nothing over the new one.
                assert cuts[0][: len(cuts[1])] == cuts[1]
                both = both[: max(0, max(cuts[1], default=0) - state["position"])]
            for one, two in both:
                assert one == two
    loader.load_state_dict(loader.state_dict())  # Not the begin of its iteration.
    assert batches(same) == batches(loader)


@pytest.mark.filterwarnings("ignore:set_epoch.* goes back")
@settings(max_examples=scaled(40), phases=[Phase.explicit, Phase.generate])
@given(run=RUNS, epochs=st.sampled_from([1, 2, None]), moves=MOVES, sizes=SIZES)
def test_states_of_one_dataset(datasets, run, epochs, moves, sizes):
    def make(batch_size: int, world_size: int) -> pf.Loader:
        return loader_of(datasets["web"], batch_size, world_size, epochs=epochs, **run)

    check(make, moves, sizes)


@pytest.mark.filterwarnings("ignore:set_epoch.* goes back")
@pytest.mark.timeout(400)  # 20 s, and many times that beside other work.
@settings(max_examples=scaled(40), phases=[Phase.explicit, Phase.generate])
@given(run=RUNS, options=mixtures(), moves=MOVES, sizes=SIZES)
def test_states_of_mixtures(datasets, run, options, moves, sizes):
    weights = options.pop("weights")
    parts = {name: (datasets[name], weights[name]) for name in NAMES}

    def make(batch_size: int, world_size: int) -> pf.Loader:
        mixed = pf.mix(parts, **options)
        epochs = 1 if mixed.has_end else None
        return loader_of(mixed, batch_size, world_size, epochs=epochs, **run)

    try:
        next(iter(make(2, 1)))
        make(*sizes)  # A stage begins later in steps of more sequences.
    except InvalidArgumentError:
        return  # All datasets with a weight run out before a stage begins, or the like.
    check(make, moves, sizes)


def test_an_end_before_skipped_steps_is_the_last_step(datasets):
    def make(batch_size: int, world_size: int) -> pf.Loader:
        parts = {name: (datasets[name], 1) for name in NAMES}
        sequences = pf.Windows(8)
        mixed = pf.mix(parts, max_steps=12)
        return loader_of(mixed, batch_size, world_size, sequences=sequences)

    resumed = [("resume", (4, 3)), ("skip", {3, 6, 7}), ("seek", 0), ("resume", (1, 3))]
    check(make, [*resumed, ("finish", None)], (4, 4))


def test_an_end_may_be_cut_elsewhere_by_other_sizes(datasets):
    def make(batch_size: int, world_size: int) -> pf.Loader:
        weights = {"math": 0.0, "code": 0.1, "web": 3.0}
        stages = [
            pf.Stage(
                weights={"web": 1, "code": 1, "math": 0.1}, start_step=0, anneal=5
            ),
            pf.Stage(weights={"code": 0, "math": 3, "web": 1}, start_step=9, anneal=1),
        ]
        parts = {name: (datasets[name], weight) for name, weight in weights.items()}
        return loader_of(
            pf.mix(parts, stages=stages, max_steps=12),
            batch_size,
            world_size,
            sequences=pf.Packed(8, eos=1),
            balance=pf.Balance(attention=1.0, stretch=8, exact=True),
        )

    moves = [
        *(("seek", 7), ("finish", None)),
        ("set_weights", ({"code": 0.1, "math": 0, "web": 3}, 1)),
        ("take", 1),
        ("set_weights", ({"math": 3, "code": 0.1, "web": 0}, 40)),
        ("set_epoch", 0),
    ]
    check(make, moves, (2, 3))


def test_weights_that_leave_nothing_end_a_run_there(datasets):
    def make(batch_size: int, world_size: int) -> pf.Loader:
        parts = {"math": (datasets["math"], 1), "web": (datasets["web"], 0.1)}
        mixed = pf.mix(parts, stop="all_exhausted")
        sequences = pf.Documents(columns=["input_ids"], max_length=8)
        return loader_of(mixed, batch_size, world_size, sequences=sequences)

    check(make, [("seek", 30), ("set_weights", ({"math": 1}, 1))], (1, 2))


def loader_of(data: Any, batch_size: int, world_size: int, **options: Any) -> pf.Loader:
    return pf.Loader(
        data,
        batch_size=batch_size,
        rank=0,
        world_size=world_size,
        seed=3,
        memory="8MiB",
        num_threads=1,
        **options,
    )
