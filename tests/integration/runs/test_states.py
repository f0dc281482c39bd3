"""States are checked like any input, and outlive settings that change nothing."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.numbered import LENGTH, first_tokens, numbered_loader
from pagefeed.core.run import MOST_RANGES
from pagefeed.core.sequences.cut import TokenCut
from pagefeed.errors import StateMismatchError
from scaled import scaled

USUAL_LANES = 48
"""Runs have so many at the usual numbers of ranks."""


@pytest.fixture(scope="module")
def loader(folder):
    return numbered_loader(folder)


@pytest.fixture(scope="module")
def mixed(folder):
    dataset = pf.parquet(folder, column="input_ids")
    mixture = pf.mix({"a": (dataset, 0.7), "b": (dataset, 0.3)}, max_steps=50)
    return pf.Loader(mixture, sequences=pf.Windows(LENGTH), batch_size=4, seed=5)


@pytest.mark.parametrize(
    "change",
    [
        {"position": -4},
        {"position": 10**6},
        {"position": 1.5},
        {"position": True},
        {"epoch": -1},
        {"epoch": 10**30},
        {"step": "3"},
        {"first_epoch": 1},
        {"num_lanes": 0},
        {"num_lanes": 10**9},
        {"num_lanes": None},
        {"sizes": [4]},
        {"sizes": [0, 1]},
        {"sizes": 4},
        {"skipped": 7},
        {"skipped": [[5, 3]]},
        {"skipped": [5, 3]},
        {"skipped": [5, 3, -1]},
        {"skipped": [-5, 3, 1]},
        {"skipped": [5, 3, 1, 0, 2]},
        {"skipped": [5, 3, 2]},
        {"skipped": [0, 1 << 62, 1, 3, 7]},
        {"skipped": [0, 1, 1, *[1, 1] * MOST_RANGES]},
        {"seed": "5"},
        {"dataset": None},
        {"sequences": 7},
        {"version": 99},
        {"ended": 7},
        {"ended": {"position": -4}},
        {"ended": {"ended": {}}},
        {"sampler_iter_state": 3},
        {"epoch": None, "position": None},
    ],
)
def test_a_state_that_no_loader_saved_is_refused(loader, change):
    before = loader.state_dict()
    with pytest.raises(StateMismatchError):
        loader.load_state_dict(before | change)
    assert loader.state_dict() == before


def test_as_many_lanes_as_are_usual_load_on_few_pages(tmp_path):
    table = pa.table({"input_ids": [[*range(100)]] * 10})
    pq.write_table(table, tmp_path / "a.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    loader = pf.Loader(data, sequences=pf.Windows(10), batch_size=4)
    state = loader.state_dict()
    loader.load_state_dict(state | {"num_lanes": USUAL_LANES})
    with pytest.raises(StateMismatchError, match=f"at most {USUAL_LANES} "):
        loader.load_state_dict(state | {"num_lanes": USUAL_LANES + 1})


def test_what_a_state_lacks_or_has_too_is_named(loader):
    state = loader.state_dict()
    lacking = {name: state[name] for name in state if name not in ("epoch", "seed")}
    for other, message in [
        (lacking, "it lacks epoch, seed; expected"),
        (state | {"sampler": 3, "rng": 4}, "it has sampler, rng too; expected"),
        (lacking | {"rng": 4}, "it lacks epoch, seed and has rng too; expected"),
    ]:
        with pytest.raises(StateMismatchError, match=message):
            loader.load_state_dict(other)


@pytest.mark.parametrize("state", [None, [], 3, "state", [("epoch", 1)]])
def test_what_is_no_dict_is_refused(loader, state):
    with pytest.raises(StateMismatchError, match="a state is the dict"):
        loader.load_state_dict(state)
    loader.load_state_dict({})


@pytest.mark.parametrize(
    "change",
    [
        None,
        {},
        {"datasets": [], "stages": [], "digest": ""},
        {"stages": []},
        {"stages": [[3, 0, [1, 1]]]},
        {"stages": [[0, 0, [1, 1]], [0, 0, [1, 2]]]},
        {"stages": [[0, 0, [1, 1]], [0, 3, [1, 2]], [0, 3, [2, 1]]]},
        {"stages": [[0, 0, [1, 1]], [8, 3, [1, 2]], [8, 3, [2, 1]]]},
        {"stages": [[0, 0, [1]]]},
        {"stages": [[0, 0, [0, 0]]]},
        {"stages": [[0, 0, [2, -1]]]},
        {"stages": [[0, 0, [1, 1]], [9, 0, [-0.5, 1.5]]]},
        {"stages": [[0, 0, [math.nan, 1]]]},
        {"stages": [[0, 0, [math.inf, 1]]]},
        {"stages": [[0, -1, [1, 1]]]},
        {"datasets": [["a", "0", 0, 0, None]]},
    ],
)
def test_a_mixture_that_no_run_had_is_refused(mixed, change):
    state = mixed.state_dict()
    mixture = change if not change else state["mixture"] | change
    with pytest.raises(StateMismatchError):
        mixed.load_state_dict(state | {"mixture": mixture})


def write_files(folder, sizes):
    folder.mkdir()
    for name, rows in sizes.items():
        ids = [[100 * len(name), row, rows] for row in range(rows)]
        pq.write_table(pa.table({"input_ids": ids}), folder / f"{name}.parquet")


def open_files(dataset, **options):
    settings: dict[str, Any] = {"sequences": pf.Windows(4), "batch_size": 2, "seed": 1}
    return pf.Loader(dataset, **settings | options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"a": 20, "b": 30, "c": 5},
            "files then 2, now 3; rows in them then 50, now 55; tokens in them then 1",
        ),
        ({"a": 20, "b": 31}, "dataset: rows in them then 50, now 51"),
        # The second file was called "b": it comes first now.
        ({"0": 30, "a": 20}, "in another order, or written again; a file that was"),
        ({"a": 20, "bb": 30}, "in another order, or written again"),
        ({"a": 25, "b": 25}, "a file was written again, or another column is read"),
    ],
)
def test_data_that_changed_are_told_by_what_people_know(tmp_path, changed, message):
    write_files(tmp_path / "then", {"a": 20, "b": 30})
    write_files(tmp_path / "now", changed)
    then, now = (
        pf.parquet(tmp_path / at, column="input_ids") for at in ("then", "now")
    )
    state = open_files(then).state_dict()
    with pytest.raises(StateMismatchError) as caught:
        open_files(now).load_state_dict(state)
    assert message in str(caught.value)
    assert "not its place" not in str(caught.value)


def test_renamed_files_in_the_same_order_are_no_change(tmp_path):
    write_files(tmp_path / "then", {"a": 20, "b": 30})
    state = open_files(pf.parquet(tmp_path / "then", column="input_ids")).state_dict()
    assert len(json.dumps(state)) < 500
    (tmp_path / "now" / "x").mkdir(parents=True)
    for old, new in {"a": "m", "b": "x/zz"}.items():
        (tmp_path / "then" / f"{old}.parquet").rename(
            tmp_path / "now" / f"{new}.parquet"
        )
    open_files(pf.parquet(tmp_path / "now", column="input_ids")).load_state_dict(state)
    # A name that sorts elsewhere is no change either if the paths are given in order.
    (tmp_path / "now" / "m.parquet").rename(tmp_path / "now" / "z.parquet")
    with pytest.raises(StateMismatchError, match="give the paths as a list"):
        open_files(pf.parquet(tmp_path / "now", column="input_ids")).load_state_dict(
            state
        )
    paths = [tmp_path / "now" / "z.parquet", tmp_path / "now" / "x" / "zz.parquet"]
    open_files(pf.parquet(paths, column="input_ids")).load_state_dict(state)


def test_the_setting_that_changed_is_named(tmp_path):
    write_files(tmp_path / "data", {"a": 20, "b": 30})
    data = pf.parquet(tmp_path / "data", column="input_ids")
    state = open_files(data).state_dict()
    parts = data.split(train=0.5, rest=0.5)
    for other, message in {
        open_files(parts["train"]): "files are the same, and other rows of them",
        open_files(data, seed=2): "seed: the state has 1, this loader 2",
        open_files(data, sequences=pf.Windows(8)): "Windows(length=4)', this loader 'W",
        open_files(data, shuffle=None): "shuffle: the state has \"Shuffle('page')\"",
    }.items():
        with pytest.raises(StateMismatchError) as caught:
            other.load_state_dict(state)
        assert message in str(caught.value)
        assert str(caught.value).count("\n  ") == 1


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(-3, 9), max_size=3)
    | st.lists(st.lists(st.integers(-3, 9), max_size=3), max_size=3)
)


@settings(max_examples=scaled(300))
@given(data=st.data())
def test_any_state_is_taken_or_refused_by_type(loader, mixed, data):
    one = data.draw(st.sampled_from([loader, mixed]))
    state = one.view().run.beginning(0).to_dict()
    changes = data.draw(
        st.dictionaries(st.sampled_from(sorted(state)), VALUES, min_size=1, max_size=3)
    )
    one.set_epoch(0)
    try:
        one.load_state_dict(json.loads(json.dumps(state | changes)))
    except StateMismatchError:
        return
    try:
        assert one.state_dict() == state | changes
        assert one.epoch >= 0
        first_tokens(next(iter(one)))
    finally:
        one.load_state_dict(state)


# What identifies a plan.


@dataclass(frozen=True, repr=False)
class Before(TokenCut):
    tail: str = "pad"

    def index(self, spans: Any) -> Any:
        """Cut nothing."""


@dataclass(frozen=True, repr=False)
class Later(TokenCut):
    added: int = field(default=0, kw_only=True)
    tail: str = field(default="pad", kw_only=True)

    def index(self, spans: Any) -> Any:
        """Cut nothing."""


def test_a_new_setting_at_its_default_changes_no_identity():
    def body(settings: Any) -> str:
        return settings.identity.partition("(")[2]

    assert body(Before(7)) == body(Later(7)) == "length=7)"
    assert body(Before(7, "drop")) == body(Later(7, tail="drop"))
    assert body(Later(7, added=3)) != body(Later(7))


def test_more_columns_of_documents_keep_their_states(folder):
    first = numbered_loader(folder, sequences=pf.Documents())
    first.seek(5)
    more = pf.Documents(columns=["input_ids"], max_length=7, pad="max_length")
    resumed = numbered_loader(folder, sequences=more)
    resumed.load_state_dict(first.state_dict())
    assert next(iter(resumed))["input_ids"].shape == (4, 7)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"shuffle": "page"}, {"shuffle": "row"}),
        ({"shuffle": "page"}, {"shuffle": pf.Shuffle(passes=2)}),
        ({"shuffle": pf.Shuffle(window=8)}, {"shuffle": pf.Shuffle(window=9)}),
        ({"shuffle": pf.Shuffle(window=8)}, {"shuffle": pf.Shuffle(window="8B")}),
        ({"sequences": pf.Windows(32)}, {"sequences": pf.Windows(33)}),
        ({"sequences": pf.Windows(32)}, {"sequences": pf.Windows(32, "drop")}),
        ({"sequences": pf.Windows(32)}, {"sequences": pf.Windows(32, eos=0)}),
        ({"sequences": pf.Windows(32)}, {"sequences": pf.Packed(32)}),
        ({"sequences": pf.Packed(32)}, {"sequences": pf.Packed(32, split="never")}),
        ({"sequences": pf.Packed(32)}, {"sequences": pf.Packed(32, method="greedy")}),
        ({"sequences": pf.Windows(32)}, {"sequences": pf.Documents()}),
        ({"seed": 1}, {"seed": 2}),
    ],
)
def test_another_cut_or_order_is_another_plan(folder, ours, theirs):
    state = numbered_loader(folder, **theirs).state_dict()
    with pytest.raises(StateMismatchError, match="another run"):
        numbered_loader(folder, **ours).load_state_dict(state)


def test_a_window_of_as_many_bytes_is_the_same_plan(folder):
    state = numbered_loader(folder, shuffle=pf.Shuffle(window="1KiB")).state_dict()
    loader = numbered_loader(folder, shuffle=pf.Shuffle(window="1024 B"))
    loader.load_state_dict(state)
    assert loader.state_dict() == state
