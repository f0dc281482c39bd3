"""Predicates as text: what is accepted, and where the rest goes wrong."""

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.selecting import predicates, text_of
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection.predicate import Predicate


@given(predicates())
def test_predicates_are_read_alike_however_they_are_spaced(tree):
    text = text_of(tree)
    first = Predicate(text)
    assert Predicate(first.text).text == first.text
    assert Predicate(f" ({text})\n ").text == first.text
    assert ast.dump(Predicate(first.text).tree) == ast.dump(first.tree)
    # Over several lines, with a comment behind each.
    lines = re.sub(r" (?=and|or|not|in|is|[<>=!(])", " # a' ) or b\n", text)
    for ending in ("\n", "\r\n"):
        assert Predicate(lines.replace("\n", ending)).text == first.text


@given(st.text(alphabet="ab.'\"()[]=<>! 01-,andornotinisullc\n\\é", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        predicate = Predicate(text)
    except InvalidArgumentError:
        return
    assert predicate.columns


def test_columns_are_named_in_order():
    text = "b.c > 1 and not a and column('x y') in [1] or b.c is null or 3 < d"
    assert Predicate(text).columns == ("b.c", "a", "x y", "d")


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("quality >", "bad syntax", None),
        ("quality = 3", "write == for equality", None),
        ("a > 1 AND b > 1", "write and for AND", None),
        ("a > 1 && b > 1", "write and, or", None),
        ("a <> 1", "write != for <>", None),
        ("a % 2 > 2", "write hash", "a"),
        ("a + 'b' > 2", "not a number", "'b'"),
        ("1 / 0 > a", "division by zero", "1 / 0"),
        ("length(3) > 2", "here a column is expected", "3"),
        ("length(a, b) > 2", "not a column", "length(a, b)"),
        ("startswith(a)", "with the text that is meant", "startswith(a)"),
        ("contains(a, b)", "with the text that is meant", "contains(a, b)"),
        ("contains(a, '') == true", "not a column", "contains(a, '')"),
        ("1 + 2 in [3]", "here a column is expected", "1 + 2"),
        ("a LIKE 'b%'", "startswith.* for LIKE", None),
        ("a between 1 and 5", "1 <= number <= 5 for BETWEEN", None),
        ("class > 1", r"write column\('class'\)", None),
        ("meta.from == 'a'", r"write column\('meta.from'\)", None),
        ("a == 'it''s'", "two texts stand side by side", "'s'"),
        ("a in ['b'\n'c']", "two texts stand side by side", "'c'"),
        ("a == 'b\nc'", "a text lies on one line", None),
        ("a == '''b\nc'''", "a text lies on one line", "'''b"),
        ("a > 1) or (b > 1", "unmatched", ")"),
        ("a > 1 or\n  b + 'c' > 1 # and\n or d", "not a number", "'c'"),
        ("f(a) > 2", "not a column, number or string", "f(a)"),
        ("a == null", "write is null", "null"),
        ("a == None", "write is null", "None"),
        ("a is 3", "followed by null", "3"),
        ("a in 'abc'", "followed by a list", "'abc'"),
        ("a in [b]", "not a number or string", "b"),
        ("a in [1] == b", "nothing can be compared", "[1]"),
        ("a is null < b", "nothing can be compared", "null"),
        ("é == 'ü' and 3", "neither a comparison nor a column", "3"),
        ("1 < 2", "no column", "1 < 2"),
        ("'en'", "neither a comparison", "'en'"),
        ("a if b else c", "neither", "a if b else c"),
        ("__import__('os').system('x')", "neither", None),
        ("[x for x in a]", "neither", None),
        ("a > f'{b}'", "not a column", "f'{b}'"),
        ("(" * 500 + "a" + ")" * 500, "bad", None),
    ],
)
def test_what_is_not_accepted_is_marked(text, message, marked):
    with pytest.raises(InvalidArgumentError, match="predicate is made of") as caught:
        Predicate(text)
    assert re.search(message, str(caught.value))
    if marked is not None:
        *_, source, mark = str(caught.value).splitlines()
        begin = mark.index("^")
        assert source[begin : begin + mark.count("^")] == marked
