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
    UnsupportedError,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    write_texts(path)
    return path


@pytest.fixture(scope="module")
def stream(folder):
    return pf.parquet(folder, column="text")


NUMBERS: dict[str, Any] = {
    "seek": lambda loader: loader.seek(3),
    "skip": lambda loader: loader.skip([3]),
    "locate": lambda loader: loader.locate(0, 0),
    "plan": lambda loader: loader.plan([0]),
    "steps_of": lambda loader: loader.steps_of("0.parquet", 0),
    "num_sequences": lambda loader: loader.num_sequences,
    "set_weights": lambda loader: loader.set_weights({"a": 1}),
    "at": lambda loader: loader.at(0, rank=0, world_size=1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_needs_numbers_is_no_method(stream, name):
    loader = open_loader(stream)
    with pytest.raises(AttributeError, match=f"no '{name}'.*pagefeed count"):
        NUMBERS[name](loader)
    assert not hasattr(loader, name)
    with pytest.raises(TypeError, match="no len"):
        len(loader)
    with pytest.raises(AttributeError, match="did you mean 'stats'"):
        loader.stat  # noqa: B018 - looked up
    with pytest.raises(InvalidArgumentError, match="it is iterated"):
        loader[3]
    assert next(iter(loader))["input_ids"].shape == (1, LENGTH)


REPORTS: dict[str, Any] = {
    "verify": pf.verify,
    "forecast": pf.forecast,
    "smoke": pf.smoke,
    "report": pf.report,
    "trace": lambda loader: pf.trace(loader, 0),
    "diagnose": lambda loader: pf.diagnose(loader).__enter__(),
    "step_costs": pf.reports.step_costs,
    "plan_digest": pf.reports.plan_digest,
    "replay": lambda loader: next(pf.reports.replay(loader, [0])),
    "inspect": pf.inspect,
    "mix": lambda loader: pf.mix({"a": loader}),
    "SequenceView": lambda loader: pf.SequenceView(loader, pf.Windows(8)),
    "Loader": lambda loader: pf.Loader(loader, sequences=pf.Windows(8), batch_size=1),
    "Learner": pf.mixing.Learner,
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_goes_by_numbers_refuses_it(stream, name):
    loader = open_loader(stream)
    with pytest.raises(InvalidArgumentError, match="TextLoader"):
        REPORTS[name](loader)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epochs": 1, "world_size": 2}, "epochs=None"),
        ({"memory": 1}, "more memory"),
        ({"fields": ("input_ids", "metadata")}, "metadata"),
        ({"fields": ("input_ids", "dataset_ids")}, "dataset_ids"),
        ({"fields": ("input_ids", "labls")}, "labels"),
        ({"sequences": pf.Packed(8, multiple_of=2)}, "context parallelism"),
        ({"sequences": pf.Documents()}, "Windows"),
        ({"sequences": 2048}, "Windows"),
        ({"sequences": pf.Windows(8, overlap=2)}, "overlap"),
        ({"sequences": pf.Windows(8, join="file")}, "join"),
        ({"shuffle": "row"}, "rows inside each.*'page'"),
        ({"shuffle": "pge"}, "did you mean 'page'"),
        ({"shuffle": pf.Shuffle(window=100)}, "window=100"),
        ({"shuffle": []}, "shuffle"),
        ({"world_size": 500}, "500 ranks"),
        ({"vocab_size": 256}, "256"),
        ({"padding": -1, "dtype": "uint16"}, "padding"),
        ({"tokenizer": "gpt2"}, "tokenizer='gpt2'"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": "a"}, "seed"),
        ({"transform": 3}, "transform"),
        ({"epochs": 0}, "epochs"),
        ({"num_threads": 0}, "num_threads"),
        ({"format": "tf"}, "format"),
    ],
)
def test_refused(stream, given, words):
    with pytest.raises(InvalidArgumentError, match=words):
        open_loader(stream, **given)


@pytest.mark.parametrize("name", ["aligned", "metadata", "spans"])
def test_columns_that_would_not_arrive_are_refused(folder, name):
    given: Any = {name: ["good"]}
    with pytest.raises(InvalidArgumentError, match=f"{name}= of the dataset"):
        open_loader(pf.parquet(folder, column="text", **given))


def test_other_datasets_are_refused(stream):
    for dataset, words in (
        ("corpus/", "give pagefeed.parquet"),
        (stream.tokenize(LETTERS), "tokenized already"),
        (pf.mix({"a": stream.tokenize(LETTERS)}, max_steps=1), "no texts of Parquet"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            open_loader(dataset)


def test_states_of_others_are_refused(folder, stream):
    states = []
    for rank in range(2):
        loader = open_loader(stream, rank, 2)
        [*itertools.islice(loader, 3)]
        states.append(loader.state_dict())
    ahead = open_loader(stream, 1, 2)
    next(iter(ahead))
    texts = pf.parquet(folder / "0.parquet", column="text")
    for loader, state, words in [
        (open_loader(stream), states[0], "those of all ranks"),
        (open_loader(stream, 1, 2), states[0], "load the state of this rank"),
        (open_loader(stream), [states[0], states[0]], "two of the states"),
        (
            open_loader(stream, 1, 2),
            states[0] | {"num_lanes": 1, "lanes": "[[0,0,0,0,0]]"},
            "reads one at least",
        ),
        (open_loader(stream), [states[0], ahead.state_dict()], "one step"),
        (open_loader(stream, seed=6), states, "seed: the state has 5"),
        (open_loader(texts), states, "dataset: the state"),
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
    plain = pf.Loader(counted, sequences=pf.Windows(LENGTH, eos=256), batch_size=1)
    with pytest.raises(StateMismatchError):
        plain.load_state_dict(states[0])
    with pytest.raises(StateMismatchError, match="not a state of a TextLoader"):
        open_loader(stream).load_state_dict(plain.state_dict())


def test_wrong_texts_are_named(tmp_path):
    def loader(values, **given):
        pq.write_table(pa.table({"text": values}), tmp_path / "a.parquet")
        texts = pf.parquet(tmp_path / "a.parquet", column="text")
        return open_loader(texts, **given)

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
