"""Words that mean something of their own here are explained where they are met."""

import re

import pytest

from made.shared_data import ROOT

DOCS = ROOT / "docs"
WORDS = re.findall(
    r"^## (\w+)$", (DOCS / "reference" / "words.md").read_text(), re.MULTILINE
)
FIRST = {
    "shuffling": ("page", "lane", "window", "sequence", "block"),
    "sequences": ("sequence",),
    "running": ("step",),
    "uncounted": ("page", "block"),
}
"""Which words a guide links; every guide links lanes, which no other library has."""
GUIDES = sorted((DOCS / "explanation").glob("*.md"))


def test_each_word_has_a_section_and_a_line():
    text = (DOCS / "reference" / "words.md").read_text()
    assert WORDS == ["Page", "Block", "Sequence", "Lane", "Window", "Step"]
    for word in WORDS:
        assert f"| [{word.lower()}](#{word.lower()}) |" in text


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_word_is_linked_where_it_is_first_used(page):
    prose = re.sub(r"```.*?```|`[^`]*`|!\[.*?\)", "", page.read_text(), flags=re.DOTALL)
    met = ("lane",) if re.search(r"\blanes?\b", prose) else ()
    for word in {*met, *FIRST.get(page.stem, ())}:
        link = re.search(rf"\[{word}s?\]\(\.\./reference/words\.md#{word}\)", prose)
        assert link is not None, word
        if word == "lane":
            assert not re.search(r"\blanes?\b", prose[: link.start()])
