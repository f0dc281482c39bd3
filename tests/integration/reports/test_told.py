"""Reports of functions print as those of verbs, at the width of the terminal."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from made.numbered import LENGTH, write_numbered
from pagefeed.cli import main


@pytest.fixture
def loader(tmp_path):
    write_numbered(tmp_path)
    data = pf.parquet(tmp_path, column="input_ids")
    return pf.Loader(data, sequences=pf.Windows(LENGTH), batch_size=4)


REPORTS: dict[str, Any] = {
    "plan": pf.forecast,
    "verify": pf.verify,
    "inspect": lambda loader: pf.inspect(loader.dataset),
    "smoke": lambda loader: pf.smoke(loader, steps=2),
}


@pytest.mark.parametrize("verb", REPORTS)
@pytest.mark.parametrize("width", [40, 80, 400])
def test_a_report_prints_as_its_verb(loader, capsys, monkeypatch, verb, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = str(REPORTS[verb](loader))
    more = ["--steps", "2"] if verb == "smoke" else []
    assert main([verb, name_run(loader), *more]) in (0, 1)
    said = capsys.readouterr().out.strip().splitlines()
    lines = text.strip().splitlines()
    assert len(lines) > 1
    # Times and rates differ.
    same = sum(a == b for a, b in zip(lines, said, strict=False))
    assert same >= 0.5 * len(lines)
    assert max(map(len, lines)) <= max(width, 60)


@pytest.mark.parametrize("verb", REPORTS)
def test_notebooks_show_tables(loader, verb):
    shown = REPORTS[verb](loader)._repr_html_()
    assert shown.startswith("<")
    assert ("<table>" in shown) == (verb != "verify")


def test_inspect_without_a_column_lists_the_columns(tmp_path, capsys):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["a"], "id": [1]}), path)
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "--column" in said
    assert "text    string" in said
