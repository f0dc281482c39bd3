"""The tutorial on a fleet that loses a replica does what it shows."""

import re

import pytest

from made import pages
from trainers.running import TESTS

pytest.importorskip("torchft", reason="make test-trainers ARGS=torchft")

PAGE = TESTS.parent / "docs/tutorials/elastic-fleet.md"


@pytest.mark.timeout(600)
def test_the_tutorial_shows_that_nothing_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pages, "LONGEST", 500)
    text = re.sub(r"<!-- not run: [^>]+ -->\n+", "", PAGE.read_text())
    shown = 0
    with pages.surroundings(text.replace(pages.MAKES_DATA, "")):
        for block in pages.run_page(text.replace(pages.MAKES_DATA, "")):
            assert block.is_as_shown, f"{block.printed}\n{block.output}"
            shown += block.output is not None
    assert shown == 1
