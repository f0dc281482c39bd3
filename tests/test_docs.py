"""What the pages of docs/ show works as shown."""

import re

import pytest

from shared_data import ROOT

FENCE = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for text in FENCE.findall(page.read_text()):
        exec(compile(text, page.name, "exec"), namespace)
