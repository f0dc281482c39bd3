"""Notebooks of docs/ run, and print what they show."""

import json
import shutil

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


def test_there_are_four_notebooks():
    assert len(NOTEBOOKS) == 4
