"""A misspelt name raises an error that names it, and the name that was meant."""

import pickle
from collections.abc import Callable
from inspect import getmembers, isfunction, signature
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from pagefeed.dataset import ParquetDataset

CALLS: dict[str, Callable[..., Any]] = {
    name: getattr(pf, name)
    for name in ("parquet", "mix", "Loader", "Packed", "Windows", "Documents")
}
MISSPELT = [
    (name, argument)
    for name, call in CALLS.items()
    for argument, parameter in signature(call).parameters.items()
    if parameter.kind == parameter.KEYWORD_ONLY
]


def misspelt(name: str) -> str:
    """Leave out a letter in the middle."""
    return name[: len(name) // 2] + name[len(name) // 2 + 1 :]


@pytest.mark.parametrize(("call", "argument"), MISSPELT)
def test_unknown_arguments_suggest_the_nearest(call, argument):
    wrong = misspelt(argument)
    told = rf"unexpected keyword argument '{wrong}'.*[Dd]id you mean '{argument}'"
    with pytest.raises(TypeError, match=told):
        CALLS[call](**{wrong: 1})


METHODS = [
    (kind, name)
    for kind in (pf.Loader, pf.Mixture, pf.Tokenizer, pf.StreamWriter, ParquetDataset)
    for name, method in getmembers(kind, isfunction)
    if name[0] != "_" and "**" not in str(signature(method))
]


@pytest.mark.parametrize(
    ("kind", "method"),
    METHODS,
    ids=[f"{kind.__name__}.{name}" for kind, name in METHODS],
)
def test_methods_suggest_the_nearest_argument(kind, method):
    _, *arguments = signature(getattr(kind, method)).parameters.values()
    for argument in arguments:
        wrong = misspelt(argument.name)
        told = rf"argument '{wrong}'.*[Dd]id you mean '{argument.name}'"
        with pytest.raises(TypeError, match=told):
            getattr(kind, method)(None, **{wrong: 1})


@pytest.mark.parametrize(
    "kind", [pf.Loader, pf.TextLoader, pf.Mixture, ParquetDataset, pf.Tokenizer]
)
def test_errors_of_methods_name_the_class_of_the_object(kind):
    methods = [name for of, name in METHODS if of is kind]
    for name in methods or ["state_dict"]:
        error = rf"^{kind.__name__}\.{name}\(\) got an unexpected .* 'zzzz'$"
        with pytest.raises(TypeError, match=error):
            getattr(object.__new__(kind), name)(zzzz=1)


def test_steps_of_a_loop_are_not_wrapped():
    for name in ("__iter__", "__next__"):
        for kind in (pf.Loader, pf.Mixture):
            assert not hasattr(getattr(kind, name, None), "__wrapped__")


def test_other_type_errors_stay_as_they_are():
    with pytest.raises(TypeError, match=r"missing 1 required .*'column'$"):
        pf.parquet("data")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzzz'$"):
        pf.Windows(8, zzzz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["parquet", "Loader", "Packed", "with_images"])
def test_unknown_attributes_suggest_the_nearest(name):
    with pytest.raises(AttributeError, match=rf"no attribute .*did you mean '{name}'"):
        getattr(pf, misspelt(name))


def test_public_functions_are_still_those_of_the_module():
    for name in ("parquet", "mix", "Loader"):
        thing = getattr(pf, name)
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert (thing.__name__, thing.__module__) == (name, "pagefeed")


def test_unknown_choices_suggest_the_nearest(tmp_path):
    (tmp_path / "a.bin").write_bytes(np.arange(64, dtype="<u2").tobytes())
    data = pf.tokens(tmp_path / "a.bin", dtype="uint16")
    right: dict[str, Any] = {"sequences": pf.Windows(8), "batch_size": 2}
    for wrong, meant in (
        ({"format": "toch"}, "torch"),
        ({"shuffle": "pge"}, "page"),
        ({"fields": ("input_ids", "lables")}, "labels"),
    ):
        with pytest.raises(pf.PagefeedError, match=f"did you mean '{meant}'"):
            pf.Loader(data, **right | wrong)
