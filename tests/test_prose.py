"""The documentation reads well: short sentences and pages, plain words."""

import re
import subprocess
import sys

from made.prose import first_paragraph, sentences_of, words_of
from made.shared_data import ROOT
from made.source_prose import headlines_of_source, sentences_of_source

sys.path.insert(0, str(ROOT / "packaging"))
import draw_docs

LONGEST_SENTENCE = 30
LONGEST_PAGE = 300
# Words of the house, in place of those of the field, and words written twice.
HOUSE = r"feeds?|errands?|pieces?|held(?![- ]out)"
TWICE = r"the the|a a|is is|of of|to to|and and|in in"
# Habits that hide the noun or the verb: with, after, reported, again, continues, not a.
# ``beside=`` and ``behind=`` are names of arguments.
HABITS = (
    r"(?<!--)beside(?![:=])|told|anew|so many|behind(?!:| the server)"
    r"|(?:goes|go|going|went) on|nobody|whoever|whatever"
    r"|of (?:its|their) own|of now|once more"
    r"|(?<!there )(?:is|are|was|were) no (?!more|longer|other|less|way|need|such)"
)
BANNED = re.compile(rf"\b(?:{HOUSE}|{TWICE})\b", re.IGNORECASE)
HABIT = re.compile(rf"\b(?:{HABITS})\b|(?-i:(?:^|: )Of (?!course))", re.IGNORECASE)
LISTED = ["git", "ls-files", "*.md", "python", "crates"]
WRITTEN = subprocess.run(LISTED, cwd=ROOT, capture_output=True, text=True, check=True)
CLEAN = re.compile(r"python/pagefeed/.*\.pyi?$|crates/.*\.rs$")
"""Source that follows the rule."""
HEADLINE = re.compile(r"(?:What|Which|Where|How|Who)\b")
GUIDES = ("explanation", "reference", "tutorials", "coming-from", "recipes")
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for part in GUIDES for page in sorted((ROOT / "docs" / part).glob("*.md"))),
]


def test_pages_are_short_and_plain():
    for page in PAGES:
        text, name = page.read_text(), page.relative_to(ROOT)
        assert text.count("\n") <= LONGEST_PAGE, name
        assert first_paragraph(text), f"{name} must say what the reader can do"
        sentences = list(sentences_of(text))
        long = [each for each in sentences if len(words_of(each)) > LONGEST_SENTENCE]
        assert not long, name
        assert not [each for each in sentences if BANNED.search(each)], name


def test_no_habit_hides_what_is_meant():
    """One rule for pages, docstrings, comments and errors."""
    for name in WRITTEN.stdout.split():
        if name.endswith(".md"):
            sentences = list(sentences_of((ROOT / name).read_text()))
        elif CLEAN.match(name):
            sentences = list(sentences_of_source(ROOT / name))
        else:
            continue
        assert not [each for each in sentences if HABIT.search(each)], name


def test_headlines_have_a_noun():
    for name in WRITTEN.stdout.split():
        if CLEAN.match(name):
            found = [*headlines_of_source(ROOT / name)]
            assert not [each for each in found if HEADLINE.match(each)], name


def test_what_is_refused_is_found():
    page = "# Title\n\nOne of `a b c` beside it. " + "Many words " * 16 + "here.\n"
    first, second = sentences_of(page)
    assert HABIT.search(first)
    assert len(words_of(first)) == 5
    assert len(words_of(second)) == 33
    assert HABIT.search("Of flat files, tokens.")
    assert not HABIT.search("Of course the order goes one way.")
    assert not first_paragraph("# Title\n\n```python\na = 1\n\nb = 2\n```\n\nText.\n")


def test_pictures_are_what_the_script_draws():
    for name, text in draw_docs.pictures().items():
        assert (draw_docs.FOLDER / name).read_text() == text
