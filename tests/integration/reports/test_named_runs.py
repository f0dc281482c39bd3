"""Verbs know a run by the code that makes it, and say what is wrong with its name."""

import json
import re
import sys
import warnings
from functools import partial

import pytest

import pagefeed as pf
from made.named import name_run
from made.numbered import LENGTH, write_numbered
from pagefeed.cli import VERBS, main, make_parser
from pagefeed.cli.common import show_warning

CODE = f"""
import pagefeed as pf
from other_file import FOLDER

def make_data():
    return pf.parquet(FOLDER, column="input_ids")

def make_mixture(weight=0.5):
    return pf.mix({{"a": (make_data(), weight), "b": (make_data(), 0.5)}}, max_steps=7)

def make_loader(batch_size=4, memory="64MiB", mixed=False, **more):
    cut = pf.Windows({LENGTH})
    data = make_mixture() if mixed else make_data()
    return pf.Loader(data, sequences=cut, batch_size=batch_size, memory=memory, **more)

def needs(steps):
    return make_loader()

def fails():
    return {{}}["key"]

def refused():
    return make_loader(batch_size=0)

def returns_nothing():
    pass

loader = make_loader()
"""


RUN = "my_run.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "data").mkdir()
    write_numbered(folder / "data")
    (folder / "other_file.py").write_text("FOLDER = 'data'\n")
    (folder / RUN).write_text(CODE)
    (folder / "trains.py").write_text("import sys\nsys.exit('no process group')\n")
    (folder / "breaks.py").write_text("import not_installed\n")
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.chdir(folder)


def told(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "words",
    [
        ["my_run.py:make_loader"],
        ["my_run:make_loader"],
        ["my_run.py:loader"],
        ["my_run.py:make_data", "--length", str(LENGTH), "--batch-size", "4"],
    ],
    ids=" ".join,
)
def test_a_run_is_what_its_code_makes(words, capsys):
    alone = told(capsys, "plan", *words)
    data = pf.parquet("data", column="input_ids")
    loader = pf.Loader(data, sequences=pf.Windows(LENGTH), batch_size=4)
    assert alone["steps"] == pf.forecast(loader).steps
    many = told(capsys, "plan", *words, "--world-size", "3")
    cut = pf.Windows(LENGTH)
    of_three = pf.Loader(data, sequences=cut, batch_size=4, rank=0, world_size=3)
    assert (many["steps"], many["num_lanes"]) == (
        pf.forecast(of_three).steps,
        pf.forecast(of_three).num_lanes,
    )


def test_settings_are_values_or_words(capsys):
    words = [f"{RUN}:make_loader", "--set", "batch_size=2", "--set", "memory=32MiB"]
    words += ["--set", "seed=5", "--set", "mixed=true"]
    plan = told(capsys, "plan", *words)
    assert (plan["steps"], plan["memory_bytes"]) == (7, 32 << 20)
    assert [*plan["datasets"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("my_rnu.py:make_loader", "my_rnu.py does not exist: did you mean my_run.py?"),
        ("my_rnu:make_loader", "No module named 'my_rnu'"),
        ("my_run.py:make_loadr", "no make_loadr .* did you mean make_loader"),
        ("my_run.py", "names no function: write FILE.py:NAME, such as my_run.py:make"),
        ("my_run.py:", "names no function"),
        ("my_run.py:needs", "needs steps: give --set steps=VALUE"),
        ("my_run.py:fails", r"KeyError: 'key' \(my_run.py, line 20\)"),
        ("my_run.py:refused", r"batch_size=0 .*\n.*failed \(my_run.py, line 14\)"),
        ("my_run.py:returns_nothing", "made None: let it return the loader"),
        ("trains.py:make", r"no process group \(trains.py, line 2\).*__main__"),
        ("breaks.py:make", r"not_installed.* \(breaks.py, line 1\)"),
        ("my_run.py:make_mixture --set wieght=1", "did you mean weight"),
        ("my_run.py:make_mixture --set weight=much", "weight=much is not a number"),
        ("my_run.py:make_mixture --set weight", "of the form --set NAME=VALUE"),
        ("my_run.py:loader --set seed=1", "my_run.py:loader is not a function"),
        ("my_run.py:loader --length 8", "--length is for paths"),
        ("my_run.py:make_data --column text", "--column is for paths"),
        ("my_run.py:make_data", "--length is missing"),
        ("my_run.py:loader --world-size 0", "world_size=0|--world-size=0"),
        ("my_run.py:loader data", "give one function alone"),
        ("data --set seed=1", "--set is for a function"),
        ("", "name the function that makes the loader, such as train.py:make_loader"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(capsys, words, said):
    assert main(["plan", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pagefeed: InvalidArgumentError: ")
    assert re.search(said, error), error


@pytest.mark.parametrize("flag", ["--mix", "--stage", "--max-steps", "--passes"])
def test_what_makes_a_run_is_said_by_code(capsys, flag):
    with pytest.raises(SystemExit):
        main(["plan", f"{RUN}:loader", flag, "1"])
    assert "name it, such as train.py:make_loader" in capsys.readouterr().err


def test_every_verb_of_a_run_takes_code(capsys):
    [verbs] = [a.choices for a in make_parser()._actions if isinstance(a.choices, dict)]
    more = {
        "doctor": ["--seconds", "0.01"],
        "export": ["--output", "arrays"],
        "report": ["--output", "page.html"],
        "smoke": ["--steps", "2"],
        "stage": ["--output", "staged"],
        "trace": ["--step", "1"],
    }
    taking = [verb for verb in VERBS if "--set" in verbs[verb]._option_string_actions]
    assert len(taking) >= 9
    for verb in taking:
        assert main([verb, f"{RUN}:loader", *more.get(verb, [])]) in (0, 1), verb
        assert "pagefeed: " not in capsys.readouterr().err
    flags = [n for n in verbs["plan"]._option_string_actions if n.startswith("--")]
    assert len(flags) < 22


@pytest.mark.parametrize("place", ["user", "package"])
def test_warnings_name_a_line_of_the_user_or_flags(capsys, place):
    options = make_parser().parse_args(["plan", "data", "--batch-size", "4"])
    options.words = ["plan", "data", "--batch-size", "4", "--column", "input_ids"]
    file = RUN if place == "user" else pf.__file__
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = partial(show_warning, options)
        warnings.warn_explicit("batch_size=4", pf.errors.PagefeedWarning, file, 3)
    said = {"user": "my_run.py:3: PagefeedWarning: batch_size=4"}
    assert capsys.readouterr().err.strip() == said.get(
        place, "pagefeed: PagefeedWarning: --batch-size=4"
    )


def test_other_data_and_epochs(capsys):
    loader = pf.Loader(
        pf.parquet("data", column="input_ids"),
        sequences=pf.Windows(LENGTH),
        batch_size=2,
    )
    first = told(capsys, "trace", name_run(loader), "--step", "0", "--row", "0")
    words = ["trace", name_run(loader), "--step", "0", "--row", "0", "--epoch", "1"]
    assert told(capsys, *words) != first
