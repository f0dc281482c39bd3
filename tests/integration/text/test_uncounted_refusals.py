"""What uncounted text refuses, and the words it does so with."""

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.streamed import LENGTH, LETTERS, open_loader, write_texts
from pagefeed.errors import (
    CorruptFileError,
    EmptySelectionError,
    InvalidArgumentError,
    StateMismatchError,
    TokenRangeError,
    UncountedError,
    UnsupportedError,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    write_texts(path)
    return path


@pytest.fixture(scope="module")
def stream(folder):
    return pf.parquet(folder, column="text").tokenize(LETTERS, count=False)


ASKS: dict[str, Any] = {
    "len": len,
    "seek": lambda loader: loader.seek(3),
    "skip": lambda loader: loader.skip([3]),
    "locate": lambda loader: loader.locate(0, 0),
    "plan": lambda loader: loader.plan([0]),
    "steps_of": lambda loader: loader.steps_of("0.parquet", 0),
    "num_sequences": lambda loader: loader.num_sequences,
    "verify": pf.verify,
    "forecast": pf.forecast,
    "diagnose": lambda loader: pf.diagnose(loader).__enter__(),
    "inspect": lambda loader: pf.inspect(loader.dataset),
}


@pytest.mark.parametrize("ask", ASKS)
def test_what_needs_counts_says_so(stream, ask):
    loader = open_loader(stream)
    with pytest.raises(UncountedError, match="pagefeed count"):
        ASKS[ask](loader)
    assert next(iter(loader))["input_ids"].shape == (1, LENGTH)


def test_others_than_loaders_refuse_it(stream):
    for make in (
        lambda: pf.mix({"a": stream}),
        lambda: pf.SequenceView(stream, pf.Windows(8)),
    ):
        with pytest.raises(UncountedError, match="count its tokens"):
            make()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epochs": 1, "world_size": 2}, "epochs=None"),
        ({"memory": 1}, "more memory"),
        ({"decode": {"text": str}}, "Documents"),
        ({"fields": ("input_ids", "metadata")}, "metadata"),
        ({"sequences": pf.Packed(8, multiple_of=2)}, "context parallelism"),
        ({"sequences": pf.Documents()}, "Windows"),
        ({"sequences": pf.Windows(8, overlap=2)}, "overlap"),
        ({"sequences": pf.Windows(8, join="file")}, "Windows"),
        ({"shuffle": "row"}, "shuffle"),
        ({"shuffle": pf.Shuffle(window=100)}, "window"),
        ({"shuffle": pf.Shuffle(passes=2)}, "passes"),
        ({"world_size": 500}, "500 ranks"),
        ({"vocab_size": 256}, "256"),
    ],
)
def test_refused(stream, given, words):
    with pytest.raises(InvalidArgumentError, match=words):
        open_loader(stream, **given)


def test_states_of_others_are_refused(folder, stream):
    states = []
    for rank in range(2):
        loader = open_loader(stream, rank, 2)
        [*itertools.islice(loader, 3)]
        states.append(loader.state_dict())
    ahead = open_loader(stream, 1, 2)
    next(iter(ahead))
    texts = pf.parquet(folder / "0.parquet", column="text")
    fewer = texts.tokenize(LETTERS, count=False)
    for loader, state, words in [
        (open_loader(stream), states[0], "states of all ranks"),
        (open_loader(stream, 1, 2), states[0], "load the state of this rank"),
        (open_loader(stream), [states[0], states[0]], "two of the states"),
        (open_loader(stream), [states[0], ahead.state_dict()], "one step"),
        (open_loader(stream, seed=6), states, "seed: the state has 5"),
        (open_loader(fewer), states, "dataset: the state"),
        (open_loader(stream), "state", "found 'state'"),
        (open_loader(stream), [{}], "not a state"),
        (
            open_loader(stream),
            states[0] | {"uncounted_version": 9},
            "uncounted_version",
        ),
        (open_loader(stream), states[0] | {"lanes": "[[0,1]]"}, "not what state_dict"),
        (open_loader(stream), states[0] | {"lanes": "x"}, "not what state_dict"),
    ]:
        with pytest.raises(StateMismatchError, match=words):
            loader.load_state_dict(state)
    counted = pf.parquet(folder, column="text").tokenize(LETTERS)
    loader = open_loader(counted, epochs=1)
    with pytest.raises(StateMismatchError):
        loader.load_state_dict(states[0])
    with pytest.raises(StateMismatchError, match="not a state of uncounted text"):
        open_loader(stream).load_state_dict(loader.state_dict())


def test_wrong_texts_are_named(tmp_path):
    def loader(values, **given):
        pq.write_table(pa.table({"text": values}), tmp_path / "a.parquet")
        texts = pf.parquet(tmp_path / "a.parquet", column="text")
        return open_loader(texts.tokenize(LETTERS, count=False), **given)

    cases: list[tuple[Any, Any, Any]] = [
        (pa.array([b"ok", b"\xff"]), {}, CorruptFileError),
        ([1, 2], {}, UnsupportedError),
        (
            ["ok", "ä"],
            {"sequences": pf.Windows(8), "vocab_size": 150},
            TokenRangeError,
        ),
    ]
    for values, settings_given, kind in cases:
        with pytest.raises(kind, match="page 0") as caught:
            next(iter(loader(values, **settings_given)))
        assert caught.value.file == str(tmp_path / "a.parquet")
    with pytest.raises(EmptySelectionError, match="empty or null"):
        next(iter(loader(["", None], sequences=pf.Windows(8))))
