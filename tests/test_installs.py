"""Pages say what to install for what they import, in one way."""

import re
import sys

import pytest

from made.shared_data import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
from try_recipes import recipes_by_needs

RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
NEEDS = {
    r"^(import|from) torch|pagefeed\.torch": "torch",
    r"^(import|from) deltalake": "delta",
    r"^(import|from) pyiceberg": "iceberg",
    r"^(import|from) PIL": "Pillow",
    r"--messages ": "chat",
    r"pf\.smoke": "torch",
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


PAGES = [*(ROOT / "docs").rglob("*.md")]


def test_a_page_that_begins_with_an_installation_says_what_to_do_until_then():
    for page in PAGES:
        text = page.read_text()
        if re.search(r"^pip install 'pagefeed", text, re.MULTILINE):
            link = "[install from the repository](../index.md#install)"
            assert link in text or page == ROOT / "docs" / "index.md", page
        assert "pip install pagefeed" not in text, page


EXAMPLES = {
    path.name: path.read_text().split('"""')[1]
    for path in (ROOT / "examples").rglob("*.py")
}
NAMED = [
    (page, name)
    for page in PAGES
    for name in sorted(
        set(re.findall(r"examples/(?:trainers/)?(\w+\.py)", page.read_text()))
    )
]


@pytest.mark.parametrize(
    ("page", "name"), NAMED, ids=lambda value: getattr(value, "stem", value)
)
def test_an_example_is_named_with_the_command_that_runs_it(page, name):
    command = rf"(?:python|torchrun --nproc-per-node \d) examples/(?:trainers/)?{name}"
    shown = re.findall(rf"{command}([^`\n]*)", page.read_text())
    usages = re.findall(rf"{name}([^\n\[]*)", EXAMPLES[name])
    assert shown
    for arguments in shown:
        counts = {len(usage.strip(' ."').split()) for usage in usages}
        assert len(arguments.split()) in counts


def test_every_recipe_is_tried_with_the_wheel_and_what_it_names():
    groups = recipes_by_needs()
    assert sorted(page for pages in groups.values() for page in pages) == RECIPES
    assert {("demo",), ("demo,torch",), ("demo", "Pillow")} <= {*groups}
    for (extras, *others), pages in groups.items():
        for page in pages if (extras, *others) != ("demo",) else ():
            assert f"'pagefeed[{extras}]'" in page.read_text()
