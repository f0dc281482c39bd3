"""Pages say what to install for what they import, in one way."""

import re

import pytest

from made.shared_data import ROOT

RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
NEEDS = {
    r"^(import|from) torch|pagefeed\.torch": "torch",
    r"^(import|from) deltalake": "delta",
    r"^(import|from) pyiceberg": "iceberg",
    r"^(import|from) PIL": "Pillow",
    r"--messages ": "chat",
}
"""What a page uses beyond the extra ``demo``."""


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_names_what_it_needs(page):
    text = page.read_text()
    code = "\n".join(re.findall(r"```(?:python|bash)\n(.*?)```", text, re.DOTALL))
    needed = {n for use, n in NEEDS.items() if re.search(use, code, re.MULTILINE)}
    said = re.findall(r"pip install '[.\w]*\[([\w,]+)\]'( \w+)?", text)
    named = {
        word.strip() for both in said for words in both for word in words.split(",")
    }
    assert needed <= named


@pytest.mark.parametrize("name", ["docs/index.md", "docs/recipes/index.md"])
def test_first_pages_say_what_to_do_before_there_are_wheels(name):
    text = (ROOT / name).read_text()
    assert "pip install '.[demo]'" in text
    assert "make wheel" in text


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_that_keeps_pages_says_where(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        assert "storage_cache=" not in code or '"storage_cache_dir"' in code
