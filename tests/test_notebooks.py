"""Notebooks of docs/ run, and print what they show."""

import json
import re
import shutil
import tomllib

import pytest

from made.notebooks import run_notebook, shown
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "corpus"
    write_data(folder)
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_and_print_what_is_shown(path, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(corpus, "corpus")
    for cell, printed in run_notebook(json.loads(path.read_text())):
        if "varies" not in cell["metadata"].get("tags", ()):
            assert printed == shown(cell), "".join(cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_installs_what_an_empty_environment_needs(path):
    first = next(
        c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"
    )
    extra = re.fullmatch(
        r'%pip install --quiet "pagefeed\[(\w+)\]"', "".join(first["source"])
    )
    assert extra is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra[1] in project["optional-dependencies"]


def test_there_are_four_notebooks():
    assert len(NOTEBOOKS) == 4
