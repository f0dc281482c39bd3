"""The documentation reads well: short sentences and pages, plain words."""

import re
import sys

import pytest

from made.prose import first_paragraph, sentences_of, words_of
from made.shared_data import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import draw_docs

LONGEST_SENTENCE = 30
LONGEST_PAGE = 300
# Words of the house, in place of those of the field, and words written twice.
HOUSE = r"feeds?|errands?|pieces?|beside|told|held(?![- ]out)"
TWICE = r"the the|a a|is is|of of|to to|and and|in in"
BANNED = re.compile(rf"\b(?:{HOUSE}|{TWICE})\b", re.IGNORECASE)
GUIDES = ("explanation", "reference", "tutorials", "coming-from", "recipes")
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for part in GUIDES for page in sorted((ROOT / "docs" / part).glob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_short_and_plain(page):
    text = page.read_text()
    assert text.count("\n") <= LONGEST_PAGE
    assert first_paragraph(text), "the first paragraph says what the reader can do"
    sentences = list(sentences_of(text))
    long = [each for each in sentences if len(words_of(each)) > LONGEST_SENTENCE]
    assert not long
    assert not [each for each in sentences if BANNED.search(each)]


def test_what_is_refused_is_found():
    page = "# Title\n\nOne of `a b c` beside it. " + "Many words " * 16 + "here.\n"
    first, second = sentences_of(page)
    assert BANNED.search(first)
    assert len(words_of(first)) == 5
    assert len(words_of(second)) == 33
    assert not first_paragraph("# Title\n\n```python\na = 1\n\nb = 2\n```\n\nText.\n")


def test_pictures_are_what_the_script_draws():
    for name, text in draw_docs.pictures().items():
        assert (draw_docs.FOLDER / name).read_text() == text


# What users ask, in their words: the site's search ranks headings first.
QUESTIONS = (
    "resume in the middle of an epoch",
    "resume with another number of GPUs",
    "same order every epoch",
    "DataLoader workers duplicate data",
    "uneven ranks hang",
    "drop_last and evaluation",
    "memory grows",
    "S3 is slow",
    "hub answers 429",
    "first batch takes minutes",
    "how to shuffle well",
    "packing and attention masks",
    "labels for chats",
    "mix datasets by tokens",
    "change weights later",
    "skip a loss spike",
    "which document was in this batch",
    "use my own tokenizer",
    "DPO or GRPO rows",
    "many nodes and one bucket",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_found_by_their_words(question):
    headings = [
        set(re.findall(r"\w+", line.lower()))
        for page in PAGES
        for line in page.read_text().splitlines()
        if line.startswith("#")
    ]
    words = set(re.findall(r"\w+", question.lower()))
    assert any(words <= heading for heading in headings)
