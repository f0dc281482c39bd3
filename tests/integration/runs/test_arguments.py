"""Arguments of wrong types are refused when an object is made, with what to write."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.numbered import first_tokens, numbered_loader, rows_of
from pagefeed.errors import InvalidArgumentError

# Numbers of NumPy, which type checkers do not take for int.
NP: Any = np

NUMBERS: list[Any] = ["7", 1.5, None, True, [], np.float64(3)]

WINDOWS: list[Any] = [None, True, 1.5, -1, "wide", []]


@pytest.fixture(scope="module")
def dataset(folder):
    return pf.parquet(folder, column="input_ids")


WRONG: dict[str, list[Any]] = {
    "sequences": [512, None, "windows", pf.Windows, {"length": 3}],
    "batch_size": [*NUMBERS, 0, -1, 10**30],
    "seed": ["7", 1.5, None, True, []],
    "shuffle": ["pages", 3, ["page"]],
    "memory": [None, True, 1.5, -1, 0, "", "1 parsec", [], 10**30],
    "format": ["jax", None, 1, np],
    "dtype": ["float32", np.float32, np.dtype("int8"), None, 4, [], dict],
    "padding": [None, True, "0", 1.5, 2**63],
    "fields": ["labels", ("lables",), (), 5, (1,), ("labels", "labels")],
    "transform": [3, "f", {}],
    "pin_memory": [None, 1, "yes"],
    "epochs": ["7", 1.5, True, [], 0, -1],
    "drop_last": [None, 1, "no"],
    "rank": ["0", 1.5, True, 1, -1],
    "world_size": ["1", 1.5, True, 0],
    "num_threads": ["7", 1.5, True, [], 0],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(n, v, id=f"{n}={v!r}")
        for n, values in WRONG.items()
        for v in values
    ],
)
def test_a_loader_refuses(folder, name, value):
    with pytest.raises(InvalidArgumentError, match=name):
        numbered_loader(folder, **{name: value})


@pytest.mark.parametrize(
    "value",
    ["folder", Path("folder"), None, 3, [], pf.parquet],
    ids=["text", "path", "None", "number", "list", "function"],
)
def test_no_dataset_is_refused_with_what_to_write(value):
    for make in (
        lambda: pf.Loader(value, sequences=pf.Windows(8), batch_size=1),
        lambda: pf.SequenceView(value, pf.Windows(8)),
    ):
        with pytest.raises(InvalidArgumentError, match=r"give pagefeed\.parquet\("):
            make()


@pytest.mark.parametrize(
    "sizes", [{}, {"batch_size": 2, "batch_tokens": 64}, {"batch_size": None}]
)
def test_exactly_one_size_of_a_step_is_asked_for(dataset, sizes):
    expected = (
        r"Give exactly one of batch_size \(sequences per rank\), batch_tokens \(most "
        r"tokens per rank\) or global_batch_size \(sequences per step, all ranks\)"
    )
    with pytest.raises(InvalidArgumentError, match=expected):
        pf.Loader(dataset, sequences=pf.Windows(8), **sizes)


def test_lengths_alone_are_told_their_class(folder):
    with pytest.raises(InvalidArgumentError, match=r"Windows\(512\)"):
        numbered_loader(folder, sequences=512)


def test_padding_fits_the_type_of_tokens(folder):
    for dtype, padding in (("uint16", -1), ("uint16", 1 << 16), ("int32", 1 << 31)):
        with pytest.raises(InvalidArgumentError, match="padding"):
            numbered_loader(folder, dtype=dtype, padding=padding)


@pytest.mark.parametrize("cut", [pf.Windows, pf.Packed])
@pytest.mark.parametrize("name", ["eos", "bos"])
def test_separators_fit_the_type_of_tokens(folder, cut, name):
    dataset = pf.parquet(folder, column="input_ids")
    message = f"{name}=70000 of {cut.__name__}.* dtype='uint16'.* 65535"
    every: list[tuple[Any, dict[str, int]]] = [
        (pf.Loader, {"batch_size": 2}),
        (pf.SequenceView, {}),
    ]
    for make, sizes in every:
        too_large, fitting = cut(32, **{name: 70_000}), cut(32, **{name: 65_535})
        with pytest.raises(InvalidArgumentError, match=message):
            make(dataset, sequences=too_large, dtype="uint16", **sizes)
        make(dataset, sequences=fitting, dtype="uint16", **sizes)
        make(dataset, sequences=too_large, dtype="int32", **sizes)


@pytest.mark.parametrize("window", [0, 1, 64, "2KiB"])
def test_a_buffer_that_mixes_nothing_is_refused(folder, window):
    data = pf.parquet(folder, column="input_ids")
    for one in (data, pf.mix({"a": data}, max_steps=20)):
        with pytest.raises(InvalidArgumentError, match=r"48 lanes .* give window=96"):
            numbered_loader(one, shuffle=pf.Shuffle(block="buffer", window=window))
        loader = numbered_loader(one, shuffle=pf.Shuffle(block="buffer", window=96))
        assert rows_of(loader) != rows_of(loader)
        numbered_loader(one, shuffle=pf.Shuffle(block="page", window=window))


@pytest.mark.parametrize("steps", [3, [1.0], ["1"], [None], None])
def test_steps_to_skip_are_whole_numbers(folder, steps):
    loader = numbered_loader(folder)
    with pytest.raises(InvalidArgumentError, match="must be whole numbers"):
        loader.skip(steps)
    loader.skip(NP.arange(2))
    assert loader.state_dict()["skipped"] == [0, 8, 1]


def test_numbers_and_types_of_numpy_are_taken(folder):
    settings: dict[str, Any] = {
        "sequences": pf.Windows(NP.int32(32), overlap=NP.int64(0)),
        "batch_size": NP.int64(4),
        "seed": NP.uint8(5),
        "memory": NP.int64(8 << 20),
        "dtype": np.int32,
        "padding": NP.int8(-1),
        "epochs": NP.int64(1),
        "rank": NP.int64(0),
        "world_size": NP.int64(1),
        "num_threads": NP.int64(2),
        "drop_last": NP.bool_(True),
        "shuffle": pf.Shuffle(window=NP.int64(9)),
    }
    loader = numbered_loader(folder, **settings)
    plain = numbered_loader(folder, shuffle=pf.Shuffle(window=9), dtype="int32")
    assert loader.state_dict() == plain.state_dict()
    assert type(loader.state_dict()["seed"]) is int
    ours, theirs = next(iter(loader)), next(iter(plain))
    assert ours["input_ids"].dtype == np.int32
    assert first_tokens(ours) == first_tokens(theirs)
    loader.seek(NP.int64(3))
    loader.set_epoch(NP.int64(0))
    loader.skip(np.array([5, 6]))
    assert loader.state_dict()["skipped"] == [20, 8, 1]


@pytest.mark.parametrize("dtype", [np.int32, np.dtype("int32"), "int32"], ids=repr)
def test_types_by_any_name(folder, dtype):
    assert numbered_loader(folder, dtype=dtype).dtype == "int32"


def test_types_of_torch(folder):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    loader = numbered_loader(folder, dtype=torch.int32, format="torch")
    assert next(iter(loader))["input_ids"].dtype == torch.int32
    with pytest.raises(InvalidArgumentError, match="dtype"):
        numbered_loader(folder, dtype=torch.bfloat16)


def test_shuffle_as_torch_has_it(folder):
    assert numbered_loader(folder, shuffle=False).shuffle == pf.Shuffle(block=None)
    assert numbered_loader(folder, shuffle=True).shuffle == pf.Shuffle()


@pytest.mark.parametrize("cut", [pf.Windows, pf.Packed])
@pytest.mark.parametrize(
    "arguments",
    [
        *({"length": value} for value in [*NUMBERS, 0, 1 << 31]),
        *({"eos": value} for value in ["2", 1.5, True, -1, 1 << 40]),
        *({"bos": value} for value in ["2", 1.5, True, -1]),
    ],
    ids=repr,
)
def test_cuts_refuse(cut, arguments):
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        cut(**({"length": 8} | arguments))


@pytest.mark.parametrize("cut", [pf.Windows, pf.Packed])
def test_separators_have_names(cut):
    parameters = inspect.signature(cut).parameters
    kinds = {parameters[name].kind for name in ("eos", "bos", "join")}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (pf.Windows, {"length": 8, "tail": "padd"}),
        (pf.Windows, {"length": 8, "tail": None}),
        *((pf.Windows, {"length": 8, "overlap": v}) for v in [*NUMBERS, -1, 8]),
        (pf.Packed, {"length": 8, "split": "always"}),
        (pf.Packed, {"length": 8, "method": True}),
        (pf.Documents, {"columns": "text"}),
        (pf.Documents, {"columns": 5}),
        (pf.Documents, {"columns": [5]}),
        *((pf.Documents, {"max_length": v}) for v in ["7", 1.5, True, 0]),
        (pf.Documents, {"max_length": 7, "pad": "shortest"}),
        (pf.Shuffle, {"block": 3}),
        (pf.Shuffle, {"block": ["page"]}),
        *((pf.Shuffle, {"window": v}) for v in WINDOWS),
        *((pf.Shuffle, {"passes": v}) for v in [None, True, 1.5, 0, "2"]),
        (pf.Fields, {"names": "labels"}),
        (pf.Fields, {"names": 3}),
        (pf.Fields, {"names": ("labels",), "shifted": 1}),
        (pf.Fields, {"names": ("labels",), "across_documents": None}),
        *((pf.Stage, {"weights": {"a": 1}, "start_step": v}) for v in [1.5, True, -1]),
        *((pf.Stage, {"weights": {"a": 1}, "start_tokens": v}) for v in ["1", -1]),
        (pf.Stage, {"weights": {"a": 1}, "start_step": 1, "anneal": None}),
        *(
            (pf.Stage, {"weights": v, "start_step": 1})
            for v in [None, [1], {}, {"a": "1"}, {"a": True}, {"a": -1}, {"a": 0}]
        ),
    ],
    ids=repr,
)
def test_settings_refuse(make, arguments):
    with pytest.raises(InvalidArgumentError):
        make(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": "hot"},
        {"temperature": 0},
        {"temperature": True},
        {"temperature": float("nan")},
        {"unit": "token"},
        {"stages": pf.Stage(weights={"a": 1}, start_step=1)},
        {"stages": [{"a": 1}]},
        {"max_epochs": 3},
        {"max_epochs": {"c": 3}},
        {"max_epochs": {"a": 1.5}},
        {"stop": "first"},
        {"stop": True},
        {"max_steps": 1.5},
        {"max_steps": True},
        {"max_tokens": float("inf")},
        {"max_tokens": "1e9"},
    ],
    ids=repr,
)
def test_mix_refuses(dataset, arguments):
    with pytest.raises(InvalidArgumentError):
        pf.mix({"a": dataset, "b": dataset}, **arguments)


@pytest.mark.parametrize(
    "datasets",
    [
        None,
        [],
        {},
        {"a": "folder"},
        {"a": ("folder", 1)},
        {1: None},
        {"a": (1, 2, 3)},
        {"a": ()},
    ],
    ids=repr,
)
def test_mix_refuses_what_is_no_dataset(datasets):
    with pytest.raises(InvalidArgumentError):
        pf.mix(datasets)


def test_numbers_of_numpy_in_a_mixture(dataset):
    stage = pf.Stage(weights={"a": NP.float32(1)}, start_step=NP.int64(5))
    mixture = pf.mix(
        {"a": (dataset, NP.float32(0.5)), "b": (dataset, NP.int64(1))},
        stages=[stage],
        max_steps=NP.int64(9),
        max_epochs={"a": NP.int64(2)},
    )
    plain = pf.mix(
        {"a": (dataset, 0.5), "b": (dataset, 1)},
        stages=[pf.Stage(weights={"a": 1}, start_step=5)],
        max_steps=9,
        max_epochs={"a": 2},
    )
    assert mixture.digest == plain.digest
    loader = pf.Loader(mixture, sequences=pf.Windows(32), batch_size=4)
    assert len(list(loader)) == 9


def test_a_low_temperature_leaves_the_largest(folder, dataset):
    small = pf.parquet(folder / "part-0.parquet", column="input_ids")
    mixture = pf.mix({"a": dataset, "b": small}, temperature=0.01, max_steps=20)
    loader = pf.Loader(mixture, sequences=pf.Windows(32), batch_size=4)
    list(loader)
    assert loader.stats()["a/sequences"] == 80
    even = pf.mix({"a": dataset, "b": small}, temperature=float("inf"), max_steps=20)
    loader = pf.Loader(even, sequences=pf.Windows(32), batch_size=4)
    list(loader)
    assert 32 <= loader.stats()["a/sequences"] <= 48


@pytest.mark.parametrize(
    "arguments",
    [
        {"paths": 3},
        {"paths": [3]},
        {"paths": b"corpus"},
        {"paths": None},
        {"column": 3},
        {"column": ""},
        {"column": None},
        {"metadata": "id"},
        {"metadata": 3},
        {"metadata": [3]},
        {"cache_dir": 3},
        {"page_index": None},
        {"verify_checksums": "no"},
    ],
    ids=repr,
)
def test_datasets_refuse(folder, arguments):
    settings: dict[str, Any] = {"paths": folder, "column": "input_ids"} | arguments
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        pf.parquet(**settings)
    if "metadata" not in arguments:
        with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
            pf.PageIndex.build(**settings)


@pytest.mark.parametrize("arguments", [{"num_threads": 0}, {"refresh": 1}])
def test_an_index_refuses(folder, arguments):
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        pf.PageIndex.build(folder, "input_ids", **arguments)


def test_the_home_folder_in_paths(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(folder))
    dataset = pf.parquet("~/part-0.parquet", column="input_ids")
    assert dataset.files == (str(folder / "part-0.parquet"),)
    monkeypatch.setenv("HOME", str(tmp_path))
    pf.PageIndex.build(folder, "input_ids", "~/cache")
    assert len(list((tmp_path / "cache").iterdir())) >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"sequences": 512},
        {"memory": None},
        {"format": "jax"},
        {"dtype": float},
        {"padding": None},
        {"num_threads": 0},
    ],
    ids=repr,
)
def test_a_view_refuses(dataset, arguments):
    settings: dict[str, Any] = {"sequences": pf.Windows(8)} | arguments
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        pf.SequenceView(dataset, **settings)


def test_settings_of_a_loader_are_read_and_never_set(folder):
    loader = numbered_loader(folder, batch_size=3)
    assert loader.batch_size == 3
    with pytest.raises(AttributeError, match="another Loader with batch_size=5"):
        loader.batch_size = 5
    assert loader.batch_size == 3
